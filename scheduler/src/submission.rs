//! Parses, validates and routes submissions.

use std::sync::Arc;

use axum::body::Bytes;
use goalmill_common::clock::rfc3339;
use goalmill_common::command::{Planned, Submit, content_fingerprint};
use goalmill_common::constraint::constraints;
use goalmill_common::event::SubmissionEntry;
use goalmill_common::goal::{Goal, INPUTS, START_MS_MAX};
use goalmill_common::id::{EntryId, Namespace};
use goalmill_common::plan::Plan;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::stored_plan::STORED_PLAN;
use goalmill_common::trace::is_traceparent;
use goalmill_common::view::Preview;
use goalmill_common::wire::{Submission, SubmissionKind};
use goalmill_formats::{ConvertedDocument, convert_plan, withhold_context, workflow_plan};
use goalmill_plan::document::{self, Format};
use goalmill_plan::foreign;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::stored_plans::may_use;
use goalmill_plan::validate::{self, Rules};
use goalmill_shard::stream_answers;
use serde_json::{Map, Value};

use crate::run_blocking::run_blocking_if_large;
use crate::scheduler::Scheduler;
use crate::stored_plans::{PlanScope, resolve_uses};

/// A valid, routed plan and its goal.
pub(crate) struct ParsedPlan {
    pub(crate) goal: Goal,
    /// None for a goal that was sent where plans are: a workflow that makes its plan.
    pub(crate) planned: Option<Planned>,
    /// How a goal was read.
    pub(crate) notes: Vec<Issue>,
}

/// A document that was submitted, as it is before anything is converted.
pub(crate) struct SubmittedDocument {
    draft: Value,
    /// Of its text.
    bytes: usize,
    /// Whether it may use stored plans.
    may_use: bool,
    /// See [`content_fingerprint`].
    pub(crate) fingerprint: String,
}

impl SubmittedDocument {
    /// The document of a run of a stored plan.
    ///
    /// - `bytes`: of its text, about.
    pub(crate) fn of_stored(draft: Value, bytes: usize) -> Self {
        Self { draft, bytes, may_use: true, fingerprint: String::new() }
    }
}

/// Reads the text of a goal or a plan. Large texts are read on a blocking thread.
pub(crate) async fn read_document(
    scheduler: &Arc<Scheduler>,
    text: Bytes,
    format: Format,
    kind: SubmissionKind,
) -> Result<SubmittedDocument, Problem> {
    read_with_inputs(scheduler, (text, None), format, kind).await
}

/// The same, with a text that has more inputs for the plan.
async fn read_with_inputs(
    scheduler: &Arc<Scheduler>,
    (text, inputs): (Bytes, Option<String>),
    format: Format,
    kind: SubmissionKind,
) -> Result<SubmittedDocument, Problem> {
    let scheduler = scheduler.clone();
    let (name, code) = match kind {
        SubmissionKind::Goal => ("goal", ErrorCode::InvalidGoal),
        SubmissionKind::Plan => ("plan", ErrorCode::InvalidPlan),
    };
    let bytes = text.len() + inputs.as_ref().map_or(0, String::len);
    run_blocking_if_large(bytes, move || {
        let mut draft = parse_draft(&scheduler, &text, format, code)?;
        if let Some(inputs) = inputs {
            document::add_inputs(&mut draft, read_inputs(&scheduler, &inputs)?);
            document::check_size(&draft, &scheduler.settings.limits).map_err(|issues| issues_problem(code, issues))?;
        }
        let fingerprint = content_fingerprint(name, &draft);
        Ok(SubmittedDocument { draft, bytes, may_use: may_use(&text), fingerprint })
    })
    .await
}

/// Parses a submission of the stream.
///
/// - `entry`: where its client wrote it.
pub(crate) async fn parse_submission(
    scheduler: &Arc<Scheduler>,
    entry: EntryId,
    submission: Submission,
) -> Result<Submit, Problem> {
    let id = submission.answer_id();
    let Submission { id: _, source, kind, data, inputs, traceparent, namespace } = submission;
    if traceparent.as_deref().is_some_and(|text| !is_traceparent(text)) {
        return Err(invalid_traceparent());
    }
    let document = read_with_inputs(scheduler, (Bytes::from(data), inputs), Format::Auto, kind).await?;
    let fingerprint = document.fingerprint.clone();
    let (mut goal, plan, warnings) = match kind {
        SubmissionKind::Goal => {
            let ParsedGoal { goal, notes } = parse_goal(scheduler, document).await?;
            (goal, None, notes)
        }
        SubmissionKind::Plan => {
            let sender = namespace.clone().unwrap_or_default();
            let scope = PlanScope { namespace: sender, sees_all: namespace.is_none() };
            let ParsedPlan { goal, planned, notes } = parse_plan(scheduler, document, &scope).await?;
            let warnings = planned.as_ref().map_or(notes, |planned| planned.warnings.clone());
            (goal, planned, warnings)
        }
    };
    if let Some(bound) = namespace {
        let place = if kind == SubmissionKind::Goal { "/namespace" } else { "/goal/namespace" };
        bind_goal(&mut goal, bound, place)?;
    }
    let entry = Some(Box::new(SubmissionEntry { id: entry, warnings: stream_answers::shortened(warnings) }));
    Ok(Submit { goal, plan, submission: id, fingerprint, entry, source, parent: None, traceparent, fork: None })
}

