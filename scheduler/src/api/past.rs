//! A plan as it was: its log, folded up to a revision.

use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::id::PlanId;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_engine::{PlanState, apply};

use super::Api;
use super::answer::Refusal;
use super::plans::state;
use crate::journal::{self, Pages};

/// The plan as it stood when revision `revision` was last in force; as it stands without one.
pub(super) async fn at(api: &Api, id: &str, revision: Option<u32>) -> Result<PlanState, Refusal> {
    let whole = state(api, id).await?;
    let Some(revision) = revision.filter(|revision| *revision != whole.revision()) else { return Ok(whole) };
    if revision > whole.revision() {
        let detail = format!("plan `{id}` has no revision {revision}: the last one is {}", whole.revision());
        return Err(Problem::new(ErrorCode::NotFound, detail).into());
    }
    fold(api, &id.into(), revision).await
}

async fn fold(api: &Api, plan: &PlanId, revision: u32) -> Result<PlanState, Refusal> {
    let unreadable =
        |why: String| Refusal(Problem::new(ErrorCode::Internal, format!("the log of plan `{plan}`: {why}")));
    let mut state = PlanState::default();
    let mut pages = Pages::new(api.site.broker.as_ref(), plan);
    while let Some(entries) = pages.next().await? {
        for entry in &entries {
            for record in journal::records(entry).map_err(|error| unreadable(error.to_string()))? {
                let ends = matches!(&record.event, Event::Plan(PlanEvent::Revised(next)) if next.revision > revision);
                if ends {
                    return Ok(state);
                }
                apply(&mut state, &record).map_err(|error| unreadable(error.to_string()))?;
            }
        }
    }
    Ok(state)
}
