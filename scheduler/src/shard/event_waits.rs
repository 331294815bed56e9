//! Waits of steps for events from outside: registers them, and offers them the events that came before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goalmill_broker::{BrokerError, KeptEvent, KeptHead};
use goalmill_common::external_event::{ExternalEvent, topic};
use goalmill_common::id::PlanId;
use goalmill_common::view::WaitView;
use goalmill_engine::Rejection;
use tokio::sync::Semaphore;

use super::ShardHandle;
use crate::effects::{log_failure, with_retry};
use crate::scheduler::Scheduler;

/// Kept events that are looked at together, without their data.
const PAGE: usize = 100;
/// Kept events of one shard whose data are in memory at the same time.
const READS: usize = 8;
/// Wait before a registration is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The plans of a shard that look through the kept events of a name and key.
pub(crate) struct EventSearches {
    /// Whether a search begins again when it ends: a wait has begun since.
    running: Mutex<BTreeMap<(PlanId, String), bool>>,
    reads: Semaphore,
}

impl Default for EventSearches {
    fn default() -> Self {
        Self { running: Mutex::default(), reads: Semaphore::new(READS) }
    }
}

impl EventSearches {
    /// Begins a search; `false` if one runs, which is repeated.
    fn begin(&self, search: &(PlanId, String)) -> bool {
        let mut running = self.lock();
        match running.get_mut(search) {
            Some(again) => {
                *again = true;
                false
            }
            None => running.insert(search.clone(), false).is_none(),
        }
    }

    /// Ends a search; `false` if it is to be repeated.
    fn end(&self, search: &(PlanId, String)) -> bool {
        let mut running = self.lock();
        let again = running.remove(search).unwrap_or(false);
        if again {
            running.insert(search.clone(), false);
        }
        !again
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(PlanId, String), bool>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registers the wait of a step while it waits, or removes it when it has ended; tried until it holds. Then offers the
/// plan the events that were kept for it.
///
/// A sender keeps its event before it reads who waits, so that one of the two sees the other.
pub(crate) async fn register_wait(
    scheduler: &Scheduler,
    handle: &ShardHandle,
    searches: &EventSearches,
    wait: &WaitView,
) {
    let mut is_failing = false;
    loop {
        let Some(before) = handle.ask_wait(wait, Vec::new()).await else { return };
        match write_wait(scheduler, wait, before.step_waits).await {
            // A step may wait again, or no longer, since.
            Ok(()) => match handle.ask_wait(wait, Vec::new()).await {
                Some(after) if after.step_waits != before.step_waits => {}
                Some(after) if after.step_waits => break,
                Some(_) | None => return,
            },
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    log_failure("a wait for an event is not registered yet", Err(error));
                }
                if scheduler.stop.run_until_cancelled(tokio::time::sleep(RETRY)).await.is_none() {
                    return;
                }
            }
        }
    }
    search_kept_events(scheduler, handle, searches, wait).await;
}

/// Writes or removes the registration of a wait.
async fn write_wait(scheduler: &Scheduler, wait: &WaitView, waits: bool) -> Result<(), BrokerError> {
    let (broker, random) = (scheduler.broker.as_ref(), &scheduler.random);
    let field = format!("{} {}", wait.plan_id, wait.step_id);
    let (all, of_topic) =
        (broker.keys().waits(), broker.keys().waits_of(&wait.namespace, &topic(&wait.event, &wait.key)));
    if waits {
        let text = serde_json::to_string(wait).expect("a wait always has a JSON text");
        with_retry(random, || broker.put_field(&of_topic, &field, "")).await?;
        return with_retry(random, || broker.put_field(&all, &field, &text)).await;
    }
    for key in [all, of_topic] {
        with_retry(random, || broker.remove_field(&key, &field)).await?;
    }
    Ok(())
}