/// Reads the field `inputs` of an entry.
fn read_inputs(scheduler: &Scheduler, text: &str) -> Result<Map<String, Value>, Problem> {
    match parse_draft(scheduler, text.as_bytes(), Format::Auto, ErrorCode::InvalidEntry)? {
        Value::Object(inputs) => Ok(inputs),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let hint = "write one object, such as `{\"city\": \"Paris\"}`";
            let issue = document::issue("WRONG_TYPE", "/inputs", "the inputs are not an object", hint);
            Err(issues_problem(ErrorCode::InvalidEntry, vec![issue]))
        }
    }
}

/// Parses, validates and routes a plan.
pub(crate) async fn parse_plan(
    scheduler: &Arc<Scheduler>,
    document: SubmittedDocument,
    scope: &PlanScope,
) -> Result<ParsedPlan, Problem> {
    let bytes = document.bytes;
    let draft = resolve_document(scheduler, document, scope).await?;
    let scheduler = scheduler.clone();
    run_blocking_if_large(bytes, move || {
        let live = scheduler.directory.live();
        let now_ms = Some(scheduler.clock.now_ms());
        let rules = Rules { policy: &scheduler.policy, live: live.as_deref(), now_ms, ..Rules::default() };
        parse_plan_with(&scheduler, draft, &rules, InputsKnown::Now)
    })
    .await
}

/// Puts the stored plans that a plan uses in their places.
async fn resolve_document(
    scheduler: &Arc<Scheduler>,
    document: SubmittedDocument,
    scope: &PlanScope,
) -> Result<Value, Problem> {
    let SubmittedDocument { draft, may_use, .. } = document;
    if may_use { resolve_uses(scheduler, draft, scope).await } else { Ok(draft) }
}

/// Reads the text of a plan.
pub(crate) async fn read_draft(scheduler: &Arc<Scheduler>, text: Bytes, format: Format) -> Result<Value, Problem> {
    Ok(read_document(scheduler, text, format, SubmissionKind::Plan).await?.draft)
}

/// Previews a plan: as [`parse_plan`], also with warnings about the registered agents, and with an estimate.
pub(crate) async fn preview_plan(
    scheduler: &Arc<Scheduler>,
    text: Bytes,
    format: Format,
    scope: &PlanScope,
) -> Result<Preview, Problem> {
    let bytes = text.len();
    let document = read_document(scheduler, text, format, SubmissionKind::Plan).await?;
    let draft = resolve_document(scheduler, document, scope).await?;
    let scheduler = scheduler.clone();
    run_blocking_if_large(bytes, move || {
        let catalogue = scheduler.directory.catalogue();
        let now_ms = Some(scheduler.clock.now_ms());
        let rules = Rules { policy: &scheduler.policy, now_ms, ..Rules::submitted(&catalogue) };
        let parsed = parse_plan_with(&scheduler, draft, &rules, InputsKnown::IfGiven)?;
        Ok(match parsed.planned {
            Some(planned) => validate::preview(planned, Some(&catalogue)),
            None => Preview { valid: true, warnings: parsed.notes, ..Preview::refused(Vec::new()) },
        })
    })
    .await
}

/// A valid goal, and notes on how its document was read.
pub(crate) struct ParsedGoal {
    pub(crate) goal: Goal,
    pub(crate) notes: Vec<Issue>,
}

/// Parses and validates a goal.
pub(crate) async fn parse_goal(scheduler: &Arc<Scheduler>, document: SubmittedDocument) -> Result<ParsedGoal, Problem> {
    let scheduler = scheduler.clone();
    run_blocking_if_large(document.bytes, move || convert_goal(&scheduler, document.draft)).await
}

