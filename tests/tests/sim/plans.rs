//! Random small plans.

use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{
    Approval, ApprovalDefault, DependencyStatus, Fallback, ForEach, Jitter, Join, OnFailure, OnItemFailure, OnMax,
    OnTimeout, Phase, Plan, Question, Repeat, Retry, RevisionPolicy, Step, StepKind, StepWait, Strategy,
};
use serde_json::json;

use crate::executors::AGENTS;
use crate::rng::Rng;

/// A plan of 1 to 12 steps; `depth` more plans may be nested.
pub fn random(rng: &Rng, depth: u32) -> Plan {
    let count = rng.between(1, if depth == 0 { 4 } else { 12 });
    let mut steps: Vec<Step> = Vec::new();
    for n in 0..count {
        let step = step(rng, n, &steps, depth);
        steps.push(step);
    }
    let strategy = *rng.pick(&[Strategy::Parallel, Strategy::Parallel, Strategy::Sequential, Strategy::Adaptive]);
    let max_parallel = rng.permille(400).then(|| to_u32(rng.between(1, 3)));
    let mut plan = Plan { name: "random".into(), strategy, max_parallel, steps, ..Plan::default() };
    if depth > 0 && rng.permille(200) {
        divide(&mut plan);
    }
    if rng.permille(200) {
        plan.revision = Some(RevisionPolicy::default());
    }
    if rng.permille(100) {
        plan.budget.tokens = Some(rng.between(3, 30));
    }
    if depth > 0 && rng.permille(80) {
        let default = *rng.pick(&[ApprovalDefault::Approve, ApprovalDefault::Reject]);
        plan.approve = Some(Approval { limit_ms: rng.between(500, 4_000), default });
    }
    if depth > 0 {
        // Its numbers are its own, so that the other choices of a seed stay what they were.
        let text = serde_json::to_string(&plan).expect("a plan is JSON");
        let own = |salt: u64| Rng::new(text.bytes().fold(salt, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte)));
        moving(&mut plan, &own(17));
        waiting(&mut plan, &own(19));
        branching(&mut plan, &own(23));
    }
    plan
}

/// Makes waits for times and events of some steps.
fn waiting(plan: &mut Plan, rng: &Rng) {
    if !rng.permille(400) {
        return;
    }
    for step in &mut plan.steps {
        let is_plain = step.kind == StepKind::Tool && step.ask.is_none() && step.for_each.is_none();
        if !is_plain || step.repeat.is_some() || step.is_cleanup() || !rng.permille(300) {
            continue;
        }
        inline(step);
        (step.kind, step.timeout_ms) = (StepKind::Wait, None);
        step.wait = Some(Box::new(if rng.permille(300) {
            StepWait { for_ms: Some(rng.between(1, 4_000)), ..StepWait::default() }
        } else {
            let (event, key) = event(rng);
            let on_timeout = match rng.between(0, 3) {
                0 => OnTimeout::Fail,
                1 => OnTimeout::Skip,
                _ => OnTimeout::Default(json!({"n": 3}).into()),
            };
            let timeout_ms = rng.permille(900).then(|| rng.between(500, 6_000));
            StepWait { event: Some(event), key: Some(key), timeout_ms, on_timeout, ..StepWait::default() }
        }));
    }
    // What is undone is the work of an agent.
    let waits: Vec<StepId> = plan.steps.iter().filter(|s| s.wait.is_some()).map(|step| step.id.clone()).collect();
    plan.steps.retain(|step| step.undoes.as_ref().is_none_or(|target| !waits.contains(target)));
}

/// Name and key of an event from outside: few, so that plans wait for the same.
pub fn event(rng: &Rng) -> (String, String) {
    ("knock".into(), format!("door-{}", rng.between(1, 4)))
}

