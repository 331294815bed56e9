//! Delivers events from outside to the plans of a namespace that wait for them.

use std::collections::BTreeSet;

use goalmill_broker::KeptEvent;
use goalmill_common::command::{Request, Verb};
use goalmill_common::external_event::{ExternalEvent, topic};
use goalmill_common::id::{Namespace, PlanId};
use goalmill_common::json_limits;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::view::EventReceipt;

use crate::scheduler::Scheduler;
use crate::shard::OwnedShards;
use crate::shard_client;

/// Keeps an event, and sends it to every plan that waits for its name and key.
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
    if !broker.keep_event(&kept).await? {
        let detail = format!("the namespace `{namespace}` keeps {} events (`events.kept_max`)", settings.kept_max);
        return Err(Problem::new(ErrorCode::NamespaceLimitReached, detail));
    }
    let waits_of = broker.keys().waits_of(namespace, &kept.topic);
    let waits = broker.fields(&waits_of).await?;
    let plan_of = |field: &String| Some(PlanId::from(field.split_once(' ')?.0));
    let waiting: BTreeSet<PlanId> = waits.keys().filter_map(plan_of).collect();
    let mut receipt = EventReceipt { id: event.id.clone(), plans: Vec::new() };
    for plan in waiting {
        let verb = Verb::SendEvent { event: event.clone(), waiting_only: true };
        let request = Request { plan: plan.clone(), actor: actor.to_owned(), answer: None, verb };
        match shard_client::send_request(scheduler, shards, request).await {
            Ok(_) => receipt.plans.push(plan),
            // It has ended.
            Err(problem) if matches!(problem.code, ErrorCode::PlanNotFound | ErrorCode::PlanFinal) => {
                forget_waits(scheduler, &waits_of, waits.keys(), &plan).await?;
            }
            // Its step has gone on, or the data do not fit.
            Err(problem) if !problem.code.is_retryable() => {
                tracing::debug!(plan_id = %plan, "plan {plan} did not take event {}: {}", event.id, problem.detail);
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(receipt)
}

/// Removes the registered waits of a plan that has ended.
async fn forget_waits(
    scheduler: &Scheduler,
    waits_of: &str,
    fields: impl Iterator<Item = &String>,
    plan: &PlanId,
) -> Result<(), Problem> {
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
