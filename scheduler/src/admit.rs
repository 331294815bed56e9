//! Turns what a client sent into something a shard can take: read, validated, routed.

use std::sync::Arc;

use axum::body::Bytes;
use goalmill_common::clock::rfc3339;
use goalmill_common::command::{Planned, Submit};
use goalmill_common::goal::Goal;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::trace::is_traceparent;
use goalmill_common::view::Preview;
use goalmill_common::wire::{Submission, SubmissionKind};
use goalmill_plan::draft::{self, Format};
use goalmill_plan::validate::{self, Checked, Rules};
use serde_json::Value;

use crate::heavy::heavy;
use crate::site::Site;

/// What a client's plan text holds: the plan, and the goal it came with.
pub(crate) struct Admitted {
    pub(crate) goal: Goal,
    pub(crate) planned: Planned,
}

/// Reads and checks a submission from the stream.
pub(crate) async fn submission(site: &Arc<Site>, submission: Submission) -> Result<Submit, Problem> {
    let site = site.clone();
    heavy(submission.data.len(), move || take(&site, submission)).await
}

/// Reads, checks and routes a plan without holding up others.
pub(crate) async fn plan_aside(site: &Arc<Site>, text: Bytes, format: Format) -> Result<Admitted, Problem> {
    let site = site.clone();
    heavy(text.len(), move || plan(&site, &text, format)).await
}

/// The same for looking, not for running: says besides what does not fit the agents that are there, and what the plan
/// would take.
pub(crate) async fn plan_looked_at(site: &Arc<Site>, text: Bytes, format: Format) -> Result<Preview, Problem> {
    let site = site.clone();
    heavy(text.len(), move || {
        let catalogue = site.directory.catalogue();
        let rules = Rules { policy: &site.policy, ..Rules::submitted(&catalogue) };
        let admitted = plan_by(&site, &text, format, &rules)?;
        Ok(validate::preview(admitted.planned, Some(&catalogue)))
    })
    .await
}

/// Reads and checks a goal without holding up others.
pub(crate) async fn goal_aside(site: &Arc<Site>, text: Bytes) -> Result<Goal, Problem> {
    let site = site.clone();
    heavy(text.len(), move || goal(&site, &text)).await
}

fn take(site: &Site, submission: Submission) -> Result<Submit, Problem> {
    let Submission { id, source, kind, data, traceparent } = submission;
    if traceparent.as_deref().is_some_and(|text| !is_traceparent(text)) {
        return Err(bad_traceparent());
    }
    let (goal, plan) = match kind {
        SubmissionKind::Goal => (goal(site, data.as_bytes())?, None),
        SubmissionKind::Plan => {
            let admitted = plan(site, data.as_bytes(), Format::Auto)?;
            (admitted.goal, Some(admitted.planned))
        }
    };
    Ok(Submit { goal, plan, submission: id, fingerprint: String::new(), source, parent: None, traceparent, fork: None })
}

/// The answer to a submission whose trace context must not get into a header.
fn bad_traceparent() -> Problem {
    let issue = Issue {
        code: "INVALID_TRACEPARENT".into(),
        pointer: "/traceparent".into(),
        detail: "`traceparent` does not have the format of W3C Trace Context".into(),
        hint: "send 00-<32 hex digits>-<16 hex digits>-<2 hex digits> in lower case, or leave the field out".into(),
    };
    Problem::new(ErrorCode::InvalidEntry, issue.detail.clone()).with_errors(vec![issue])
}

/// Reads and checks a goal.
fn goal(site: &Site, text: &[u8]) -> Result<Goal, Problem> {
    let draft = read(site, text, Format::Auto, ErrorCode::InvalidGoal)?;
    goal_of(site, &draft)
}

/// Reads, checks and routes a plan.
fn plan(site: &Site, text: &[u8], format: Format) -> Result<Admitted, Problem> {
    let live = site.directory.live();
    plan_by(site, text, format, &Rules { policy: &site.policy, live: live.as_deref(), ..Rules::default() })
}

fn plan_by(site: &Site, text: &[u8], format: Format, rules: &Rules<'_>) -> Result<Admitted, Problem> {
    let draft = read(site, text, format, ErrorCode::InvalidPlan)?;
    let goal = match draft::split_goal(&draft) {
        Some(goal) => goal_of(site, &goal)?,
        None => Goal::default(),
    };
    let checked = validate::plan_by(&draft, &site.settings.limits, rules)
        .map_err(|issues| refused(ErrorCode::InvalidPlan, issues))?;
    let Checked { mut plan, mut warnings, .. } = checked;
    let (routes, odd) = site.directory.route(&mut plan, rules.policy).map_err(|issues| {
        let denied = issues.iter().any(|issue| issue.code == "ACTION_DENIED");
        refused(if denied { ErrorCode::InvalidPlan } else { ErrorCode::Unroutable }, issues)
    })?;
    warnings.extend(odd);
    Ok(Admitted { goal, planned: Planned::submitted(plan, warnings, routes) })
}

fn read(site: &Site, text: &[u8], format: Format, code: ErrorCode) -> Result<Value, Problem> {
    if text.trim_ascii().is_empty() {
        return Err(Problem::new(ErrorCode::InvalidJson, "the text is empty; send a document"));
    }
    draft::read(text, format, &site.settings.limits).map_err(|issues| {
        let syntax = issues.iter().any(|issue| issue.code == "INVALID_JSON");
        refused(if syntax { ErrorCode::InvalidJson } else { code }, issues)
    })
}

fn goal_of(site: &Site, draft: &Value) -> Result<Goal, Problem> {
    let goal =
        validate::goal(draft, &site.settings.limits).map_err(|issues| refused(ErrorCode::InvalidGoal, issues))?;
    choice_of(site, &goal)?;
    in_time(site.clock.now_ms(), &goal)?;
    Ok(goal)
}

/// Refuses a goal whose deadline is over before it begins.
fn in_time(now_ms: u64, goal: &Goal) -> Result<(), Problem> {
    let Some(deadline_ms) = goal.deadline_ms.filter(|deadline_ms| *deadline_ms <= now_ms) else { return Ok(()) };
    let issue = Issue {
        code: "DEADLINE_OVER".into(),
        pointer: "/deadline".into(),
        detail: format!("the deadline {} is over: it is {}", rfc3339(deadline_ms), rfc3339(now_ms)),
        hint: "give a later deadline, or none".into(),
    };
    Err(refused(ErrorCode::InvalidGoal, vec![issue]))
}

/// Refuses a goal that names a planner or a model that does not exist.
pub(crate) fn choice_of(site: &Site, goal: &Goal) -> Result<(), Problem> {
    let issues = site.planners.choice_issues(goal);
    if issues.is_empty() { Ok(()) } else { Err(refused(ErrorCode::InvalidGoal, issues)) }
}

/// A problem that says the first error in a sentence and lists them all.
pub(crate) fn refused(code: ErrorCode, issues: Vec<Issue>) -> Problem {
    let detail = match issues.as_slice() {
        [] => "it cannot be accepted".to_owned(),
        [only] => only.detail.clone(),
        [first, rest @ ..] => format!("{} (and {} more)", first.detail, rest.len()),
    };
    Problem::new(code, detail).with_errors(issues)
}
