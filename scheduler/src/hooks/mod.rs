//! Hooks are notified of plan changes and may veto some of them.
//!
//! Notifications are best effort. They are sent after the commit, outside of the shard's loop, from a bounded queue per
//! hook; those that do not fit or cannot be delivered are counted and dropped. A veto request delays only its plan and has
//! a time limit with a default.

mod signature;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::command::{Planned, Situation};
use goalmill_common::config::{HookDefault, HookSettings};
use goalmill_common::event::{Event, PlanEvent, Record, StepEvent};
use goalmill_common::json::Json;
use goalmill_common::random::Random;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use goalmill_common::config::HookPoint as Point;

/// Waiting calls of one hook.
const QUEUE_MAX: usize = 1_000;
/// Attempts of a failing call.
const TRIES: u32 = 3;
/// Wait before the second attempt; four times as long before the third.
const WAIT: Duration = Duration::from_millis(250);

/// A call of a hook.
#[derive(Clone, Debug, PartialEq)]
pub struct HookCall {
    pub point: Point,
    /// The same for all attempts of one call.
    pub id: String,
    /// JSON with `hook`, `plan_id` and the data of the point.
    pub body: Value,
}

/// The answer of a hook that may veto.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    Allowed,
    /// The reason, for people.
    Vetoed(String),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// Possibly temporary.
    #[error("{0}")]
    Failed(String),
    /// The receiver wants no more calls.
    #[error("the receiver wants no more calls")]
    Gone,
}

/// The terms of a veto request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Veto {
    pub limit: Duration,
    /// The answer of a hook that does not answer in time.
    pub default: HookDefault,
}

/// A hook. Implement it to hook into a scheduler in the same process.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// The name in logs and veto reasons.
    fn name(&self) -> &str;

    fn wants(&self, point: Point) -> bool;

    /// Whether it may veto, at points where that is possible.
    fn veto(&self) -> Option<Veto> {
        None
    }

    /// Called outside of all loops. The ruling counts only where the hook may veto.
    async fn call(&self, call: &HookCall) -> Result<Ruling, HookError>;
}

/// Every hook, each with its queue.
pub(crate) struct Hooks {
    all: Vec<(Arc<dyn Hook>, mpsc::Sender<HookCall>)>,
    random: Random,
}

