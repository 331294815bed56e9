//! Delivers events from outside to the plans of a namespace that wait for them.

use std::collections::BTreeSet;

use goalmill_broker::{BrokerError, Keeping, KeptEvent, KeptHead};
use goalmill_common::command::{Request, Verb};
use goalmill_common::external_event::{ExternalEvent, topic};
use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::json_limits;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::view::EventReceipt;

use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;
use crate::shard_client;

/// Registered waits that are read together.
const PAGE: usize = 500;
/// How long an event may be on its way, in milliseconds: later ones take it along.
const EARLIER_MS: u64 = 60_000;
/// Events that one takes along.
const EARLIER_MAX: usize = 32;

/// Keeps an event, and sends it to every plan that waits for its name and key.
///
/// A namespace that keeps as many events as it may refuses one that no plan waits for.
///
/// May be repeated: an event with the same id is kept once, and a plan takes it once. After an error it should be.
pub(crate) async fn send_event(
    scheduler: &Scheduler,
    shards: &OwnedShards,
    namespace: &Namespace,
    actor: &str,
    event: Box<ExternalEvent>,
) -> Result<EventReceipt, Problem> {
    check_event(scheduler, &event)?;
    scheduler.health.check_admission()?;
    let (broker, settings) = (scheduler.broker.as_ref(), &scheduler.settings.events);
    let kept = KeptEvent {
        namespace: namespace.clone(),
        topic: topic(&event.name, &event.key),
        id: event.id.clone(),
        text: serde_json::to_string(&event).expect("an event always has a JSON text"),
        retention_ms: settings.retention_ms,
        most: settings.kept_max,
    };
    let keeping = broker.keep_event(&kept).await?;
    let mut delivery = EventDelivery::new(scheduler, shards, actor, &event, &kept);
    let waits_of = broker.keys().waits_of(namespace, &kept.topic);
    let mut place = Some(String::new());
    while let Some(after) = place {
        let page = broker.fields_page(&waits_of, &after, PAGE).await?;
        let fields: Vec<String> = page.fields.into_iter().map(|(field, _)| field).collect();
        delivery.send_to(&waits_of, &fields).await?;
        place = page.next;
    }
    delivery.end(keeping).await
}

/// An event on its way to the plans that wait for it.
struct EventDelivery<'a> {
    scheduler: &'a Scheduler,
    shards: &'a OwnedShards,
    actor: &'a str,
    event: &'a ExternalEvent,
    kept: &'a KeptEvent,
    /// Those that came shortly before, once they are known.
    earlier: Option<Vec<KeptHead>>,
    /// Plans that it was sent to.
    sent: BTreeSet<PlanId>,
    /// Those that took it.
    taken: Vec<PlanId>,
    /// Why a plan that waits refused it.
    mismatch: Option<Problem>,
    /// Why a plan that waits has not answered.
    failure: Option<Problem>,
}

impl<'a> EventDelivery<'a> {
    fn new(
        scheduler: &'a Scheduler,
        shards: &'a OwnedShards,
        actor: &'a str,
        event: &'a ExternalEvent,
        kept: &'a KeptEvent,
    ) -> Self {
        let (sent, taken) = (BTreeSet::new(), Vec::new());
        Self { scheduler, shards, actor, event, kept, earlier: None, sent, taken, mismatch: None, failure: None }
    }

    /// Sends the event to the plans of registered waits. One that does not answer does not stop the others.
    ///
    /// - `fields`: of `waits_of`: `<plan> <step>`.
    async fn send_to(&mut self, waits_of: &str, fields: &[String]) -> Result<(), BrokerError> {
        let plan_of = |field: &String| Some(PlanId::from(field.split_once(' ')?.0));
        for plan in fields.iter().filter_map(plan_of).collect::<BTreeSet<PlanId>>() {
            if !self.sent.insert(plan.clone()) {
                continue;
            }
            self.send_earlier(&plan).await?;
            match self.offer(&plan, self.event.clone()).await {
                Ok(()) => self.taken.push(plan),
                // It has ended.
                Err(problem) if matches!(problem.code, ErrorCode::PlanNotFound | ErrorCode::PlanFinal) => {
                    forget_waits(self.scheduler, waits_of, fields.iter(), &plan).await?;
                }
                Err(problem) if problem.code.is_retryable() => self.failure = Some(problem),
                // Its data do not fit.
                Err(problem) if !problem.errors.is_empty() => self.mismatch = Some(problem),
                // Its step has continued.
                Err(problem) => {
                    let id = &self.event.id;
                    tracing::debug!(plan_id = %plan, "plan {plan} did not take event {id}: {}", problem.detail);
                }
            }
        }
        Ok(())
    }

