//! The submission of a run: validated like one that comes to a scheduler.

use std::collections::BTreeMap;

use goalmill_common::command::{Planned, Submit};
use goalmill_common::constraint::constraints;
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::stored_plan::StoredPlanRef;
use goalmill_formats::convert_plan;
use goalmill_plan::document;
use goalmill_plan::document::time::rendered_time_ms;
use goalmill_plan::stored_plans;
use goalmill_plan::validate::{self, Rules};
use serde_json::Value;

use crate::test_file::PlanTest;

/// When tests start that do not say when: `2027-01-04T09:00:00Z`, a Monday.
const START_MS: u64 = 1_799_053_200_000;

/// A plan or goal as a run submits it.
///
/// - `plan`: the document of the plan; without one the goal of the test is planned.
/// - `stored`: documents of stored plans that steps use, by name.
pub fn prepare_submission(
    test: &PlanTest,
    plan: Option<Value>,
    stored: &BTreeMap<String, Value>,
    limits: &Limits,
) -> Result<Submit, Vec<Issue>> {
    let start_ms = start_of(test);
    let (goal, planned) = match (plan, &test.goal) {
        (Some(plan), _) => {
            let mut plan = with_stored_plans(plan, stored, limits)?;
            document::add_inputs(&mut plan, test.inputs.clone());
            let (goal, planned) = validated_plan(plan, start_ms, limits)?;
            (goal, Some(planned))
        }
        (None, Some(goal)) => {
            let mut goal = goal.clone();
            document::add_inputs(&mut goal, test.inputs.clone());
            (validate::goal(&goal, limits)?, None)
        }
        (None, None) => (Goal::default(), None),
    };
    Ok(submission(with_start(goal, start_ms), planned))
}

pub(crate) fn submission(goal: Goal, plan: Option<Planned>) -> Submit {
    Submit::new(goal, plan, "test", "urn:goalmill:test")
}

/// The goal with a start that is a time.
fn with_start(mut goal: Goal, start_ms: u64) -> Goal {
    if let Some(start_in_ms) = goal.start_in_ms.take() {
        goal.start_at_ms = Some(start_ms.saturating_add(start_in_ms));
    }
    goal
}

pub(crate) fn start_of(test: &PlanTest) -> u64 {
    start_ms(test).and_then(Result::ok).unwrap_or(START_MS)
}

/// The time that the test names, if it names one, or why it is none.
pub(crate) fn start_ms(test: &PlanTest) -> Option<Result<u64, String>> {
    Some(rendered_time_ms(test.start.as_deref()?, test.tz.as_deref()))
}

/// Puts stored plans in the places of their uses. Validation refuses what is left: unknown names, and plans that use
/// themselves.
fn with_stored_plans(mut draft: Value, stored: &BTreeMap<String, Value>, limits: &Limits) -> Result<Value, Vec<Issue>> {
    for _ in 0..limits.depth_max {
        let known: BTreeMap<StoredPlanRef, (StoredPlanRef, Value)> = stored_plans::uses(&draft)
            .into_iter()
            .filter_map(|place| {
                let document = stored.get(&place.plan.name)?.clone();
                let version = StoredPlanRef::new(&place.plan.name, place.plan.version.unwrap_or(1));
                Some((place.plan, (version, document)))
            })
            .collect();
        if known.is_empty() {
            break;
        }
        stored_plans::put_documents(&mut draft, &known);
        let bytes = draft.to_string().len();
        if bytes > limits.plan_bytes_max {
            let most = limits.plan_bytes_max;
            return Err(vec![Issue {
                code: "PLAN_TOO_LARGE".into(),
                pointer: String::new(),
                detail: format!("with the stored plans that it uses the plan has more than {most} bytes"),
                hint: "divide it into several plans".into(),
            }]);
        }
    }
    Ok(draft)
}

/// Validates a plan as a scheduler does when it is submitted; no agents are known yet.
fn validated_plan(draft: Value, now_ms: u64, limits: &Limits) -> Result<(Goal, Planned), Vec<Issue>> {
    let mut converted = convert_plan(draft, limits)?;
    let mut goal = match document::split_goal(&converted.document) {
        Some(goal) => validate::goal(&goal, limits).map_err(|issues| converted.locate(issues))?,
        None => Goal::default(),
    };
    let rules = Rules {
        constraints: constraints(&goal.constraints),
        inputs: goal.input_names(),
        seconds_left: goal.deadline_ms.map(|ms| ms.saturating_sub(now_ms) as f64 / 1_000.0),
        ..Rules::default()
    };
    let valid = validate::validate_plan_by(&converted.document, limits, &rules)
        .map_err(|issues| converted.locate(issues))?
        .with_notes(std::mem::take(&mut converted.notes));
    validate::give_inputs(&mut goal, valid.plan())?;
    if let Some(at) = valid.plan().steps.iter().position(|step| step.kind.needs_worker() && step.agent_type.is_open()) {
        return Err(vec![Issue {
            code: "UNROUTABLE".into(),
            pointer: format!("/steps/{at}/agent_type"),
            detail: "a test has no router, and the agent type is `auto`".into(),
            hint: "name the agent type".into(),
        }]);
    }
    Ok((goal, valid.without_routing().submitted()))
}
