//! The newest events of all plans, or of some: what has been going on.

use axum::Json;
use axum::extract::State;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_common::event::{self, Record};
use goalmill_common::id::{PlanId, ShardId, is_id};
use goalmill_common::json::Json as Text;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::Page;

use super::Api;
use super::answer::{self, Refusal};
use super::query::{Given, Parameters, Query};
use crate::{ask, journal};

/// Events given at once, unless asked for fewer.
const PAGE: usize = 200;
const PAGE_MAX: usize = 1_000;
/// How far back is looked, unless told, in milliseconds.
const SINCE_MS: u64 = 3_600_000;
/// Plans of one shard that are looked at, those that changed last.
const PLANS_MAX: usize = 200;
/// Events of one plan that are looked at.
const LOOKED_AT_MAX: u64 = 20_000;
/// Events of one plan read at once, from the end of its log backwards.
const PORTION: u64 = 500;
/// Logs read at once.
const AT_ONCE: usize = 16;

#[derive(schemars::JsonSchema)]
pub(crate) struct LogsQuery {
    /// Only of this plan.
    plan: Option<String>,
    /// Only of steps with this id, and events of plans that list it.
    step: Option<String>,
    /// Only of these types, separated by commas.
    types: Option<String>,
    /// Only events since then, Unix milliseconds; of the last hour unless told.
    since_ms: Option<u64>,
    /// Events, at most 1000; 200 unless told.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
}

impl Parameters for LogsQuery {
    const NAMES: &'static [&'static str] = &["plan", "step", "types", "since_ms", "limit"];

    fn read(given: &mut Given) -> Self {
        let id = |text: &str| match is_id(text) {
            true => Ok(text.to_owned()),
            false => Err((format!("`{}` is not an id", answer::shown(text)), "give the step's id".to_owned())),
        };
        Self {
            plan: given.value("plan", |text| Ok(text.to_owned())),
            step: given.value("step", id),
            types: given.value("types", |text| types(text).map(|_| text.to_owned())),
            since_ms: given.number("since_ms", 0..=u64::MAX),
            limit: given.number("limit", 1..=PAGE_MAX),
        }
    }
}

/// What is looked for.
struct Filter {
    step: Option<String>,
    types: Vec<String>,
    since_ms: u64,
    limit: usize,
}

impl Filter {
    fn fits(&self, record: &Record) -> bool {
        record.time_ms >= self.since_ms
            && self.step.as_deref().is_none_or(|step| record.event.concerns(step))
            && (self.types.is_empty() || self.types.iter().any(|name| name == record.event.type_name()))
    }
}

/// The newest events that fit, oldest first.
pub(crate) async fn list(State(api): State<Api>, Query(query): Query<LogsQuery>) -> Result<Json<Page<Text>>, Refusal> {
    let filter = Filter {
        step: query.step,
        types: query.types.as_deref().and_then(|listed| types(listed).ok()).unwrap_or_default(),
        since_ms: query.since_ms.unwrap_or_else(|| api.site.clock.now_ms().saturating_sub(SINCE_MS)),
        limit: query.limit.unwrap_or(PAGE),
    };
    let plans = match query.plan {
        Some(plan) => {
            let plan = PlanId::from(plan);
            ask::shard_of(&api.site, &plan)?;
            vec![plan]
        }
        None => changed_since(&api, filter.since_ms).await?,
    };
    let (api, filter) = (&api, &filter);
    let read = async |plan: PlanId| {
        let found = newest(api, &plan, filter).await?;
        Ok::<_, Refusal>(found.into_iter().map(|record| (plan.clone(), record)).collect::<Vec<_>>())
    };
    let found: Vec<Vec<(PlanId, Record)>> =
        stream::iter(plans.into_iter().map(read)).buffered(AT_ONCE).try_collect().await?;
    let mut events: Vec<(PlanId, Record)> = found.into_iter().flatten().collect();
    events.sort_by(|(a, one), (b, other)| (one.time_ms, a, one.seq).cmp(&(other.time_ms, b, other.seq)));
    events.drain(..events.len().saturating_sub(filter.limit));
    let items = events.iter().map(|(plan, record)| line(plan, record)).collect();
    Ok(Json(Page { items, next: None }))
}

/// The types of a list with commas; each must be one that there is. Else the reason and the hint.
fn types(listed: &str) -> Result<Vec<String>, (String, String)> {
    let one = |name: &str| {
        if event::types().any(|known| known == name) {
            return Ok(name.to_owned());
        }
        let all: Vec<&str> = event::types().collect();
        let detail = format!("there are no events of the type `{}`; there are {}", answer::shown(name), all.join(", "));
        Err((detail, "name some of these types, separated by commas, or leave `types` out".to_owned()))
    };
    listed.split(',').map(str::trim).map(one).collect()
}

async fn changed_since(api: &Api, since_ms: u64) -> Result<Vec<PlanId>, Refusal> {
    let mut plans = Vec::new();
    for n in 0..api.site.shards {
        let found = api.site.broker.plans(ShardId(n), u64::MAX, PLANS_MAX).await?;
        plans.extend(found.into_iter().filter(|(_, changed_ms)| *changed_ms >= since_ms).map(|(plan, _)| plan));
    }
    Ok(plans)
}

/// The newest events of one plan that fit, in any order. A log that is gone has none.
async fn newest(api: &Api, plan: &PlanId, filter: &Filter) -> Result<Vec<Record>, Refusal> {
    let summary = api.site.broker.summary(plan).await?;
    let Some(last) = summary.get("seq").and_then(|seq| seq.parse::<u64>().ok()) else { return Ok(Vec::new()) };
    let (mut kept, mut end) = (Vec::new(), last);
    while end > 0 && kept.len() < filter.limit && last - end < LOOKED_AT_MAX {
        let start = end.saturating_sub(PORTION);
        let entries = api.site.broker.log(plan, start, usize::try_from(PORTION).unwrap_or(usize::MAX)).await?;
        let mut is_older = entries.is_empty();
        for entry in &entries {
            let records =
                journal::records(entry).map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
            for record in records.into_iter().filter(|record| record.seq > start && record.seq <= end) {
                is_older |= record.time_ms < filter.since_ms;
                if filter.fits(&record) {
                    kept.push(record);
                }
            }
        }
        if is_older {
            break;
        }
        end = start;
    }
    Ok(kept)
}

/// The event as `/v1/plans/{id}/events` gives it, and whose it is. Outputs stay the text that they came as: older logs
/// may hold some that no reader takes.
fn line(plan: &PlanId, record: &Record) -> Text {
    let event = record.to_line();
    let fields = event.strip_prefix('{').expect("an event is a JSON object");
    let plan = Text::of(plan.as_str());
    Text::from_text(format!("{{\"plan_id\":{},{fields}", plan.text())).expect("an event has fields")
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{Event, StepCompleted, StepEvent};

    use super::*;

    #[test]
    fn an_event_with_outputs_that_no_reader_takes_is_still_shown() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let outputs = Text::from_text(deep.clone()).expect("it is JSON");
        let completed = StepCompleted { outputs, ..StepCompleted::default() };
        let event = Event::Step { step: "a".into(), attempt: 1, event: StepEvent::Completed(Box::new(completed)) };
        let record = Record { seq: 7, time_ms: 1, actor: None, event };
        let line = line(&"p0-x".into(), &record);
        assert!(line.text().starts_with("{\"plan_id\":\"p0-x\",") && line.text().contains(&deep), "{}", line.text());
    }
}
