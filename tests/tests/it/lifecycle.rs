//! The page on a plan's life says what the engine does: its tables are those of the code.

use std::fmt::Write;

use goalmill_common::call::{CallWait, CallWaitKind, RecordedCall, SuspendedCall};
use goalmill_common::config::HookPoint;
use goalmill_common::constraint::ConstraintStatus;
use goalmill_common::criterion::JudgeKind;
use goalmill_common::event::{
    ApprovalRequested, CallsDiscarded, ConstraintChanged, GoalAccepted, HookAsked, HookDecided, HookDecision,
    JudgementRequested, PhaseAdded, PhaseNamed, PlanCreated, PlanEnded, PlanEvent, PlanValidated, QuestionAnswered,
    QuestionAsked, Reason, RevisionProposed, RevisionRefused, SkipCause, StepAdded, StepAnswered, StepCompleted,
    StepDecomposed, StepEvent, StepFailed, StepModified, StepProgress, StepQuestion, StepQueued, StepReleased,
    StepResumed, StepRetrying, StepSkipped, StepStarted, StepSuspended,
};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::{Goal, Usage};
use goalmill_common::json::Json;
use goalmill_common::plan::{Question, Step};
use goalmill_common::revision::{Proposal, RevisionStrategy};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_engine::{plan_transition, step_transition};

use crate::docs::read;

const PAGE: &str = "docs/plan-lifecycle.md";

#[test]
fn the_moves_of_steps_are_those_of_the_page() {
    let events = step_events();
    assert_eq!(events.iter().map(StepEvent::type_name).collect::<Vec<_>>(), StepEvent::TYPES);
    let rows = events.iter().map(|event| {
        let moves = StepStatus::ALL.iter().filter_map(|at| Some((at.as_str(), step_transition(*at, event)?.as_str())));
        (event.type_name(), moves.collect())
    });
    compare("step moves", &table(rows));
}

#[test]
fn the_moves_of_plans_are_those_of_the_page() {
    let events = plan_events();
    let mut names: Vec<&str> = events.iter().map(PlanEvent::type_name).collect();
    names.dedup();
    assert_eq!(names, PlanEvent::TYPES);
    let mut rows: Vec<(&str, Vec<(&str, &str)>)> = Vec::new();
    for event in &events {
        let moves = PlanStatus::ALL.iter().filter_map(|at| Some((at.as_str(), plan_transition(*at, event)?.as_str())));
        match rows.last_mut() {
            Some((name, all)) if *name == event.type_name() => all.extend(moves),
            _ => rows.push((event.type_name(), moves.collect())),
        }
    }
    compare("plan moves", &table(rows));
}

#[test]
fn every_status_is_on_the_page_and_what_waits_has_a_wake_up() {
    let page = read(PAGE);
    let row = |word: &str| page.lines().find(|line| line.starts_with(&format!("| `{word}` |"))).map(str::to_owned);
    let plans = PlanStatus::ALL.iter().map(|status| (status.as_str(), status.is_final()));
    let steps = StepStatus::ALL.iter().map(|status| (status.as_str(), status.is_final()));
    for (word, is_final) in plans.chain(steps) {
        let row = row(word).unwrap_or_else(|| panic!("`{word}` is missing in {PAGE}"));
        assert_eq!(row.contains("| final |"), is_final, "{row}");
    }
}

/// Event, from where, to where; `=` where the status stays.
fn table<'a>(rows: impl IntoIterator<Item = (&'a str, Vec<(&'a str, &'a str)>)>) -> String {
    let mut text = String::from("| event | from | to |\n|---|---|---|\n");
    for (name, moves) in rows {
        let stays = !moves.is_empty() && moves.iter().all(|(from, to)| from == to);
        let from = words(moves.iter().map(|(from, _)| *from));
        let to = if stays { "=".into() } else { words(moves.iter().map(|(_, to)| *to)) };
        writeln!(text, "| `{name}` | {from} | {to} |").expect("a text can always be written to");
    }
    text
}

/// Each word once, in the order of a life; a dash for none.
fn words<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut once: Vec<String> = Vec::new();
    for word in all.map(|word| format!("`{word}`")) {
        if !once.contains(&word) {
            once.push(word);
        }
    }
    if once.is_empty() { "–".into() } else { once.join(", ") }
}

