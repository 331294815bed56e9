//! Random small plans.

use goalmill_common::json::Json;
use goalmill_common::plan::{
    Approval, ApprovalDefault, Fallback, Jitter, Join, Kind, OnFailure, Phase, Plan, Question, Retry, RevisionPolicy,
    Step, Strategy,
};
use serde_json::json;

use crate::actor::AGENTS;
use crate::dice::Dice;

/// A plan of 1 to 12 steps; `depth` more plans may be nested.
pub fn random(dice: &Dice, depth: u32) -> Plan {
    let count = dice.between(1, if depth == 0 { 4 } else { 12 });
    let mut steps: Vec<Step> = Vec::new();
    for n in 0..count {
        let step = step(dice, n, &steps, depth);
        steps.push(step);
    }
    let strategy = *dice.pick(&[Strategy::Parallel, Strategy::Parallel, Strategy::Sequential, Strategy::Adaptive]);
    let max_parallel = dice.permille(400).then(|| dice.between(1, 3) as u32);
    let mut plan = Plan { name: "random".into(), strategy, max_parallel, steps, ..Plan::default() };
    if depth > 0 && dice.permille(200) {
        divide(&mut plan);
    }
    if dice.permille(200) {
        plan.revision = Some(RevisionPolicy::default());
    }
    if dice.permille(100) {
        plan.budget.tokens = Some(dice.between(3, 30));
    }
    if depth > 0 && dice.permille(80) {
        let default = *dice.pick(&[ApprovalDefault::Approve, ApprovalDefault::Reject]);
        plan.approve = Some(Approval { limit_ms: dice.between(500, 4_000), default });
    }
    plan
}

/// Two phases: the first half of the steps, and the others.
fn divide(plan: &mut Plan) {
    let middle = plan.steps.len().div_ceil(2);
    for (n, step) in plan.steps.iter_mut().enumerate() {
        step.phase = Some(if n < middle { "early" } else { "late" }.into());
    }
    let names = if plan.steps.len() > 1 { vec!["early", "late"] } else { vec!["early"] };
    let phase =
        |id: &str| Phase { id: id.into(), description: String::new(), checkpoint: plan.steps.len().is_multiple_of(2) };
    plan.phases = names.into_iter().map(phase).collect();
}

fn step(dice: &Dice, n: u64, before: &[Step], depth: u32) -> Step {
    // Most agents mean well.
    let agent = *dice.pick(if dice.permille(750) { &AGENTS[..3] } else { &AGENTS });
    let mut step = Step::new(format!("s{n}"), agent);
    for other in before {
        if step.dependencies.len() < 3 && dice.permille(300) {
            step.dependencies.push(other.id.clone());
        }
    }
    if let [first, ..] = step.dependencies.as_slice() {
        if dice.permille(150) {
            step.join = if dice.permille(500) { Join::Any } else { Join::AtLeast(1) };
        } else if dice.permille(250) {
            let text = json!({ "n": format!("{{{{ steps.{first}.outputs.n | default(0) }}}}") });
            step.inputs = Json::from(text);
        }
        if step.join == Join::All && dice.permille(150) {
            step.when = Some(format!("(steps.{first}.outputs.n | default(0)) > 4"));
        }
    }
    step.timeout_ms = Some(dice.between(1_000, 5_000));
    step.retry = Retry { max: dice.between(0, 3) as u32, initial_ms: 200, max_ms: 1_500, ..Retry::default() };
    if dice.permille(200) {
        step.retry.jitter = Jitter::None;
    }
    step.on_failure = *dice.pick(&[
        OnFailure::Continue,
        OnFailure::Continue,
        OnFailure::Skip,
        OnFailure::Skip,
        OnFailure::Abort,
        OnFailure::Replan,
        OnFailure::AskUser,
    ]);
    if dice.permille(150) {
        step.fallback = Some(Fallback { agent_type: Some("quick".into()), action: None });
    }
    if dice.permille(80) {
        let default = *dice.pick(&[ApprovalDefault::Approve, ApprovalDefault::Reject]);
        step.approve = Some(Approval { limit_ms: dice.between(500, 4_000), default });
    }
    if dice.permille(150) {
        step.resource = Some("printer".into());
    }
    if dice.permille(60) {
        let default = dice.permille(500).then(|| Json::from(json!({"n": 1})));
        let into = dice.permille(500).then(|| "said".to_owned());
        let schema = Some(Json::from(json!({"type": "object"})));
        step.ask =
            Some(Question { question: "Well?".into(), schema, default, limit_ms: dice.between(500, 4_000), into });
    }
    if dice.permille(80) {
        inline(&mut step);
    } else if depth > 0 && dice.permille(100) {
        inline(&mut step);
        step.kind = Kind::Plan;
        step.plan = Some(Box::new(random(dice, depth - 1)));
        step.timeout_ms = Some(30_000);
    }
    step
}

fn inline(step: &mut Step) {
    step.kind = Kind::Internal;
    step.agent_type = "".into();
    step.fallback = None;
}