/// Gives a goal the namespace of the stream that it came by, and refuses one that names another.
fn bind_goal(goal: &mut Goal, bound: Namespace, place: &str) -> Result<(), Problem> {
    if let Some(named) = goal.namespace.take().filter(|named| *named != bound) {
        let issue = Issue {
            code: "FOREIGN_NAMESPACE".into(),
            pointer: place.into(),
            detail: format!("the goal names the namespace `{named}`, and its stream is that of `{bound}`"),
            hint: format!("leave `namespace` out, or submit to the stream of `{named}`"),
        };
        return Err(Problem::new(ErrorCode::Forbidden, issue.detail.clone()).with_errors(vec![issue]));
    }
    goal.namespace = Some(bound).filter(|bound| !bound.is_default());
    Ok(())
}

/// The problem of a submission whose trace context must not be copied into a header.
fn invalid_traceparent() -> Problem {
    let issue = Issue {
        code: "INVALID_TRACEPARENT".into(),
        pointer: "/traceparent".into(),
        detail: "`traceparent` does not have the format of W3C Trace Context".into(),
        hint: "send 00-<32 hex digits>-<16 hex digits>-<2 hex digits> in lower case, or leave the field out".into(),
    };
    Problem::new(ErrorCode::InvalidEntry, issue.detail.clone()).with_errors(vec![issue])
}

fn convert_goal(scheduler: &Scheduler, draft: Value) -> Result<ParsedGoal, Problem> {
    let converted = goalmill_formats::convert_goal(draft, &scheduler.settings.limits)
        .map_err(|issues| issues_problem(ErrorCode::InvalidGoal, issues))?;
    let goal = validate_goal(scheduler, &converted.document).map_err(|problem| located(&converted, problem))?;
    Ok(ParsedGoal { goal, notes: converted.notes })
}

/// Lets the places of a problem lead into the document as it was sent.
fn located(converted: &ConvertedDocument, problem: Problem) -> Problem {
    let errors = converted.locate(problem.errors.clone());
    problem.with_errors(errors)
}

/// When the inputs of a plan are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InputsKnown {
    /// It is submitted.
    Now,
    /// It is previewed: if it has some, it has all.
    IfGiven,
    /// It is stored.
    Later,
}

impl InputsKnown {
    fn are_of(self, goal: &Goal) -> bool {
        match self {
            Self::Now => true,
            Self::IfGiven => goal.metadata.contains_key(INPUTS),
            Self::Later => false,
        }
    }
}

fn parse_plan_with(
    scheduler: &Scheduler,
    mut draft: Value,
    rules: &Rules<'_>,
    inputs: InputsKnown,
) -> Result<ParsedPlan, Problem> {
    if foreign::is_workflow(&draft) {
        match workflow_plan(&draft) {
            Some(plan) => draft = plan,
            None => {
                let ParsedGoal { goal, notes } = convert_goal(scheduler, draft)?;
                return Ok(ParsedPlan { goal, planned: None, notes });
            }
        }
    }
    let (goal, valid, hands_on) = validate_plan_draft(scheduler, draft, rules, inputs)?;
    // A stored plan may have been converted when it was stored.
    let hands_on = hands_on || goal.metadata.contains_key(STORED_PLAN) || uses_stored_plan(valid.plan());
    let route = |plan: &mut Plan| {
        let mut routing = scheduler.directory.route(plan, rules.policy)?;
        if hands_on {
            routing.1.extend(withhold_context(plan, &scheduler.directory.catalogue()));
        }
        Ok(routing)
    };
    let routed = valid.route(route).map_err(|issues: Vec<Issue>| {
        let denied = issues.iter().any(|issue| issue.code == "ACTION_DENIED");
        issues_problem(if denied { ErrorCode::InvalidPlan } else { ErrorCode::Unroutable }, issues)
    })?;
    Ok(ParsedPlan { goal, planned: Some(routed.submitted()), notes: Vec::new() })
}

fn uses_stored_plan(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| step.stored.is_some() || step.plan.as_deref().is_some_and(uses_stored_plan))
}

/// Validates a plan that is stored. Its agents may come later.
pub(crate) fn validate_stored(scheduler: &Scheduler, draft: Value) -> Result<(Goal, Plan), Problem> {
    let rules = Rules { policy: &scheduler.policy, ..Rules::default() };
    let (goal, valid, _) = validate_plan_draft(scheduler, draft, &rules, InputsKnown::Later)?;
    Ok((goal, valid.into_plan()))
}