fn compare(name: &str, expected: &str) {
    let page = read(PAGE);
    let marked = page.split_once(&format!("<!-- {name} -->\n\n")).and_then(|(_, rest)| rest.split_once("\n\n"));
    let (found, _) = marked.unwrap_or_else(|| panic!("{PAGE} has no table after `<!-- {name} -->`"));
    assert!(found.trim_end() == expected.trim_end(), "the table `{name}` in {PAGE} should be:\n\n{expected}");
}

/// One of each kind.
fn step_events() -> Vec<StepEvent> {
    let failure = || Failure::new(FailureClass::Transient, "X", "x");
    let added = || Box::new(StepAdded { step: Step::new("a", "w") });
    vec![
        StepEvent::Added(added()),
        StepEvent::Modified(Box::new(StepModified { step: Step::new("a", "w"), before: None })),
        StepEvent::Removed(Reason::boxed("")),
        StepEvent::Ready,
        StepEvent::Blocked(Reason::boxed("")),
        StepEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms: 1 })),
        StepEvent::HookAsked(Box::new(asked(HookPoint::OnStepStart))),
        StepEvent::HookDecided(Box::new(decided(HookPoint::OnStepStart))),
        StepEvent::Approved(Reason::boxed("")),
        StepEvent::QuestionAsked(Box::new(StepQuestion { question: String::new(), due_ms: 1 })),
        StepEvent::Answered(Box::new(StepAnswered { answer: Json::null(), by_default: false, reason: String::new() })),
        StepEvent::Recalled(Reason::boxed("")),
        StepEvent::Decomposed(Box::new(StepDecomposed::new(""))),
        StepEvent::Queued(Box::new(StepQueued::new("w".into(), 1))),
        StepEvent::Started(Box::new(StepStarted { worker: None, started_ms: 1, due_ms: 1 })),
        StepEvent::Progress(Box::new(StepProgress { progress: None, message: None })),
        StepEvent::Measured(Box::default()),
        StepEvent::CallRecorded(Box::default()),
        StepEvent::CallsDiscarded(Box::new(CallsDiscarded { from: 1, recorded: String::new(), called: None })),
        StepEvent::Suspended(Box::new(suspended())),
        StepEvent::Resumed(Box::new(StepResumed::new(RecordedCall::default(), false))),
        StepEvent::Completed(Box::new(StepCompleted { outputs: Json::null(), ..StepCompleted::default() })),
        StepEvent::Retrying(Box::new(StepRetrying::new(failure(), 1))),
        StepEvent::Released(Box::new(StepReleased { worker: "w".into() })),
        StepEvent::Failed(Box::new(StepFailed::new(failure()))),
        StepEvent::Skipped(Box::new(StepSkipped::new(SkipCause::Person))),
        StepEvent::Cancelled(Reason::boxed("")),
    ]
}

/// One of each kind, and of each end.
fn constraint_changed() -> ConstraintChanged {
    ConstraintChanged {
        constraint: String::new(),
        status: ConstraintStatus::Low,
        priority: 5,
        hard: false,
        measure: String::new(),
        measured: 0.0,
        limit: 0.0,
        unit: String::new(),
        reason: String::new(),
    }
}

