//! Brings a request to its plan's shard, wherever that runs, and the verdict back.

use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::command::{Request, Submit, Verb};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::{Answer, Inbox};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::oneshot;

use crate::outage;
use crate::shard::{Local, Loops};
use crate::site::Site;

/// First wait for an answer from another process; doubles up to [`POLL_MAX`].
const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(200);

/// Asks and waits, at most `api.answer_ms`.
///
/// A request that was not answered in time may still be carried out: every request is safe to repeat.
pub(crate) async fn ask(site: &Site, loops: &Loops, mut request: Request) -> Result<(PlanId, PlanStatus), Problem> {
    let limit = Duration::from_millis(site.settings.api.answer_ms);
    let shard = shard_of(site, &request.plan)?;
    let begins = matches!(request.verb, Verb::Submit(_));
    let asked = async {
        if let Some(local) = loops.get(shard) {
            let (reply, verdict) = oneshot::channel();
            let boxed = Box::new(request);
            let local_request = Local::Request { request: boxed, reply: Some(reply), entry: None, looked: None };
            match local.send(local_request).await {
                Ok(()) => return verdict.await.map_err(|_| unavailable("the shard has just moved"))?,
                // The loop has just ended: whoever runs it next finds the request in the inbox.
                Err(SendError(Local::Request { request: unsent, .. })) => request = *unsent,
                Err(SendError(Local::Command { .. } | Local::AskSuspects(_) | Local::Reconcile(_))) => {
                    return Err(unavailable("the shard has just moved"));
                }
            }
        }
        let id = format!("request-{}", site.random.token());
        request.answer = Some(id.clone());
        let fields = Inbox::Request(Box::new(request)).fields();
        // An inbox must not be made anew in a foreign installation, nor an answer be awaited that cannot be written.
        let health = site.broker.check().await.map_err(|error| outage::problem(&error))?;
        site.pulse.keep(Ok(health));
        if begins {
            site.pulse.admits()?;
        }
        site.broker.send(shard, &fields).await.map_err(|error| outage::problem(&error))?;
        await_answer(site, &id).await
    };
    tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(unavailable("the shard has not answered in time")))
}

/// The request that begins a plan, with the id that follows from the submission's.
pub(crate) fn submission(site: &Site, actor: &str, mut submit: Submit) -> Request {
    let plan = PlanId::derive(site.shards, &submit.submission);
    if let Some(traces) = &site.traces {
        submit.traceparent = Some(traces.begin(&plan, submit.traceparent.as_deref()));
    }
    Request { plan, actor: actor.into(), answer: None, verb: Verb::Submit(Box::new(submit)) }
}

/// The shard of a plan id from outside.
pub(crate) fn shard_of(site: &Site, plan: &PlanId) -> Result<ShardId, Problem> {
    plan.shard().filter(|shard| shard.0 < site.shards).ok_or_else(|| {
        Problem::new(
            ErrorCode::PlanNotFound,
            format!("there is no plan `{}`", plan.as_str().chars().take(64).collect::<String>()),
        )
    })
}

/// A plan that is there already, running or ended.
pub(crate) struct Known {
    pub(crate) plan: PlanId,
    pub(crate) status: PlanStatus,
    /// Of the body that began it; empty when it came without an idempotency key.
    pub(crate) fingerprint: String,
}

/// The plan of that id, if there is one: a second beginning must not reach its shard.
pub(crate) async fn known(site: &Site, plan: &PlanId) -> Result<Option<Known>, BrokerError> {
    let mut summary = site.broker.summary(plan).await?;
    let status = summary.get("status").and_then(|status| PlanStatus::parse(status));
    let fingerprint = summary.remove("fingerprint").unwrap_or_default();
    Ok(status.map(|status| Known { plan: plan.clone(), status, fingerprint }))
}

async fn await_answer(site: &Site, id: &str) -> Result<(PlanId, PlanStatus), Problem> {
    let ids = [id.to_owned()];
    let mut wait = POLL_MIN;
    loop {
        let answers = site.broker.answers(&ids).await.map_err(|error| outage::problem(&error))?;
        if let Some(Some(text)) = answers.first() {
            return match serde_json::from_str(text) {
                Ok(Answer::Accepted { plan_id, status }) => Ok((plan_id, status)),
                Ok(Answer::Refused(problem)) => Err(problem),
                Err(error) => Err(Problem::new(ErrorCode::Internal, format!("the answer cannot be read: {error}"))),
            };
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(POLL_MAX);
    }
}

fn unavailable(why: &str) -> Problem {
    Problem::new(ErrorCode::NotReady, format!("{why}; try again"))
}
