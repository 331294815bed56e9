//! The newest events of all plans, over as many requests as the search takes.

use goalmill_common::json::Json;
use goalmill_common::view::Page;
use serde::Deserialize;

use crate::{Client, ClientError, LogQuery, escaped};

/// What a cursor begins with when all newer events were given.
const OLDER: &str = "older:";

impl Client {
    /// The newest events of all plans, oldest first. One request looks at so many events only: the next one continues.
    pub async fn logs(&self, query: &LogQuery) -> Result<Page<Json>, ClientError> {
        let mut page = self.log_page(query, "").await?;
        let is_whole = page.next.is_none();
        while let Some(next) = page.next.take() {
            if next.starts_with(OLDER) && page.items.len() >= usize::from(query.limit) {
                break;
            }
            let more = self.log_page(query, &next).await?;
            page.items.extend(more.items);
            page.next = more.next;
        }
        if !is_whole {
            page.items = newest_events(page.items, usize::from(query.limit))?;
        }
        Ok(page)
    }

    async fn log_page(&self, query: &LogQuery, cursor: &str) -> Result<Page<Json>, ClientError> {
        let mut url = format!("/v1/logs?since_ms={}&limit={}", query.since_ms, query.limit);
        let types = query.types.join(",");
        let plan = query.plan.as_ref().map_or("", |plan| plan.as_str());
        for (name, value) in [
            ("plan", plan),
            ("step", query.step.as_str()),
            ("types", types.as_str()),
            ("phase", query.phase.as_str()),
            ("text", query.text.as_str()),
            ("where", query.conditions.as_str()),
            ("cursor", cursor),
        ] {
            if !value.is_empty() {
                url.push_str(&format!("&{name}={}", escaped(value)));
            }
        }
        self.get(&url).await
    }
}

/// The newest of the events of several pages, oldest first.
fn newest_events(mut items: Vec<Json>, limit: usize) -> Result<Vec<Json>, ClientError> {
    #[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    struct Place {
        time: String,
        plan_id: String,
        seq: u64,
    }
    let place = |item: &Json| -> Result<Place, ClientError> {
        serde_json::from_str(item.text())
            .map_err(|error| ClientError::InvalidEvent { event: item.text().to_owned(), reason: error.to_string() })
    };
    items.iter().try_for_each(|item| place(item).map(drop))?;
    items.sort_by_cached_key(|item| place(item).ok());
    items.drain(..items.len().saturating_sub(limit));
    Ok(items)
}
