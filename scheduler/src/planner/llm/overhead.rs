//! Everything that a plan takes besides the model: read, mend, validate, route. For measuring.

use goalmill_common::command::Planned;
use goalmill_common::json::Json;
use goalmill_common::problem::Issue;
use goalmill_engine::validate::Catalogue;
use serde_json::json;

use super::draft::{self, Written};
use super::offer::Offer;
use crate::planner::mend::mend;
use crate::planner::{PlanRequest, pipeline};
use crate::router::{Router, route_plan};

/// What a model wrote, as a plan that may run.
pub fn digest(text: &str, request: &PlanRequest, router: &Router) -> Result<Planned, Vec<Issue>> {
    let offer = Offer::choose(&request.agents, &request.goal.description, usize::MAX);
    let value = match draft::plan(text, &offer.catalogue(), false) {
        Written::Whole { value, .. } => value,
        Written::Cut { .. } => return Err(vec![unread("the answer is cut".into())]),
        Written::Unreadable { reason } => return Err(vec![unread(reason)]),
    };
    let catalogue = Catalogue::of(&request.agents);
    let mended = mend(&value, &request.limits, &pipeline::rules(&catalogue, request));
    let checked = mended.outcome?;
    let mut plan = checked.plan;
    let routes = route_plan(&mut plan, router)?;
    let provenance = Some(Json::of(&json!({ "mends": mended.edits })));
    Ok(Planned { plan, planner: "llm".into(), confidence: 0.0, provenance, warnings: checked.warnings, routes })
}

fn unread(detail: String) -> Issue {
    Issue { code: "UNREADABLE".into(), pointer: String::new(), detail, mend: "answer with one JSON object".into() }
}
