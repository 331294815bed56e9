//! Waits of steps for events from outside: registers them, and finds the events that came before.

use goalmill_common::command::Verb;
use goalmill_common::external_event::{ExternalEvent, topic};
use goalmill_common::view::WaitView;
use goalmill_engine::Command;

use super::{log_failure, with_retry};
use crate::scheduler::Scheduler;

/// Registers a wait, then returns the kept events that may end it; `None` if it could not be registered.
///
/// A sender keeps its event before it reads who waits, so that one of the two sees the other.
pub(crate) async fn await_event(scheduler: &Scheduler, wait: &WaitView) -> Option<Vec<Command>> {
    let (broker, random) = (scheduler.broker.as_ref(), &scheduler.random);
    let (field, topic) = (field(wait), topic(&wait.event, &wait.key));
    let (waits, waits_of) = (broker.keys().waits(), broker.keys().waits_of(&wait.namespace, &topic));
    let text = serde_json::to_string(wait).expect("a wait always has a JSON text");
    let registered = async {
        with_retry(random, || broker.put_field(&waits_of, &field, "")).await?;
        with_retry(random, || broker.put_field(&waits, &field, &text)).await?;
        with_retry(random, || broker.kept_events(&wait.namespace, &topic)).await
    };
    let kept = match registered.await {
        Ok(kept) => kept,
        Err(error) => {
            log_failure("a wait for an event is not registered until its shard is read again", Err(error));
            return None;
        }
    };
    let events = kept.iter().filter_map(|text| serde_json::from_str::<ExternalEvent>(text).ok());
    let send = |event| Command::Verb(Verb::SendEvent { event: Box::new(event), waiting_only: true });
    Some(events.map(send).collect())
}

/// Removes a registered wait.
pub(crate) async fn stop_awaiting(scheduler: &Scheduler, wait: &WaitView) {
    let (broker, random, field) = (scheduler.broker.as_ref(), &scheduler.random, field(wait));
    let waits_of = broker.keys().waits_of(&wait.namespace, &topic(&wait.event, &wait.key));
    for key in [broker.keys().waits(), waits_of] {
        log_failure(
            "a wait could not be removed",
            with_retry(random, || broker.remove_field(&key, &field)).await.map(drop),
        );
    }
}

fn field(wait: &WaitView) -> String {
    format!("{} {}", wait.plan_id, wait.step_id)
}
