//! The plan that a person means: an id, a part of one, or `@latest`.

use goalmill_common::id::{PlanId, is_id};
use goalmill_common::status::PlanStatus;
use goalmill_common::view::PlanSummary;

use crate::{Client, ClientError, PlanQuery};

/// Pages of plans that are looked through for a part of an id.
const SEARCH_PAGES: usize = 20;
/// The newest plan is looked for among so many, last changed first.
const LATEST_OF: usize = 100;
/// Characters of an id after its shard, at the least: sub-plans have more.
const ID_CHARS: usize = 16;

impl Client {
    /// The id of the plan that `text` means: an id, a unique beginning or end of one, `@latest` or `@last-failed`.
    pub async fn resolve(&self, text: &str) -> Result<PlanId, ClientError> {
        if text == "@latest" {
            return Box::pin(self.newest()).await;
        }
        if text == "@last-failed" {
            return self.last_failed().await;
        }
        // It becomes part of an address: with `/`, `?` or `#` it would name another one.
        if !is_id(text) {
            return Err(ClientError::InvalidSelector(text.to_owned()));
        }
        let id = PlanId::from(text);
        if is_whole_id(&id) { Ok(id) } else { self.search(text).await }
    }

    /// The plan that was made last, of those that are in no other one.
    async fn newest(&self) -> Result<PlanId, ClientError> {
        let page = self.plans(&PlanQuery { limit: LATEST_OF, ..PlanQuery::default() }).await?;
        let mut found = newest_first(page.items).into_iter();
        let first = found.next().ok_or(ClientError::NoPlans)?;
        for id in std::iter::once(first.clone()).chain(found) {
            if self.plan(&id).await?.summary.parent.is_none() {
                return Ok(id);
            }
        }
        Ok(first)
    }

    /// The plan that failed last.
    async fn last_failed(&self) -> Result<PlanId, ClientError> {
        let mut query = PlanQuery { limit: 1, status: Some(PlanStatus::Failed), ..PlanQuery::default() };
        loop {
            let page = self.plans(&query).await?;
            if let Some(plan) = page.items.into_iter().next() {
                return Ok(plan.plan_id);
            }
            // A page may be empty and yet not the last: the server looks at so many plans for one page.
            query.cursor = page.next;
            if query.cursor.is_none() {
                return Err(ClientError::NoFailedPlan);
            }
        }
    }

    /// Looks through the newest plans.
    async fn search(&self, part: &str) -> Result<PlanId, ClientError> {
        let mut found: Vec<PlanId> = Vec::new();
        let mut query = PlanQuery { limit: 200, ..PlanQuery::default() };
        for _ in 0..SEARCH_PAGES {
            let page = self.plans(&query).await?;
            found.extend(page.items.into_iter().map(|plan| plan.plan_id).filter(|id| means(part, id)));
            query.cursor = page.next;
            if query.cursor.is_none() || found.len() > 1 {
                break;
            }
        }
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(ClientError::UnknownPlan(part.to_owned())),
            [first, second, ..] => Err(ClientError::AmbiguousSelector {
                selector: part.to_owned(),
                first: first.clone(),
                second: second.clone(),
            }),
        }
    }
}

fn is_whole_id(id: &PlanId) -> bool {
    id.shard().is_some() && id.as_str().split_once('-').is_some_and(|(_, rest)| rest.len() >= ID_CHARS)
}

/// Plans in the order in which they were made, the last one first; of those made at the same time the one listed first.
fn newest_first(mut plans: Vec<PlanSummary>) -> Vec<PlanId> {
    plans.sort_by(|a, b| b.created_at.cmp(&a.created_at));
    plans.into_iter().map(|plan| plan.plan_id).collect()
}

/// Whether `part` begins or ends the id, with or without its shard.
fn means(part: &str, id: &PlanId) -> bool {
    let text = id.as_str();
    let rest = text.split_once('-').map_or(text, |(_, rest)| rest);
    text.starts_with(part) || rest.starts_with(part) || rest.ends_with(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_id_is_its_beginning_or_its_end() {
        let id = PlanId::from("p0-01kb3v0x5c8q2k4w");
        for part in ["p0-01kb", "01kb", "2k4w", "p0-01kb3v0x5c8q2k4w"] {
            assert!(means(part, &id), "{part}");
        }
        assert!(!means("p1", &id) && !means("3v0x", &id));
        assert!(is_whole_id(&id) && !is_whole_id(&"p0-01kb".into()) && !is_whole_id(&"x".into()));
    }

    #[tokio::test]
    async fn an_id_that_would_change_the_address_is_refused() {
        let client = Client::new("http://127.0.0.1:1").expect("it is an address");
        let whole = "p0-01kb3v0x5c8q2k4w";
        assert_eq!(client.resolve(whole).await, Ok(whole.into()));
        for end in [":approve#", ":approve?x=", "/steps/a", "/../../tokens", "%3aapprove", "\n"] {
            let text = format!("{whole}{end}");
            assert_eq!(client.resolve(&text).await, Err(ClientError::InvalidSelector(text.clone())), "{text}");
        }
    }

    #[test]
    fn the_latest_plan_is_the_one_made_last_not_the_one_changed_last() {
        let plan = |id: &str, created: &str| -> PlanSummary {
            serde_json::from_value(serde_json::json!({
                "plan_id": id, "status": "running", "name": "", "revision": 0, "counts": goalmill_common::status::Counts::default(),
                "progress": 0.0, "usage": {"tokens": 0, "cost": 0.0}, "created_at": created, "updated_at": created, "seq": 1,
            }))
            .expect("it is a summary")
        };
        let plans = vec![plan("p0-old", "2026-01-01T00:00:00.000Z"), plan("p0-new", "2026-01-01T00:00:00.001Z")];
        assert_eq!(newest_first(plans), ["p0-new".into(), "p0-old".into()]);
    }
}
