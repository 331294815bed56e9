//! What a model wrote becomes a plan, by the calls of the planner `llm` and the pipeline; each stage is timed.

use std::time::Duration;

use goalmill_common::command::Planned;
use goalmill_common::config::LlmSettings;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_formats::DraftKind;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::Rules;
use goalmill_planning::llm::ToolShortlist;
use goalmill_planning::llm::parse_answer::{self, ParsedAnswer};
use goalmill_planning::repair::{Edit, repair_list};
use goalmill_planning::{PlanRequest, planned_rules};
use goalmill_reader::ToolCatalogue;
use goalmill_router::{Router, route_plan};
use serde_json::json;
use tokio::time::Instant;

/// A plan that may run, and what it took.
#[derive(Clone, Debug)]
pub struct Digested {
    pub planned: Planned,
    pub took: Took,
}

/// How long each stage took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// Which actions the prompt lists; the answer is read by them.
    pub offer: Duration,
    pub read: Duration,
    /// What validation finds is repaired where it can be, and validated again then.
    pub validate: Duration,
    pub route: Duration,
}

/// What a model wrote, as a valid plan: read, repaired and validated as the planner `llm` does.
pub fn validate_answer(
    text: &str,
    actions: &ToolCatalogue,
    limits: &Limits,
    rules: &Rules<'_>,
) -> (Vec<Edit>, Result<ValidPlan, Vec<Issue>>) {
    match parse_answer::parse_plan_answer(text, actions, false, DraftKind::Answer) {
        ParsedAnswer::Complete { value, edits, .. } => {
            let repaired = repair_list(value, limits, rules);
            (edits.into_iter().chain(repaired.edits).collect(), repaired.outcome)
        }
        ParsedAnswer::Truncated { .. } => (Vec::new(), Err(vec![unread("the answer is cut".into())])),
        ParsedAnswer::Unparseable { reason } => (Vec::new(), Err(vec![unread(reason)])),
    }
}

/// What a model wrote, as a plan that may run, by the same calls as the planner `llm` and the pipeline make.
pub fn digest(text: &str, request: &PlanRequest, router: &Router) -> Result<Digested, Vec<Issue>> {
    let mut took = Took::default();
    let begun = Instant::now();
    let actions_max = LlmSettings::default().actions_max;
    let shortlist = ToolShortlist::choose(&request.agents, &request.goal.description, actions_max);
    let actions = shortlist.catalogue();
    took.offer = begun.elapsed();

    let begun = Instant::now();
    let value = match parse_answer::parse_plan_answer(text, &actions, false, DraftKind::Answer) {
        ParsedAnswer::Complete { value, .. } => value,
        ParsedAnswer::Truncated { .. } => return Err(vec![unread("the answer is cut".into())]),
        ParsedAnswer::Unparseable { reason } => return Err(vec![unread(reason)]),
    };
    took.read = begun.elapsed();

    let begun = Instant::now();
    let catalogue = planned_rules::catalogue(request);
    let rules = Rules { in_order: true, ..planned_rules::rules(&catalogue, request) };
    let repaired = repair_list(value, &request.limits, &rules);
    let valid = repaired.outcome?;
    took.validate = begun.elapsed();

    let begun = Instant::now();
    let routed = valid.route(|plan| route_plan(plan, router).map(|routed| (routed.routes, routed.warnings)))?;
    took.route = begun.elapsed();
    let provenance = Some(Json::from_value(&json!({ "repairs": repaired.edits })));
    let (plan, warnings, routes) = routed.into_parts();
    let planned = Planned { plan, planner: "llm".into(), confidence: 0.0, provenance, warnings, routes, goal: None };
    Ok(Digested { planned, took })
}

fn unread(detail: String) -> Issue {
    Issue { code: "UNREADABLE".into(), pointer: String::new(), detail, hint: "answer with one JSON object".into() }
}
