//! What is done after a commit, outside the shard's loop. Everything here may run twice.

use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use goalmill_broker::{BrokerError, DeadLetter};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId};
use goalmill_common::problem::Problem;
use goalmill_common::random::Random;
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::Answer;

use crate::site::Site;

mod kept;
mod plan;

pub(crate) use kept::{keep, look_up};
pub(crate) use plan::{plan, propose, revise};

/// One thing to tell the rest of the world.
#[derive(Debug)]
pub(crate) enum Errand {
    Answer {
        id: String,
        json: String,
    },
    AcknowledgeSubmission(EntryId),
    Cancel(AttemptToken),
    Bury(Box<DeadLetter>),
    /// Take tasks from a stream whose attempts are over.
    DiscardTasks {
        agent_type: AgentType,
        entries: Vec<EntryId>,
    },
}

impl Errand {
    /// Puts what became of a submission or a request under its id.
    pub(crate) fn answer(id: String, verdict: Result<(PlanId, PlanStatus), Problem>) -> Self {
        Self::Answer { id, json: answer_json(verdict) }
    }
}

/// The text under `goalmill:answers:<id>`.
pub(crate) fn answer_json(verdict: Result<(PlanId, PlanStatus), Problem>) -> String {
    let answer = match verdict {
        Ok((plan_id, status)) => Answer::Accepted { plan_id, status },
        Err(problem) => Answer::Refused(problem),
    };
    serde_json::to_string(&answer).expect("an answer always has a JSON text")
}

/// Runs the errands of one turn. One that fails does not keep the others from being done, except that answers come
/// before acknowledgements: a submission that is not answered stays pending, and is answered when it is taken again.
pub(crate) async fn run(site: Arc<Site>, errands: Vec<Errand>) {
    let (mut answers, mut entries, mut tokens, mut letters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut discarded = Vec::new();
    for errand in errands {
        match errand {
            Errand::Answer { id, json } => answers.push((id, json)),
            Errand::AcknowledgeSubmission(entry) => entries.push(entry),
            Errand::Cancel(token) => tokens.push(token),
            Errand::Bury(letter) => letters.push(*letter),
            Errand::DiscardTasks { agent_type, entries } => discarded.push((agent_type, entries)),
        }
    }
    let (broker, random) = (site.broker.as_ref(), &site.random);
    if !tokens.is_empty() {
        note("attempts could not be cancelled at once", patiently(random, || broker.cancel(&tokens)).await);
    }
    let settled = async {
        if !answers.is_empty() {
            patiently(random, || broker.answer(&answers)).await?;
        }
        if !entries.is_empty() {
            patiently(random, || broker.acknowledge_submissions(&entries)).await?;
        }
        Ok(())
    };
    note("answers are not written yet", settled.await);
    for letter in &letters {
        note("a dead letter could not be kept", patiently(random, || broker.bury(letter)).await);
    }
    for (agent_type, entries) in &discarded {
        // The next scan finds what is left.
        note("tasks could not be removed", broker.discard_tasks(agent_type, entries).await.map(drop));
    }
}

fn note(what: &str, done: Result<(), BrokerError>) {
    if let Err(error) = done {
        metrics::counter!("goalmill_errands_failed_total").increment(1);
        tracing::warn!("{what}: {error}");
    }
}

async fn patiently<'a, T>(
    random: &Random,
    verb: impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Result<T, BrokerError>> + Send + 'a>>,
) -> Result<T, BrokerError> {
    let waits = ExponentialBuilder::default().with_min_delay(Duration::from_millis(20)).with_max_times(6);
    let waits = waits.with_jitter().with_jitter_seed(random.draw());
    verb.retry(waits).when(|error| matches!(error, BrokerError::Unavailable(_))).await
}