fn plan_events() -> Vec<PlanEvent> {
    let phase = || Box::new(PhaseNamed { phase: "one".into() });
    vec![
        PlanEvent::GoalAccepted(Box::new(GoalAccepted {
            plan_id: "p0-1".into(),
            goal: Goal::default(),
            submission: String::new(),
            source: String::new(),
            secret: String::new(),
            fingerprint: String::new(),
            parent: None,
            traceparent: None,
            deadline_ms: 1,
        })),
        PlanEvent::ModelAsked(Box::default()),
        PlanEvent::ModelAnswered(Box::default()),
        PlanEvent::ToolsCalled(Box::default()),
        PlanEvent::PlanningFailed(Box::default()),
        PlanEvent::PlanCreated(Box::new(PlanCreated {
            plan: std::sync::Arc::default(),
            planner: String::new(),
            confidence: 1.0,
            provenance: None,
            open: false,
            fork: None,
        })),
        PlanEvent::PlanValidated(Box::new(PlanValidated {
            warnings: Vec::new(),
            routes: Vec::new(),
            critical_path_seconds: 0.0,
        })),
        PlanEvent::ApprovalRequested(Box::new(ApprovalRequested { due_ms: 1 })),
        PlanEvent::HookAsked(Box::new(asked(HookPoint::OnPlanGenerated))),
        PlanEvent::HookDecided(Box::new(decided(HookPoint::OnPlanGenerated))),
        PlanEvent::Approved(Reason::boxed("")),
        PlanEvent::Rejected(Box::default()),
        PlanEvent::PhaseAdded(Box::new(PhaseAdded {
            phase: "one".into(),
            description: String::new(),
            checkpoint: false,
            place: 0,
        })),
        PlanEvent::PhaseStarted(phase()),
        PlanEvent::PhaseCompleted(phase()),
        PlanEvent::PhaseFailed(phase()),
        PlanEvent::PhaseSkipped(phase()),
        PlanEvent::ReplanTriggered(Box::default()),
        PlanEvent::RevisionProposed(Box::new(RevisionProposed {
            revision: 1,
            proposal: Proposal::new(RevisionStrategy::Edit, Vec::new()),
            changes: Vec::new(),
            widens: Vec::new(),
            confidence_before: 1.0,
            confidence_after: 1.0,
            due_ms: 1,
        })),
        PlanEvent::RevisionRefused(Box::new(RevisionRefused {
            revision: 1,
            strategy: RevisionStrategy::Edit,
            reason: String::new(),
            issues: Vec::new(),
            due_ms: 0,
            usage: Usage::default(),
        })),
        PlanEvent::QuestionAsked(Box::new(QuestionAsked {
            id: "q1".into(),
            question: Question { question: String::new(), schema: None, default: None, limit_ms: 1, into: None },
            due_ms: 1,
            usage: Usage::default(),
        })),
        PlanEvent::QuestionAnswered(Box::new(QuestionAnswered {
            id: "q1".into(),
            answer: Json::null(),
            by_default: false,
            reason: String::new(),
            due_ms: 1,
        })),
        PlanEvent::Revised(Box::default()),
        PlanEvent::Extended(Box::default()),
        PlanEvent::FamilyGrew(Box::default()),
        PlanEvent::ConstraintChanged(Box::new(constraint_changed())),
        PlanEvent::JudgementRequested(Box::new(JudgementRequested {
            judge: JudgeKind::Model,
            criteria: Vec::new(),
            due_ms: 1,
        })),
        PlanEvent::CriteriaJudged(Box::default()),
        PlanEvent::Paused(Reason::boxed("")),
        PlanEvent::Resumed(Reason::boxed("")),
        PlanEvent::Quarantined(Reason::boxed("")),
        PlanEvent::Completed(ended(PlanStatus::Completed)),
        PlanEvent::Completed(ended(PlanStatus::Partial)),
        PlanEvent::Failed(ended(PlanStatus::Failed)),
        PlanEvent::Cancelled(ended(PlanStatus::Cancelled)),
    ]
}

fn ended(status: PlanStatus) -> Box<PlanEnded> {
    Box::new(PlanEnded { status, failure: None, reason: String::new(), cancelled: Vec::new() })
}

fn suspended() -> StepSuspended {
    let wait = CallWait::new(CallWaitKind::Approval, "");
    let call = SuspendedCall { n: 1, name: String::new(), inputs: None, wait };
    StepSuspended::new(call, "w".into(), 1)
}

fn asked(point: HookPoint) -> HookAsked {
    HookAsked { id: String::new(), point, completed: None }
}

fn decided(point: HookPoint) -> HookDecided {
    HookDecided {
        id: String::new(),
        point,
        decision: HookDecision::Allow,
        hook: String::new(),
        by_default: false,
        reason: String::new(),
        issues: Vec::new(),
        inputs: None,
        failure: None,
        strategy: None,
        hint: String::new(),
        due_ms: 0,
    }
}
