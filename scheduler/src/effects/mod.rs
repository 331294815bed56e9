//! Effects that run after a commit, outside of the shard's loop. All of them may run twice.

use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use goalmill_broker::BrokerError;
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_engine::sub_plan;
use goalmill_shard::{StoreUpdate, stream_answers};

use crate::event_log::{ReadError, read_plan_state};
use crate::scheduler::Scheduler;

mod hooks;
mod payloads;
mod planning;
mod result_cache;

pub(crate) use hooks::ask_hooks;
pub(crate) use payloads::load_payloads;
use payloads::show_payloads;
pub(crate) use planning::{ask_planners, judge, propose, revise};
pub(crate) use result_cache::{cache_get, cache_put};

/// Writes the updates of one turn. A failed update does not stop the others, except that submissions are acknowledged
/// only after answers are written: a submission without an answer stays pending and is answered when it is claimed.
pub(crate) async fn write_updates(scheduler: Arc<Scheduler>, updates: Vec<StoreUpdate>) {
    let (mut answers, mut entries, mut tokens, mut letters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut refused, mut renewed, mut discarded) = (Vec::new(), Vec::new(), Vec::new());
    for update in updates {
        match update {
            StoreUpdate::Answer { id, json } => answers.push((id, json)),
            StoreUpdate::AcknowledgeSubmission(entry) => entries.push(entry),
            StoreUpdate::Refuse(entry) => refused.push(*entry),
            StoreUpdate::RenewResult { plan, submission } => renewed.push((plan, submission)),
            StoreUpdate::CancelAttempt(token) => tokens.push(token),
            StoreUpdate::DeadLetter(letter) => letters.push(*letter),
            StoreUpdate::DiscardTasks { agent_type, entries } => discarded.push((agent_type, entries)),
        }
    }
    let (broker, random) = (scheduler.broker.as_ref(), &scheduler.random);
    if !tokens.is_empty() {
        log_failure("attempts could not be cancelled", with_retry(random, || broker.cancel(&tokens)).await);
    }
    let settled = async {
        if !answers.is_empty() {
            with_retry(random, || broker.answer(&answers)).await?;
        }
        if !refused.is_empty() {
            with_retry(random, || broker.refuse(&refused)).await?;
            for refused in &refused {
                let code = refused.code.as_str();
                metrics::counter!("goalmill_submissions_refused_total", "code" => code).increment(1);
                tracing::warn!(submission = %refused.answered_as, "submission {} was refused: {code}", refused.answered_as);
            }
        }
        if !entries.is_empty() {
            with_retry(random, || broker.acknowledge_submissions(&entries)).await?;
        }
        Ok(())
    };
    log_failure("answers are not written yet", settled.await);
    for (plan, submission) in &renewed {
        log_failure("a result could not be stored again", renew_result(&scheduler, plan, submission).await);
    }
    for letter in &letters {
        scheduler.dead_letters.count(&letter.agent_type, scheduler.settings.metrics.agent_types_max);
        log_failure("a dead letter could not be kept", with_retry(random, || broker.add_dead_letter(letter)).await);
    }
    for (agent_type, entries) in &discarded {
        // The next scan finds the remaining ones.
        log_failure("tasks could not be removed", broker.discard_tasks(agent_type, entries).await.map(drop));
    }
}

/// Stores the result of an ended plan again: its client waits for it, and the first one has expired.
async fn renew_result(scheduler: &Scheduler, plan: &PlanId, submission: &str) -> Result<(), BrokerError> {
    let broker = scheduler.broker.as_ref();
    if broker.has_result(submission).await? {
        return Ok(());
    }
    let state = match read_plan_state(scheduler.plans.as_ref(), plan).await {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(()),
        Err(ReadError::Broker(error)) => return Err(error),
        Err(error) => return Err(BrokerError::Corrupt(error.to_string())),
    };
    let blob = || broker.keys().plan_blob(sub_plan::family(&state), &scheduler.random.token());
    let (result, large) = stream_answers::result(&state, blob);
    for (key, value) in large {
        broker.put_blob(&key, value.text().as_bytes(), scheduler.settings.limits.plan_ms_max).await?;
    }
    broker.put_result(&result).await
}

pub(crate) fn log_failure(what: &str, done: Result<(), BrokerError>) {
    if let Err(error) = done {
        metrics::counter!("goalmill_errands_failed_total").increment(1);
        tracing::warn!("{what}: {error}");
    }
}

pub(crate) async fn with_retry<'a, T>(
    random: &Random,
    verb: impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Result<T, BrokerError>> + Send + 'a>>,
) -> Result<T, BrokerError> {
    let waits = ExponentialBuilder::default().with_min_delay(Duration::from_millis(20)).with_max_times(6);
    let waits = waits.with_jitter().with_jitter_seed(random.draw());
    verb.retry(waits).when(BrokerError::is_temporary).await
}
