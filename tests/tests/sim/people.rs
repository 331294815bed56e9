//! Those outside: they submit plans until somebody says what became of them, and some change their minds.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_common::command::{Change, Request, Verb};
use goalmill_common::id::{Namespace, PlanId, StepId};
use goalmill_common::plan::Step;
use goalmill_common::wire::{Answer, Inbox, Submission, SubmissionKind};
use serde_json::json;

use crate::dice::Dice;
use crate::ground::Ground;
use crate::link::Link;
use crate::plans;
use crate::process::Process;

/// Milliseconds between two looks at what became of a plan.
const LOOK_MS: u64 = 1_000;
/// Looks without an answer after which a submission is sent again.
const LOOKS_MAX: u32 = 6;

/// What became of one person's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fulfilled {
    Ended,
    Refused(String),
    /// It was accepted, and the server has forgotten that since.
    Forgotten,
}

/// Submits one plan and follows it to its end.
pub async fn submit(ground: Arc<Ground>, dice: Dice, shards: u16, number: u64, begin_ms: u64) -> Fulfilled {
    let process = Arc::new(Process::new(format!("client-{number}")));
    let link = Link::new(&ground, &process);
    let id = format!("wish-{number}");
    let (kind, data) = if dice.permille(150) {
        (SubmissionKind::Goal, r#"{"description": "Make something of it"}"#.to_owned())
    } else {
        let plan = plans::random(&dice, 1);
        (SubmissionKind::Plan, serde_json::to_string(&plan).expect("a plan always has a JSON text"))
    };
    let submission = Submission { id: id.clone(), source: "sim".into(), kind, data, traceparent: None };
    let fields = submission.fields();
    let twice = dice.permille(150);
    let plan_id = PlanId::derive(shards, &Namespace::default(), &id);
    pause(begin_ms).await;
    loop {
        while link.submit(&fields).await.is_err() {
            pause(200).await;
        }
        if twice {
            drop(link.submit(&fields).await);
        }
        for _ in 0..LOOKS_MAX {
            pause(LOOK_MS).await;
            if let Some(fulfilled) = look(&ground, &id, &plan_id).await {
                return fulfilled;
            }
        }
    }
}

/// Waits for the answer, and once there is one for the end.
async fn look(ground: &Ground, id: &str, plan: &PlanId) -> Option<Fulfilled> {
    let answers = ground.broker.answers(&[id.to_owned()]).await.expect("looking never fails");
    let text = answers.into_iter().next().flatten()?;
    match serde_json::from_str(&text).expect("answers can be read") {
        Answer::Refused(problem) => return Some(Fulfilled::Refused(format!("{problem:?}"))),
        Answer::Accepted { plan_id, .. } => assert_eq!(plan_id, *plan, "[I9] the answer names another plan"),
    }
    loop {
        let epoch = ground.epoch();
        match ground.watch().plans().get(plan).map(goalmill_engine::PlanState::is_final) {
            Some(true) => return Some(Fulfilled::Ended),
            Some(false) => {}
            None => return Some(Fulfilled::Forgotten),
        }
        pause(LOOK_MS).await;
        if ground.epoch() != epoch {
            return None;
        }
    }
}

/// Cancels, pauses and resumes plans that run, until it is calm; what was paused is resumed.
pub async fn meddle(ground: Arc<Ground>, dice: Dice, until_ms: u64) {
    let process = Arc::new(Process::new("person"));
    let link = Link::new(&ground, &process);
    let mut paused: Vec<PlanId> = Vec::new();
    while ground.at_ms() < until_ms {
        pause(dice.between(500, 4_000)).await;
        let running: Vec<PlanId> = {
            let watch = ground.watch();
            let running = watch.plans().values().filter(|state| !state.is_final() && state.parent().is_none());
            running.filter_map(|state| state.id().cloned()).collect()
        };
        if running.is_empty() {
            continue;
        }
        let plan = dice.pick(&running).clone();
        let reason = String::from("a whim");
        let steps: Vec<StepId> = {
            let watch = ground.watch();
            let state = watch.plans().get(&plan);
            state.map(|state| state.plan().steps.iter().map(|step| step.id.clone()).collect()).unwrap_or_default()
        };
        let verb = match dice.between(0, 9) {
            0 => Verb::Cancel { reason },
            1 | 2 => {
                paused.push(plan.clone());
                Verb::Pause { reason }
            }
            3 => Verb::Replan { reason, hint: String::new() },
            4..=6 if !steps.is_empty() => Verb::Edit { changes: vec![change(&dice, &steps)], revision: None, reason },
            7 if !steps.is_empty() => {
                let question = dice.pick(&steps).to_string();
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

/// Something to change by hand, whether it fits or not.
fn change(dice: &Dice, steps: &[StepId]) -> Change {
    let step = dice.pick(steps).clone();
    let new = || Step { dependencies: vec![step.clone()], ..Step::new(format!("new-{}", dice.between(0, 9)), "quick") };
    match dice.between(0, 6) {
        0 => Change::RetryStep { step, agent_type: Some("quick".into()), action: None, inputs: None },
        1 => Change::SkipStep { step, reason: String::new() },
        2 => Change::RemoveStep { step },
        3 => Change::AddStep { step: Box::new(new()), before: Vec::new() },
        4 => Change::ReplaceStep { step: step.clone(), with: vec![Step { dependencies: Vec::new(), ..new() }] },
        _ => Change::Order { steps: vec![step, dice.pick(steps).clone()] },
    }
}

async fn ask(link: &Link, plan: PlanId, verb: Verb) {
    let Some(shard) = plan.shard() else { return };
    let request = Request { plan, actor: "person".into(), answer: None, verb };
    drop(link.send(shard, &Inbox::Request(Box::new(request)).fields()).await);
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