/// Offers a plan the kept events of a name and key for which it waits, in their order, until it waits no longer.
///
/// One search serves all waits of the plan for them.
async fn search_kept_events(scheduler: &Scheduler, handle: &ShardHandle, searches: &EventSearches, wait: &WaitView) {
    let topic = topic(&wait.event, &wait.key);
    let search = (wait.plan_id.clone(), topic.clone());
    if !searches.begin(&search) {
        return;
    }
    loop {
        let mut place = String::new();
        loop {
            let page = kept_page(scheduler, handle, wait, &topic, &place).await;
            let Some(last) = page.last() else { break };
            place.clone_from(&last.place);
            if !offer_page(scheduler, handle, searches, wait, page).await {
                break;
            }
        }
        if searches.end(&search) {
            return;
        }
    }
}

/// A page of kept events, tried until the store answers; none when the shard has moved.
async fn kept_page(
    scheduler: &Scheduler,
    handle: &ShardHandle,
    wait: &WaitView,
    topic: &str,
    after: &str,
) -> Vec<KeptHead> {
    let (broker, random) = (scheduler.broker.as_ref(), &scheduler.random);
    let mut is_failing = false;
    loop {
        match with_retry(random, || broker.kept_events(&wait.namespace, topic, after, PAGE)).await {
            Ok(page) => return page,
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                log_failure("kept events cannot be read yet", Err(error));
            }
            Err(_) => {}
        }
        let paused = scheduler.stop.run_until_cancelled(tokio::time::sleep(RETRY)).await;
        if paused.is_none() || handle.ask_wait(wait, Vec::new()).await.is_none() {
            return Vec::new();
        }
    }
}

/// Offers a plan the events of a page that its family does not have, one after the other. Returns whether it still waits.
async fn offer_page(
    scheduler: &Scheduler,
    handle: &ShardHandle,
    searches: &EventSearches,
    wait: &WaitView,
    page: Vec<KeptHead>,
) -> bool {
    let mut page = page;
    loop {
        let ids = page.iter().map(|head| head.id.clone()).collect();
        let Some(state) = handle.ask_wait(wait, ids).await.filter(|state| state.plan_waits) else { return false };
        let unknown: BTreeSet<String> = state.unknown_events.into_iter().collect();
        let Some(first) = page.iter().position(|head| unknown.contains(&head.id)) else { return true };
        // The plan may have taken one of those before.
        let rest = page.split_off(first + 1);
        let Some(head) = page.pop() else { return true };
        if offer_event(scheduler, handle, searches, wait, &head).await.is_none() {
            return false;
        }
        page = rest;
    }
}

/// Offers a plan a kept event; `None` when the shard has moved or the plan has ended.
async fn offer_event(
    scheduler: &Scheduler,
    handle: &ShardHandle,
    searches: &EventSearches,
    wait: &WaitView,
    head: &KeptHead,
) -> Option<()> {
    let (broker, random, settings) = (scheduler.broker.as_ref(), &scheduler.random, &scheduler.settings.events);
    let topic = topic(&wait.event, &wait.key);
    let _read = searches.reads.acquire().await.ok()?;
    let text = match with_retry(random, || broker.kept_event(&wait.namespace, &topic, head)).await {
        Ok(text) => text,
        Err(error) => {
            // The wait is registered, so later events reach it; this one does when its shard is read again.
            log_failure("a kept event cannot be read", Err(error));
            return Some(());
        }
    };
    let Some(event) = text.and_then(|text| serde_json::from_str::<ExternalEvent>(&text).ok()) else { return Some(()) };
    match handle.offer_event(event).await? {
        Ok(()) => {
            let taken = KeptEvent {
                namespace: wait.namespace.clone(),
                topic,
                id: head.id.clone(),
                text: String::new(),
                retention_ms: settings.retention_ms,
                most: settings.kept_max,
            };
            log_failure("an event is not noted as taken", with_retry(random, || broker.take_event(&taken)).await);
            Some(())
        }
        Err(Rejection::Final { .. }) => None,
        Err(
            Rejection::Exists
            | Rejection::UnknownStep { .. }
            | Rejection::StaleAttempt { .. }
            | Rejection::StaleRevision { .. }
            | Rejection::NotAllowed { .. }
            | Rejection::Invalid { .. }
            | Rejection::NotDue,
        ) => Some(()),
    }
}