impl Hooks {
    /// Starts the hooks of the settings and those of the embedding program; they deliver calls until `stop`.
    pub(crate) fn start(
        settings: &[HookSettings],
        own: Vec<Arc<dyn Hook>>,
        random: Random,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, String> {
        let mut all: Vec<Arc<dyn Hook>> = own;
        for settings in settings {
            all.push(Arc::new(webhook::Webhook::new(settings)?));
        }
        let all = all.into_iter().map(|hook| {
            let (queue, calls) = mpsc::channel(QUEUE_MAX);
            tasks.spawn(deliver(hook.clone(), calls, stop.clone()));
            (hook, queue)
        });
        Ok(Self { all: all.collect(), random })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a hook may veto at this point.
    pub(crate) fn may_veto(&self, point: Point) -> bool {
        self.all.iter().any(|(hook, _)| veto_at(hook.as_ref(), point).is_some())
    }

    /// Requests a ruling on a new plan.
    pub(crate) async fn plan_generated(&self, plan: &str, planned: &Planned) -> Ruling {
        let body = || {
            json!({"planner": planned.planner, "confidence": planned.confidence, "plan": planned.plan,
                   "warnings": planned.warnings})
        };
        self.request_ruling(Point::OnPlanGenerated, plan, body).await
    }

    /// Requests a ruling on a revision request.
    pub(crate) async fn revision_needed(&self, situation: &Situation) -> Ruling {
        let body = || {
            json!({"revision": situation.revision, "trigger": situation.trigger, "step": situation.step,
                   "reason": situation.reason, "hint": situation.hint, "confidence": situation.confidence,
                   "revisions_left": situation.revisions_left})
        };
        self.request_ruling(Point::OnRevisionNeeded, situation.plan_id.as_str(), body).await
    }

    /// The first veto counts.
    async fn request_ruling(&self, point: Point, plan: &str, data: impl Fn() -> Value) -> Ruling {
        for (hook, _) in &self.all {
            let Some(veto) = veto_at(hook.as_ref(), point) else { continue };
            let body = json!({"hook": point.as_str(), "plan_id": plan, "data": data()});
            let call = HookCall { point, id: self.id(), body };
            let answer = tokio::time::timeout(veto.limit, hook.call(&call)).await;
            let ruling = match answer {
                Ok(Ok(ruling)) => {
                    count("ok");
                    ruling
                }
                Ok(Err(error)) => default_ruling(hook.as_ref(), veto, &error.to_string()),
                Err(_) => {
                    default_ruling(hook.as_ref(), veto, &format!("no answer within {} ms", veto.limit.as_millis()))
                }
            };
            if let Ruling::Vetoed(reason) = ruling {
                let reason = reason.chars().take(500).collect::<String>();
                return Ruling::Vetoed(format!("hook `{}` refused: {reason}", hook.name()));
            }
        }
        Ruling::Allowed
    }

    /// Queues notifications of committed events; never waits.
    pub(crate) fn notify(&self, plan: &str, records: &[Record]) {
        if self.all.is_empty() {
            return;
        }
        for record in records {
            let Some(point) = point_of(&record.event) else { continue };
            let mut body = None;
            for (hook, queue) in &self.all {
                if !hook.wants(point) || veto_at(hook.as_ref(), point).is_some() {
                    continue;
                }
                let body = body.get_or_insert_with(|| body_of(point, plan, record)).clone();
                if queue.try_send(HookCall { point, id: self.id(), body }).is_err() {
                    count("dropped");
                }
            }
        }
    }

    fn id(&self) -> String {
        format!("msg_{}", self.random.token())
    }
}

/// The veto terms of a hook at a point.
fn veto_at(hook: &dyn Hook, point: Point) -> Option<Veto> {
    hook.veto().filter(|_| point.can_wait() && hook.wants(point))
}

fn default_ruling(hook: &dyn Hook, veto: Veto, why: &str) -> Ruling {
    count("failed");
    tracing::warn!(hook = hook.name(), "hook `{}` gave no answer, its default counts: {why}", hook.name());
    match veto.default {
        HookDefault::Allow => Ruling::Allowed,
        HookDefault::Refuse => Ruling::Vetoed(why.to_owned()),
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("goalmill_webhook_deliveries_total", "outcome" => outcome).increment(1);
}

fn point_of(event: &Event) -> Option<Point> {
    match event {
        Event::Plan(PlanEvent::PlanCreated(_)) => Some(Point::OnPlanGenerated),
        Event::Plan(PlanEvent::Approved(_)) => Some(Point::OnPlanApproved),
        Event::Plan(PlanEvent::ReplanTriggered(_)) => Some(Point::OnRevisionNeeded),
        Event::Step { event: StepEvent::Started(_), .. } => Some(Point::OnStepStart),
        Event::Step { event: StepEvent::Completed(_) | StepEvent::Failed(_) | StepEvent::Skipped(_), .. } => {
            Some(Point::OnStepComplete)
        }
        Event::Plan(_) | Event::Step { .. } => None,
    }
}

/// The event as in the log, with the names of hook and plan.
fn body_of(point: Point, plan: &str, record: &Record) -> Value {
    let event = Json::from_text(record.to_line()).map(|json| json.value()).expect("an event is JSON");
    json!({"hook": point.as_str(), "plan_id": plan, "event": event})
}

/// Delivers the calls of a hook, one after the other.
async fn deliver(hook: Arc<dyn Hook>, mut calls: mpsc::Receiver<HookCall>, stop: CancellationToken) {
    let limit = hook.veto().map_or(Duration::from_mins(1), |veto| veto.limit);
    loop {
        let call = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            call = calls.recv() => call,
        };
        let Some(call) = call else { return };
        for tried in 1..=TRIES {
            let outcome = match tokio::time::timeout(limit, hook.call(&call)).await {
                Ok(outcome) => outcome.map(drop),
                Err(_) => Err(HookError::Failed("it took too long".into())),
            };
            match outcome {
                Ok(()) => {
                    count("ok");
                    break;
                }
                Err(HookError::Gone) => {
                    count("disabled");
                    tracing::warn!(hook = hook.name(), "hook `{}` wants no more calls", hook.name());
                    return;
                }
                Err(HookError::Failed(_)) if tried < TRIES => {
                    count("retry");
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(WAIT * 4_u32.pow(tried - 1)) => {}
                    }
                }
                Err(HookError::Failed(why)) => {
                    count("failed");
                    tracing::warn!(hook = hook.name(), "hook `{}` could not be called: {why}", hook.name());
                }
            }
        }
    }
}
