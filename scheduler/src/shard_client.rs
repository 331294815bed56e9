//! Sends requests to the shard of a plan, in this process or another, and waits for the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use goalmill_broker::BrokerError;
use goalmill_common::command::{Request, Submit, Verb};
use goalmill_common::id::{Namespace, PlanId, ShardId};
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_common::view::summary_namespace;
use goalmill_common::wire::{Inbox, SubmissionAnswer};
use goalmill_shard::ShardMessage;
use tokio::sync::mpsc::error::SendError;

use crate::scheduler::Scheduler;
use crate::shard::{OwnedShards, reply_channel};

/// First wait between polls for an answer from another process; doubles up to [`POLL_MAX`].
const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(200);

/// Sends a request and waits for its answer, at most `api.answer_ms`.
///
/// A request that was not answered in time may still be executed; every request is idempotent.
pub(crate) async fn send_request(
    scheduler: &Scheduler,
    shards: &OwnedShards,
    mut request: Request,
) -> Result<(PlanId, PlanStatus), Problem> {
    let limit = Duration::from_millis(scheduler.settings.api.answer_ms);
    let shard = shard_of(scheduler, &request.plan)?;
    let begins = matches!(request.verb, Verb::Submit(_));
    let asked = async {
        if let Some(local) = shards.get(shard) {
            let (reply, verdict) = reply_channel();
            let boxed = Box::new(request);
            let local_request =
                ShardMessage::Request { request: boxed, reply: Some(reply), entry: None, snapshot: None };
            // A loop that ends gives the request back; it goes to the inbox then, which the next owner reads.
            match local.send(local_request).await {
                Ok(()) => match verdict.await {
                    Ok(Ok(result)) => return result,
                    Ok(Err(unhandled)) => request = *unhandled,
                    Err(_) => return Err(unavailable("the shard has just moved")),
                },
                Err(SendError(ShardMessage::Request { request: unsent, .. })) => request = *unsent,
                Err(SendError(
                    ShardMessage::Command { .. }
                    | ShardMessage::WaitRegistered(_)
                    | ShardMessage::AskWait(_)
                    | ShardMessage::AskSuspects(_)
                    | ShardMessage::Reconcile(_),
                )) => {
                    return Err(unavailable("the shard has just moved"));
                }
            }
        }
        let id = format!("request-{}", scheduler.random.token());
        request.answer = Some(id.clone());
        let fields = Inbox::Request(Box::new(request)).fields();
        // Not in a foreign installation, whose inbox this would create, and not without a store that can answer.
        let health = scheduler.broker.check_health().await?;
        scheduler.health.store_check(Ok(health));
        if begins {
            scheduler.health.check_admission()?;
        }
        scheduler.broker.send_request(shard, &fields).await?;
        poll_answer(scheduler, &id).await
    };
    tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(unavailable("the shard has not answered in time")))
}

/// Sends a request that starts a plan, counts the plan for its namespace, and traces its submission.
///
/// - `received_ms`: arrival of what was submitted, Unix milliseconds.
/// - `bytes`: of what was submitted.
pub(crate) async fn send_submission(
    scheduler: &Scheduler,
    shards: &OwnedShards,
    request: Request,
    received_ms: u64,
    bytes: usize,
) -> Result<(PlanId, PlanStatus), Problem> {
    let (plan, traceparent) = (request.plan.clone(), request.traceparent().map(ToOwned::to_owned));
    let counted = match (&scheduler.namespaces, &request.verb) {
        (Some(limits), Verb::Submit(submit)) => Some((limits, submit.goal.namespace.clone().unwrap_or_default())),
        (Some(_) | None, _) => None,
    };
    if let Some((limits, namespace)) = &counted {
        limits.admit(namespace, &plan, bytes)?;
    }
    let answer = send_request(scheduler, shards, request).await;
    if answer.is_err() {
        if let Some((limits, namespace)) = &counted {
            limits.withdraw(namespace, &plan);
        }
    } else if let Some(traces) = &scheduler.traces {
        traces.submitted(&plan, traceparent.as_deref(), "http", received_ms, scheduler.clock.now_ms());
    }
    answer
}

/// The request that starts a plan; its plan id derives from the submission id.
///
/// - `submit`: its submission id is the one that the caller chose, unique in `namespace`.
pub(crate) fn submit_request(scheduler: &Scheduler, actor: &str, namespace: &Namespace, mut submit: Submit) -> Request {
    let plan = PlanId::derive(scheduler.shards, namespace, &submit.submission);
    submit.submission = namespace.qualify(&submit.submission);
    if let Some(traces) = &scheduler.traces {
        submit.traceparent = Some(traces.plan_context(&plan, submit.traceparent.as_deref()));
    }
    Request { plan, actor: actor.into(), answer: None, verb: Verb::Submit(Box::new(submit)) }
}

/// The shard of a plan id that a client sent.
pub(crate) fn shard_of(scheduler: &Scheduler, plan: &PlanId) -> Result<ShardId, Problem> {
    plan.shard().filter(|shard| shard.0 < scheduler.shards).ok_or_else(|| {
        Problem::new(
            ErrorCode::PlanNotFound,
            format!("there is no plan `{}`", plan.as_str().chars().take(64).collect::<String>()),
        )
    })
}

/// A plan that exists, running or finished.
pub(crate) struct ExistingPlan {
    pub(crate) plan: PlanId,
    pub(crate) status: PlanStatus,
    pub(crate) namespace: Namespace,
    /// Hash of the body that started it; empty without an idempotency key.
    pub(crate) fingerprint: String,
}

/// The plan of that id, if it exists.
pub(crate) async fn find_existing(scheduler: &Scheduler, plan: &PlanId) -> Result<Option<ExistingPlan>, BrokerError> {
    let mut summary = match scheduler.plans.summary(plan).await {
        // A submission need not wait for the archive: what it may have is older than `scheduler.retention_ms`.
        Err(BrokerError::Archive(_)) => BTreeMap::new(),
        summary => summary?,
    };
    let status = summary.get("status").and_then(|status| PlanStatus::parse(status));
    let namespace = summary_namespace(&summary);
    let fingerprint = summary.remove("fingerprint").unwrap_or_default();
    Ok(status.map(|status| ExistingPlan { plan: plan.clone(), status, namespace, fingerprint }))
}

async fn poll_answer(scheduler: &Scheduler, id: &str) -> Result<(PlanId, PlanStatus), Problem> {
    let ids = [id.to_owned()];
    let mut wait = POLL_MIN;
    loop {
        let answers = scheduler.broker.answers(&ids).await?;
        if let Some(Some(text)) = answers.first() {
            return match serde_json::from_str(text) {
                Ok(SubmissionAnswer::Accepted { plan_id, status, .. }) => Ok((plan_id, status)),
                Ok(SubmissionAnswer::Refused(problem)) => Err(problem),
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