/// Validates a plan and its goal. Says too whether its steps got inputs that their actions may not take.
fn validate_plan_draft(
    scheduler: &Scheduler,
    draft: Value,
    rules: &Rules<'_>,
    inputs: InputsKnown,
) -> Result<(Goal, ValidPlan, bool), Problem> {
    let limits = &scheduler.settings.limits;
    let mut converted = convert_plan(draft, limits).map_err(|issues| issues_problem(ErrorCode::InvalidPlan, issues))?;
    let mut goal = match document::split_goal(&converted.document) {
        Some(goal) => validate_goal(scheduler, &goal).map_err(|problem| located(&converted, problem))?,
        None => Goal::default(),
    };
    let now_ms = scheduler.clock.now_ms();
    let rules = &Rules {
        constraints: constraints(&goal.constraints),
        inputs: if inputs.are_of(&goal) { goal.input_names() } else { None },
        seconds_left: goal.deadline_ms.map(|ms| ms.saturating_sub(now_ms) as f64 / 1_000.0),
        ..rules.clone()
    };
    let valid = validate::validate_plan_by(&converted.document, limits, rules)
        .map_err(|issues| issues_problem(ErrorCode::InvalidPlan, converted.locate(issues)))?;
    if inputs.are_of(&goal) {
        validate::give_inputs(&mut goal, valid.plan())
            .map_err(|issues| issues_problem(ErrorCode::InvalidPlan, issues))?;
    }
    Ok((goal, valid.with_notes(std::mem::take(&mut converted.notes)), converted.hands_on))
}

fn parse_draft(scheduler: &Scheduler, text: &[u8], format: Format, code: ErrorCode) -> Result<Value, Problem> {
    if text.trim_ascii().is_empty() {
        return Err(Problem::new(ErrorCode::InvalidJson, "the text is empty; send a document"));
    }
    document::parse_document(text, format, &scheduler.settings.limits).map_err(|issues| {
        let syntax = issues.iter().any(|issue| issue.code == "INVALID_JSON");
        issues_problem(if syntax { ErrorCode::InvalidJson } else { code }, issues)
    })
}

fn validate_goal(scheduler: &Scheduler, draft: &Value) -> Result<Goal, Problem> {
    let goal = validate::goal(draft, &scheduler.settings.limits)
        .map_err(|issues| issues_problem(ErrorCode::InvalidGoal, issues))?;
    check_planning(scheduler, &goal)?;
    check_deadline(scheduler.clock.now_ms(), &goal)?;
    Ok(goal)
}

/// Rejects a goal whose deadline has passed.
fn check_deadline(now_ms: u64, goal: &Goal) -> Result<(), Problem> {
    check_start(now_ms, goal)?;
    let Some(deadline_ms) = goal.deadline_ms.filter(|deadline_ms| *deadline_ms <= now_ms) else { return Ok(()) };
    let issue = Issue {
        code: "DEADLINE_OVER".into(),
        pointer: "/deadline".into(),
        detail: format!("the deadline {} has passed: it is {}", rfc3339(deadline_ms), rfc3339(now_ms)),
        hint: "give a later deadline, or none".into(),
    };
    Err(issues_problem(ErrorCode::InvalidGoal, vec![issue]))
}

/// Rejects a start in more than a year, or not before the deadline.
fn check_start(now_ms: u64, goal: &Goal) -> Result<(), Problem> {
    let start_ms = goal.start_in_ms.map(|start_in_ms| now_ms.saturating_add(start_in_ms)).or(goal.start_at_ms);
    let Some(start_ms) = start_ms.filter(|start_ms| *start_ms > now_ms) else { return Ok(()) };
    let (code, hint) = if start_ms > now_ms.saturating_add(START_MS_MAX) {
        ("OUT_OF_RANGE", "give a start within a year")
    } else if goal.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= start_ms) {
        ("DEADLINE_OVER", "give an earlier start, or a later deadline")
    } else {
        return Ok(());
    };
    let issue = Issue {
        code: code.into(),
        pointer: "/start_at".into(),
        detail: format!("the plan would start at {}", rfc3339(start_ms)),
        hint: hint.into(),
    };
    Err(issues_problem(ErrorCode::InvalidGoal, vec![issue]))
}

/// Rejects a goal that names an unknown planner or model.
pub(crate) fn check_planning(scheduler: &Scheduler, goal: &Goal) -> Result<(), Problem> {
    let issues = scheduler.planners.choice_issues(goal);
    if issues.is_empty() { Ok(()) } else { Err(issues_problem(ErrorCode::InvalidGoal, issues)) }
}

/// A problem that lists the issues; its detail is the first one.
pub(crate) fn issues_problem(code: ErrorCode, issues: Vec<Issue>) -> Problem {
    let detail = match issues.as_slice() {
        [] => "it cannot be accepted".to_owned(),
        [only] => only.detail.clone(),
        [first, rest @ ..] => format!("{} (and {} more)", first.detail, rest.len()),
    };
    Problem::new(code, detail).with_errors(issues)
}
