//! Users: they submit plans, wait for their end, and send requests to running plans.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Broker, BrokerError, KeptEvent};
use goalmill_common::callback::{CallbackError, CallbackReport};
use goalmill_common::command::{Change, Request, Verb};
use goalmill_common::external_event::{ExternalEvent, topic};
use goalmill_common::id::{Namespace, PlanId, StepId};
use goalmill_common::plan::Step;
use goalmill_common::status::StepStatus;
use goalmill_common::wire::{Inbox, Submission, SubmissionAnswer, SubmissionKind};
use goalmill_engine::{PlanState, StepIndex};
use serde_json::json;

use crate::environment::Environment;
use crate::link::Link;
use crate::plans;
use crate::process::Process;
use crate::rng::Rng;

/// Time between two polls of a plan, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// Polls without an answer before a submission is sent again.
const LOOKS_MAX: u32 = 6;

/// The result of one submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionResult {
    Ended,
    Refused(String),
    /// It was accepted, and the server lost that when it turned back.
    Forgotten,
}

/// Submits one plan and follows it to its end.
pub async fn submit(env: Arc<Environment>, rng: Rng, shards: u16, number: u64, begin_ms: u64) -> SubmissionResult {
    let process = Arc::new(Process::new(format!("client-{number}")));
    let link = Link::new(&env, &process);
    let (kind, data) = if rng.permille(150) {
        (SubmissionKind::Goal, r#"{"description": "Make something of it"}"#.to_owned())
    } else {
        let plan = plans::random(&rng, 1);
        (SubmissionKind::Plan, serde_json::to_string(&plan).expect("a plan always has a JSON text"))
    };
    let id = format!("wish-{number}");
    let submission =
        Submission { id, source: "sim".into(), kind, data, inputs: None, traceparent: None, namespace: None };
    let twice = rng.permille(150);
    pause(begin_ms).await;
    follow(&link, &submission, shards, twice).await
}

/// Submits a plan until it is answered, and follows it to its end.
pub async fn follow(link: &Link, submission: &Submission, shards: u16, twice: bool) -> SubmissionResult {
    let fields = submission.fields();
    let plan_id = PlanId::derive(shards, &Namespace::default(), &submission.id);
    loop {
        while link.submit(&fields).await.is_err() {
            pause(200).await;
        }
        if twice {
            drop(link.submit(&fields).await);
        }
        for _ in 0..LOOKS_MAX {
            pause(LOOK_MS).await;
            if let Some(fulfilled) = poll(&link.env, &submission.id, &plan_id).await {
                return fulfilled;
            }
        }
    }
}

/// Waits for the answer and then for the end of the plan.
async fn poll(env: &Environment, id: &str, plan: &PlanId) -> Option<SubmissionResult> {
    let answers = env.broker.answers(&[id.to_owned()]).await.expect("looking never fails");
    let text = answers.into_iter().next().flatten()?;
    match serde_json::from_str(&text).expect("answers can be read") {
        SubmissionAnswer::Refused(problem) => return Some(SubmissionResult::Refused(format!("{problem:?}"))),
        SubmissionAnswer::Accepted { plan_id, .. } => assert_eq!(plan_id, *plan, "[I9] the answer names another plan"),
    }
    loop {
        let epoch = env.epoch();
        match env.auditor().plans().get(plan).map(goalmill_engine::PlanState::is_final) {
            Some(true) => return Some(SubmissionResult::Ended),
            Some(false) => {}
            None => return Some(SubmissionResult::Forgotten),
        }
        pause(LOOK_MS).await;
        if env.epoch() != epoch {
            return None;
        }
    }
}

/// Cancels, pauses, edits and resumes running plans until `until_ms`; paused plans are resumed at the end.
pub async fn send_random_requests(env: Arc<Environment>, rng: Rng, until_ms: u64) {
    let process = Arc::new(Process::new("person"));
    let link = Link::new(&env, &process);
    let mut paused: Vec<PlanId> = Vec::new();
    while env.at_ms() < until_ms {
        pause(rng.between(500, 4_000)).await;
        let running: Vec<PlanId> = {
            let auditor = env.auditor();
            let running = auditor.plans().values().filter(|state| !state.is_final() && state.parent().is_none());
            running.map(|state| state.id().clone()).collect()
        };
        if running.is_empty() {
            continue;
        }
        let plan = rng.pick(&running).clone();
        let reason = String::from("a whim");
        let steps: Vec<StepId> = {
            let auditor = env.auditor();
            let state = auditor.plans().get(&plan);
            state.map(|state| state.plan().steps.iter().map(|step| step.id.clone()).collect()).unwrap_or_default()
        };
        let verb = match rng.between(0, 9) {
            0 => Verb::Cancel { reason },
            1 | 2 => {
                paused.push(plan.clone());
                Verb::Pause { reason }
            }
            3 => Verb::Replan {
                reason,
                hint: String::new(),
                options: goalmill_common::planning::ReplanOptions::default(),
            },
            4..=6 if !steps.is_empty() => Verb::Edit { changes: vec![change(&rng, &steps)], revision: None, reason },
            7 if !steps.is_empty() => {
                let question = rng.pick(&steps).to_string();
                Verb::AnswerQuestion { question, answer: json!({"n": 2}).into(), reason }
            }
            _ => Verb::Resume { reason },
        };
        ask(&link, plan, verb).await;
    }
    while let Some(plan) = paused.pop() {
        ask(&link, plan, Verb::Resume { reason: "enough".into() }).await;
    }
}

/// Reports for agents that have accepted a task, often late, twice, or with another outcome, until `until_ms`. What nobody
/// reports runs out of time.
pub async fn call_back(env: Arc<Environment>, rng: Rng, until_ms: u64) {
    let process = Arc::new(Process::new("agent"));
    let link = Link::new(&env, &process);
    while env.at_ms() < until_ms {
        pause(rng.between(50, 1_500)).await;
        let waiting: Vec<(PlanId, StepId, u32)> = {
            let auditor = env.auditor();
            let plans = auditor.plans().values().filter(|state| !state.is_final());
            plans.flat_map(accepted_steps).collect()
        };
        for (plan, step, attempt) in waiting {
            if rng.permille(300) {
                continue;
            }
            let report = if rng.permille(300) {
                CallbackReport { error: Some(CallbackError::default()), ..CallbackReport::default() }
            } else {
                let outputs = json!({"attempt": attempt, "n": rng.between(0, 9)});
                CallbackReport { outputs: Some(outputs.into()), ..CallbackReport::default() }
            };
            for _ in 0..rng.between(1, 2) {
                let (step, report) = (step.clone(), Box::new(report.clone()));
                ask(&link, plan.clone(), Verb::ReportCallback { step, attempt, report }).await;
            }
        }
    }
}

/// The steps whose agents have accepted their task, or are about to.
fn accepted_steps(state: &PlanState) -> Vec<(PlanId, StepId, u32)> {
    let steps = (0..state.len()).filter_map(|n| state.step(StepIndex::new(n)));
    let waits = steps.filter(|at| {
        at.spec.callback && matches!(at.status, StepStatus::Queued | StepStatus::Running | StepStatus::Waiting)
    });
    waits.map(|at| (state.id().clone(), at.spec.id.clone(), at.attempt)).collect()
}

/// A random change, valid or not.
fn change(rng: &Rng, steps: &[StepId]) -> Change {
    let step = rng.pick(steps).clone();
    let new = || Step { dependencies: vec![step.clone()], ..Step::new(format!("new-{}", rng.between(0, 9)), "quick") };
    match rng.between(0, 6) {
        0 => Change::RetryStep { step, agent_type: Some("quick".into()), action: None, inputs: None },
        1 => Change::SkipStep { step, reason: String::new() },
        2 => Change::RemoveStep { step },
        3 => Change::AddStep { step: Box::new(new()), before: Vec::new() },
        4 => Change::ReplaceStep { step: step.clone(), with: vec![Step { dependencies: Vec::new(), ..new() }] },
        _ => Change::Order { steps: vec![step, rng.pick(steps).clone()] },
    }
}

/// Sends events from outside until `until_ms`, each until it is taken: to all plans that wait, or to one plan.
pub async fn send_events(env: Arc<Environment>, rng: Rng, until_ms: u64) {
    let process = Arc::new(Process::new("sender"));
    let link = Link::new(&env, &process);
    for number in 0.. {
        pause(rng.between(200, 2_000)).await;
        if env.at_ms() >= until_ms {
            return;
        }
        let (name, key) = plans::event(&rng);
        let event = ExternalEvent { id: format!("event-{number}"), name, key, data: json!({ "n": number }).into() };
        if rng.permille(300) {
            let open: Vec<PlanId> = {
                let auditor = env.auditor();
                let open = auditor.plans().values().filter(|state| !state.is_final());
                open.map(|state| state.id().clone()).collect()
            };
            if !open.is_empty() {
                let verb = Verb::SendEvent { event: Box::new(event), waiting_only: false };
                ask(&link, rng.pick(&open).clone(), verb).await;
            }
            continue;
        }
        while publish(&link, std::slice::from_ref(&event)).await.is_err() {
            pause(200).await;
        }
    }
}

/// Keeps the last one of some events, and then tells the plans that wait for it of all, as the API does: it must not
/// overtake those before it.
pub async fn publish(link: &Link, events: &[ExternalEvent]) -> Result<(), BrokerError> {
    let Some(event) = events.last() else { return Ok(()) };
    let (namespace, topic) = (Namespace::default(), topic(&event.name, &event.key));
    let text = serde_json::to_string(event).expect("an event always has a JSON text");
    let kept = KeptEvent {
        namespace: namespace.clone(),
        topic: topic.clone(),
        id: event.id.clone(),
        text,
        retention_ms: 600_000,
        most: 1_000,
    };
    link.keep_event(&kept).await?;
    let waits = link.fields(&link.keys().waits_of(&namespace, &topic)).await?;
    for plan in waits.keys().filter_map(|field| Some(PlanId::from(field.split_once(' ')?.0))) {
        let Some(shard) = plan.shard() else { continue };
        for event in events {
            let verb = Verb::SendEvent { event: Box::new(event.clone()), waiting_only: true };
            let request = Request { plan: plan.clone(), actor: "sender".into(), answer: None, verb };
            link.send_request(shard, &Inbox::Request(Box::new(request)).fields()).await?;
        }
    }
    Ok(())
}

pub async fn ask(link: &Link, plan: PlanId, verb: Verb) {
    let Some(shard) = plan.shard() else { return };
    let request = Request { plan, actor: "person".into(), answer: None, verb };
    drop(link.send_request(shard, &Inbox::Request(Box::new(request)).fields()).await);
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
