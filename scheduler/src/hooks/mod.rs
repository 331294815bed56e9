//! Hooks are notified of plan changes and may decide about them.
//!
//! Notifications are best effort. They are sent after the commit, outside of the shard's loop, from a bounded queue per
//! hook; those that do not fit or cannot be delivered are counted and dropped. A request for a decision delays only its
//! plan, or its step, and has a time limit with a default.

mod signature;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::config::{HookDefault, HookPoints, HookSettings};
use goalmill_common::event::{Event, PlanEvent, Record, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::random::Random;
use goalmill_common::revision::RevisionStrategy;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::loops::Loops;

pub use goalmill_common::config::HookPoint as Point;

/// Waiting calls of one hook.
const QUEUE_MAX: usize = 1_000;
/// Concurrent requests for decisions.
const DECISIONS_MAX: usize = 64;
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

/// The answer of a hook that decides.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// It continues as if there were no hook. At `on_plan_approved`: a person decides.
    Allowed,
    /// Refused, with the reason for people.
    Vetoed(String),
    /// `on_plan_generated`: the plan to run instead, as a document in any form that can be submitted.
    PlanChanged { plan: Box<Value>, reason: String },
    /// `on_plan_approved`: approved, with the reason.
    Approved(String),
    /// `on_step_start`: the hook is asked again after this time.
    Held { wait: Duration, reason: String },
    /// `on_step_start`: the inputs of the step, an object.
    InputsChanged { inputs: Json, reason: String },
    /// `on_step_complete`: the outputs are a failure.
    OutputsFailed(Failure),
    /// `on_revision_needed`: how the plan is to be revised, and what the planners get.
    StrategyChosen { strategy: RevisionStrategy, hint: String, reason: String },
}

impl Ruling {
    /// Whether it is an answer at this point.
    pub fn fits(&self, point: Point) -> bool {
        match self {
            Self::Allowed | Self::Vetoed(_) => true,
            Self::PlanChanged { .. } => point == Point::OnPlanGenerated,
            Self::Approved(_) => point == Point::OnPlanApproved,
            Self::Held { .. } | Self::InputsChanged { .. } => point == Point::OnStepStart,
            Self::OutputsFailed(_) => point == Point::OnStepComplete,
            Self::StrategyChosen { .. } => point == Point::OnRevisionNeeded,
        }
    }
}

/// The decision of the hooks of a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HookVerdict {
    /// The hook that decided; empty when all allowed it.
    pub(crate) hook: String,
    pub(crate) ruling: Ruling,
    /// The hook gave no usable answer: its default counts.
    pub(crate) by_default: bool,
    /// Why it counts.
    pub(crate) why: String,
}

impl HookVerdict {
    fn allowed() -> Self {
        Self { hook: String::new(), ruling: Ruling::Allowed, by_default: false, why: String::new() }
    }
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

/// The terms of a request for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionTerms {
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

    /// Whether the points that it wants wait for its decision.
    fn decides(&self) -> Option<DecisionTerms> {
        None
    }

    /// Called outside of all loops. The ruling counts only if the hook decides.
    async fn call(&self, call: &HookCall) -> Result<Ruling, HookError>;
}

/// Every hook, each with its queue.
pub(crate) struct Hooks {
    all: Vec<(Arc<dyn Hook>, mpsc::Sender<HookCall>)>,
    random: Random,
    /// For concurrent requests for decisions.
    permits: Semaphore,
}

impl Hooks {
    /// Checks the hooks of the settings.
    pub(crate) fn check(settings: &[HookSettings]) -> Result<(), String> {
        settings.iter().try_for_each(|settings| webhook::Webhook::new(settings).map(drop))
    }