/// Makes maps and loops of some steps, and adds clean-up steps.
fn moving(plan: &mut Plan, rng: &Rng) {
    if !rng.permille(400) {
        return;
    }
    let mut undo = Vec::new();
    for step in &mut plan.steps {
        if step.ask.is_none() && step.plan.is_none() && rng.permille(250) {
            step.for_each = Some(Box::new(ForEach {
                items: Json::from(json!((0..rng.between(0, 4)).collect::<Vec<u64>>())),
                name: None,
                batch: rng.permille(200).then_some(2),
                max_parallel: rng.permille(300).then_some(1),
                items_max: None,
                on_item_failure: *rng.pick(&[
                    OnItemFailure::Fail,
                    OnItemFailure::Continue,
                    OnItemFailure::Continue,
                    OnItemFailure::AtMost(1),
                ]),
            }));
        } else if !step.kind.is_inline() && step.plan.is_none() && rng.permille(200) {
            let until = (*rng.pick(&["iteration == 2", "(outputs.n | default(0)) > 4"])).to_owned();
            let on_max = *rng.pick(&[OnMax::Fail, OnMax::Continue]);
            let (max, delay_ms) = (to_u32(rng.between(1, 4)), *rng.pick(&[0, 700]));
            step.repeat = Some(Box::new(Repeat { until, max, delay_ms, on_max }));
            ask_for_input(step);
        }
        if rng.permille(250) {
            let mut own = Step::new(format!("{}:undo", step.id), AGENTS[0]);
            own.undoes = Some(step.id.clone());
            own.timeout_ms = Some(2_000);
            undo.push(own);
        }
    }
    plan.steps.extend(undo);
    for n in 0..rng.between(0, 2) {
        let mut last = Step::new(format!("z{n}"), *rng.pick(&AGENTS[..3]));
        (last.always, last.timeout_ms) = (true, Some(2_000));
        plan.steps.push(last);
    }
}

/// An answer that is the whole outputs would take the place of what the step does.
fn ask_for_input(step: &mut Step) {
    step.ask.iter_mut().for_each(|ask| ask.into = Some("said".into()));
}

/// Lets some steps run when another one has failed or was skipped, and some agents report by callback.
fn branching(plan: &mut Plan, rng: &Rng) {
    if !rng.permille(400) {
        return;
    }
    for step in &mut plan.steps {
        step.callback = step.kind.needs_worker() && step.for_each.is_none() && rng.permille(300);
        if let Some(first) = step.dependencies.first().cloned()
            && step.when.is_none()
            && rng.permille(300)
        {
            let status =
                *rng.pick(&[DependencyStatus::Skipped, DependencyStatus::Skipped, DependencyStatus::Completed]);
            step.dependency_status.insert(first, vec![status, DependencyStatus::Failed]);
        }
    }
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

fn step(rng: &Rng, n: u64, before: &[Step], depth: u32) -> Step {
    // Most agents mean well.
    let agent = *rng.pick(if rng.permille(750) { &AGENTS[..3] } else { &AGENTS });
    let mut step = Step::new(format!("s{n}"), agent);
    for other in before {
        if step.dependencies.len() < 3 && rng.permille(300) {
            step.dependencies.push(other.id.clone());
        }
    }
    if let [first, ..] = step.dependencies.as_slice() {
        if rng.permille(150) {
            step.join = if rng.permille(500) { Join::Any } else { Join::AtLeast(1) };
        } else if rng.permille(250) {
            let text = json!({ "n": format!("{{{{ steps.{first}.outputs.n | default(0) }}}}") });
            step.inputs = Json::from(text);
        }
        if step.join == Join::All && rng.permille(150) {
            step.when = Some(format!("(steps.{first}.outputs.n | default(0)) > 4"));
        }
    }
    step.timeout_ms = Some(rng.between(1_000, 5_000));
    step.retry = Retry { max: to_u32(rng.between(0, 3)), initial_ms: 200, max_ms: 1_500, ..Retry::default() };
    if rng.permille(200) {
        step.retry.jitter = Jitter::None;
    }
    step.on_failure = *rng.pick(&[
        OnFailure::Continue,
        OnFailure::Continue,
        OnFailure::Skip,
        OnFailure::Skip,
        OnFailure::Abort,
        OnFailure::Replan,
        OnFailure::AskUser,
    ]);
    if rng.permille(150) {
        step.fallback = Some(Fallback { agent_type: Some("quick".into()), action: None });
    }
    if rng.permille(80) {
        let default = *rng.pick(&[ApprovalDefault::Approve, ApprovalDefault::Reject]);
        step.approve = Some(Approval { limit_ms: rng.between(500, 4_000), default });
    }
    if rng.permille(150) {
        step.resource = Some("printer".into());
    }
    if rng.permille(60) {
        let default = rng.permille(500).then(|| Json::from(json!({"n": 1})));
        let into = rng.permille(500).then(|| "said".to_owned());
        let schema = Some(Json::from(json!({"type": "object"})));
        step.ask =
            Some(Question { question: "Well?".into(), schema, default, limit_ms: rng.between(500, 4_000), into });
    }
    if rng.permille(80) {
        inline(&mut step);
    } else if depth > 0 && rng.permille(100) {
        inline(&mut step);
        step.kind = StepKind::Plan;
        step.plan = Some(Box::new(random(rng, depth - 1)));
        step.timeout_ms = Some(30_000);
        ask_for_input(&mut step);
    }
    step
}

fn inline(step: &mut Step) {
    step.kind = StepKind::Internal;
    step.agent_type = "".into();
    step.fallback = None;
}
