//! The features that a case has: what the documents say and what happened.

use std::collections::BTreeSet;

use goalmill_common::plan::{Join, OnFailure, Plan, Step, StepKind, Strategy};

use crate::case::Case;
use crate::run::Run;
use crate::script::{Does, Wish};

/// The names of features, as the table shows them.
pub const FEATURES: [&str; 47] = [
    "dependency", "join", "condition", "status", "retry", "timeout", "fallback", "expected", "skip", "continue",
    "loop", "map", "plan", "wait", "event", "undo", "always", "parallel", "sequential", "failures", "budget",
    "deadline", "cancel", "busy", "refuse", "cut", "lost", "silent", "failed", "partial", "resource", "approve",
    "pause", "leave", "byhand", "ask", "remove", "phase", "delay", "cache", "callback", "calls", "blob", "stored",
    "fork", "edit", "again",
];

/// The features of a case; what agents did counts as far as they were asked.
pub fn features(case: &Case, plan: &Plan, run: &Run) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    of_plan(plan, &mut found);
    let mut note = |name, is| {
        if is {
            found.extend([name]);
        }
    };
    for deed in case.script.deeds.iter().filter(|deed| deed.at_ms <= run.ended_ms) {
        match deed.does {
            Wish::Cancel => note("cancel", true),
            Wish::Pause | Wish::Resume => note("pause", true),
            Wish::Skip(_) => note("leave", true),
            Wish::Remove(_) => note("remove", true),
            Wish::Change(_) => note("edit", true),
            Wish::Retry(_) => note("again", true),
            Wish::Complete(_) => note("byhand", true),
            Wish::Approve(_) | Wish::Reject(_) | Wish::Answer(_) => {}
        }
    }
    note("delay", case.script.start_ms.is_some());
    note("fork", run.forked.is_some());
    note("deadline", case.script.deadline_ms.is_some());
    note("failed", run.code.is_some());
    note("partial", run.steps.values().any(|step| step.partial));
    let mut times = std::collections::BTreeMap::<&str, usize>::new();
    for ask in &run.asks {
        let time = times.entry(&ask.action).or_default();
        let act = case.script.act(&ask.action, *time);
        note("callback", act.accepts_ms.is_some());
        note("calls", act.records);
        note("blob", act.stores);
        match act.does {
            Does::Answer(_) => {}
            Does::Busy => note("busy", true),
            Does::Refuse => note("refuse", true),
            Does::Cut => note("cut", true),
            Does::Lost => note("lost", true),
            Does::Silent => note("silent", true),
        }
        *time += 1;
    }
    found
}

fn of_plan(plan: &Plan, found: &mut BTreeSet<&'static str>) {
    let mut note = |name, is| {
        if is {
            found.extend([name]);
        }
    };
    note("parallel", plan.max_parallel.is_some());
    note("sequential", plan.strategy == Strategy::Sequential);
    note("phase", !plan.phases.is_empty());
    note("failures", plan.failures_max.is_some());
    note("budget", plan.budget.tokens.is_some());
    note("continue", plan.continue_on_failure);
    plan.steps.iter().for_each(|step| of_step(step, found));
}

fn of_step(step: &Step, found: &mut BTreeSet<&'static str>) {
    let mut note = |name, is| {
        if is {
            found.extend([name]);
        }
    };
    let wait = step.wait.as_deref();
    note("dependency", !step.dependencies.is_empty());
    note("join", step.join != Join::All);
    note("condition", step.when.is_some());
    note("status", !step.dependency_status.is_empty());
    note("retry", step.retry.max > 0 && step.kind.needs_worker());
    note("timeout", step.timeout_ms.is_some());
    note("fallback", step.fallback.is_some());
    note("expected", !step.expected_outputs.is_empty());
    note("skip", step.on_failure == OnFailure::Skip);
    note("continue", step.on_failure == OnFailure::Continue);
    note("loop", step.repeat.is_some());
    note("map", step.for_each.is_some() && step.undoes.is_none());
    note("plan", step.kind == StepKind::Plan);
    note("stored", step.stored.is_some());
    note("wait", wait.is_some_and(|wait| wait.event.is_none()));
    note("event", wait.is_some_and(|wait| wait.event.is_some()));
    note("undo", step.undoes.is_some());
    note("always", step.always);
    note("ask", step.ask.is_some());
    note("approve", step.approve.is_some());
    note("resource", step.resource.is_some());
    note("cache", step.cache.is_some());
    step.plan.as_deref().into_iter().for_each(|plan| of_plan(plan, found));
}