    /// Offers a plan the events that came shortly before and that their senders have not sent yet: this one must not
    /// overtake them.
    async fn send_earlier(&mut self, plan: &PlanId) -> Result<(), BrokerError> {
        let broker = self.scheduler.broker.as_ref();
        if self.earlier.is_none() {
            self.earlier = Some(broker.earlier_events(self.kept, EARLIER_MS, EARLIER_MAX).await?);
        }
        for head in self.earlier.iter().flatten() {
            let text = broker.kept_event(&self.kept.namespace, &self.kept.topic, head).await?;
            let Some(event) = text.and_then(|text| serde_json::from_str(&text).ok()) else { continue };
            if self.offer(plan, event).await.is_ok() {
                broker.take_event(&KeptEvent { id: head.id.clone(), text: String::new(), ..self.kept.clone() }).await?;
            }
        }
        Ok(())
    }

    async fn offer(&self, plan: &PlanId, event: ExternalEvent) -> Result<(), Problem> {
        let verb = Verb::SendEvent { event: Box::new(event), waiting_only: true };
        let request = Request { plan: plan.clone(), actor: self.actor.to_owned(), answer: None, verb };
        shard_client::send_request(self.scheduler, self.shards, request).await.map(drop)
    }

    /// The answer to the sender.
    async fn end(self, keeping: Keeping) -> Result<EventReceipt, Problem> {
        let (broker, kept) = (self.scheduler.broker.as_ref(), self.kept);
        if !self.taken.is_empty() && keeping != Keeping::Full {
            broker.take_event(kept).await?;
        }
        if let Some(problem) = self.failure {
            return Err(problem);
        }
        if self.taken.is_empty() {
            // The next wait would get what was refused.
            if let (Some(problem), Keeping::New) = (self.mismatch, keeping) {
                broker.forget_event(kept).await?;
                return Err(problem);
            }
            if keeping == Keeping::Full {
                let (namespace, most) = (&kept.namespace, kept.most);
                let detail = format!(
                    "the namespace `{namespace}` keeps {most} events that no plan has taken (`events.kept_max`)"
                );
                return Err(Problem::new(ErrorCode::NamespaceLimitReached, detail));
            }
        }
        Ok(EventReceipt { id: self.event.id.clone(), plans: self.taken })
    }
}

/// Removes the registered waits of a plan that has ended.
async fn forget_waits(
    scheduler: &Scheduler,
    waits_of: &str,
    fields: impl Iterator<Item = &String>,
    plan: &PlanId,
) -> Result<(), BrokerError> {
    let broker = scheduler.broker.as_ref();
    let start = format!("{plan} ");
    for field in fields.filter(|field| field.starts_with(&start)) {
        broker.remove_field(waits_of, field).await?;
        broker.remove_field(&broker.keys().waits(), field).await?;
    }
    Ok(())
}

fn check_event(scheduler: &Scheduler, event: &ExternalEvent) -> Result<(), Problem> {
    let limits = &scheduler.settings.limits;
    let mut issues = event.issues();
    let mut note = |detail: String, hint: &str| {
        let (code, pointer) = ("INVALID_EVENT".to_owned(), "/data".to_owned());
        issues.push(Issue { code, pointer, detail, hint: hint.into() });
    };
    let bytes = event.data.text().len();
    if bytes > limits.inline_bytes_max {
        let most = limits.inline_bytes_max;
        let detail = format!("the data have {bytes} bytes, more than `limits.inline_bytes_max` ({most})");
        note(detail, "send a reference to large data");
    }
    if let Err(wrong) = json_limits::check_json(&event.data, limits.nesting_max) {
        note(wrong.to_string(), "send data with less nesting and ordinary numbers");
    }
    if issues.is_empty() {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::InvalidRequest, "the event is not valid").with_errors(issues))
}