    /// Starts the hooks of the settings and those of the embedding program; they deliver calls until the scheduler stops.
    pub(crate) fn start(
        settings: &[HookSettings],
        own: Vec<Arc<dyn Hook>>,
        random: Random,
        loops: &Loops,
    ) -> Result<Self, String> {
        let mut all: Vec<Arc<dyn Hook>> = own;
        for settings in settings {
            all.push(Arc::new(webhook::Webhook::new(settings)?));
        }
        let all = all.into_iter().map(|hook| {
            let (queue, calls) = mpsc::channel(QUEUE_MAX);
            loops.spawn("hook", deliver(hook.clone(), calls, loops.stop.clone()));
            (hook, queue)
        });
        Ok(Self { all: all.collect(), random, permits: Semaphore::new(DECISIONS_MAX) })
    }

    /// The points at which a hook decides.
    pub(crate) fn decided_points(&self) -> HookPoints {
        Point::ALL.into_iter().filter(|point| self.decides_at(*point)).collect()
    }

    /// Whether a hook decides at this point.
    pub(crate) fn decides_at(&self, point: Point) -> bool {
        self.all.iter().any(|(hook, _)| terms_at(hook.as_ref(), point).is_some())
    }

    /// Whether a hook without a usable answer counts as refusing.
    pub(crate) fn refuses_by_default(&self, name: &str) -> bool {
        let terms = self.all.iter().filter(|(hook, _)| hook.name() == name).find_map(|(hook, _)| hook.decides());
        terms.is_some_and(|terms| terms.default == HookDefault::Refuse)
    }

    /// Asks the hooks of a point, one after the other: the first that does not simply allow it decides.
    ///
    /// - `id`: the same whenever the question is asked again.
    /// - `step`, `data`: what the hooks get.
    pub(crate) async fn decide(
        &self,
        point: Point,
        id: &str,
        plan: &str,
        step: Option<&str>,
        data: &Value,
    ) -> HookVerdict {
        let Ok(_permit) = self.permits.acquire().await else { return HookVerdict::allowed() };
        for (hook, _) in &self.all {
            let Some(terms) = terms_at(hook.as_ref(), point) else { continue };
            let mut body = json!({"hook": point.as_str(), "id": id, "plan_id": plan, "data": data});
            if let Some(step) = step {
                body["step_id"] = json!(step);
            }
            let call = HookCall { point, id: id.to_owned(), body };
            let verdict = ask(hook.as_ref(), terms, &call).await;
            if verdict.ruling != Ruling::Allowed {
                return verdict;
            }
        }
        HookVerdict::allowed()
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
                if !hook.wants(point) || terms_at(hook.as_ref(), point).is_some() {
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

/// The terms of a hook that decides at a point.
fn terms_at(hook: &dyn Hook, point: Point) -> Option<DecisionTerms> {
    hook.decides().filter(|_| hook.wants(point))
}

/// Asks one hook, within its limit.
async fn ask(hook: &dyn Hook, terms: DecisionTerms, call: &HookCall) -> HookVerdict {
    let why = match tokio::time::timeout(terms.limit, hook.call(call)).await {
        Ok(Ok(ruling)) if ruling.fits(call.point) => {
            count("ok");
            return HookVerdict { hook: hook.name().to_owned(), ruling, by_default: false, why: String::new() };
        }
        Ok(Ok(_)) => "its answer does not fit the point".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} ms", terms.limit.as_millis()),
    };
    default_verdict(hook, terms, why)
}

fn default_verdict(hook: &dyn Hook, terms: DecisionTerms, why: String) -> HookVerdict {
    count("failed");
    tracing::warn!(hook = hook.name(), "hook `{}` gave no answer, its default counts: {why}", hook.name());
    let ruling = match terms.default {
        HookDefault::Allow => Ruling::Allowed,
        HookDefault::Refuse => Ruling::Vetoed(why.clone()),
    };
    HookVerdict { hook: hook.name().to_owned(), ruling, by_default: true, why }
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
    let limit = hook.decides().map_or(Duration::from_mins(1), |terms| terms.limit);
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
                    // Without a receiver the queue counts further calls as dropped.
                    drop(calls);
                    return stop.cancelled().await;
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
