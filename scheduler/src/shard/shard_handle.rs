//! Sends commands of effects and streamed steps to a shard's loop.

use async_trait::async_trait;
use goalmill_common::command::{Planned, Verb};
use goalmill_common::event::{ModelAnswered, ModelAsked, ToolsCalled};
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::id::PlanId;
use goalmill_common::plan::Step;
use goalmill_common::view::WaitView;
use goalmill_engine::{Command, PlanAnswer, Rejection};
use goalmill_planning::{CallRecorder, SinkClosed, StepSink};
use goalmill_shard::{Reply, ShardMessage, WaitQuestion, WaitState};
use tokio::sync::mpsc;

use super::reply_channel;

/// A handle of an effect on the loop that started it.
#[derive(Clone)]
pub(crate) struct ShardHandle {
    pub(super) to_loop: mpsc::Sender<ShardMessage>,
    pub(super) plan: PlanId,
    /// See [`ShardMessage::Command`].
    pub(super) request: Option<u32>,
}

impl ShardHandle {
    /// Sends a command; ignored if the loop has ended.
    pub(super) async fn send(&self, command: Command) {
        drop(self.to_loop.send(self.message(command, None)).await);
    }

    /// Says that a wait of the plan is registered; ignored if the loop has ended.
    pub(super) async fn wait_registered(self) {
        drop(self.to_loop.send(ShardMessage::WaitRegistered(self.plan)).await);
    }

    /// Asks about a wait of the plan; `None` if the loop has ended.
    ///
    /// - `ids`: of events.
    pub(crate) async fn ask_wait(&self, wait: &WaitView, ids: Vec<String>) -> Option<WaitState> {
        let (reply, state) = reply_channel();
        let question = WaitQuestion { wait: wait.clone(), ids, reply };
        self.to_loop.send(ShardMessage::AskWait(Box::new(question))).await.ok()?;
        state.await.ok()
    }

    /// Offers the plan an event that is kept; `None` if the loop or the plan has ended.
    pub(crate) async fn offer_event(&self, event: ExternalEvent) -> Option<Result<(), Rejection>> {
        let (reply, verdict) = reply_channel();
        let verb = Verb::SendEvent { event: Box::new(event), waiting_only: true };
        self.to_loop.send(self.message(Command::Verb(verb), Some(reply))).await.ok()?;
        verdict.await.ok()
    }

    fn message(&self, command: Command, reply: Option<Reply<Result<(), Rejection>>>) -> ShardMessage {
        ShardMessage::Command { plan: self.plan.clone(), command: Box::new(command), request: self.request, reply }
    }

    async fn send_and_wait(&self, command: Command) -> Result<(), SinkClosed> {
        let (reply, verdict) = reply_channel();
        self.to_loop.send(self.message(command, Some(reply))).await.map_err(|_| SinkClosed::Gone)?;
        match verdict.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Rejection::Invalid { reason, issues })) => Err(SinkClosed::Refused { reason, issues }),
            Ok(Err(
                Rejection::Exists
                | Rejection::Final { .. }
                | Rejection::UnknownStep { .. }
                | Rejection::StaleAttempt { .. }
                | Rejection::StaleRevision { .. }
                | Rejection::NotAllowed { .. }
                | Rejection::NotDue,
            ))
            | Err(_) => Err(SinkClosed::Gone),
        }
    }
}

#[async_trait]
impl CallRecorder for ShardHandle {
    fn plan(&self) -> Option<&PlanId> {
        Some(&self.plan)
    }

    async fn asked(&self, call: ModelAsked) -> bool {
        self.send_and_wait(Command::ModelAsked(Box::new(call))).await.is_ok()
    }

    async fn tools_called(&self, called: ToolsCalled) {
        self.send(Command::ToolsCalled(Box::new(called))).await;
    }

    /// The answer of a call is stored with the next commit, before it is used, so that a takeover does not repeat it.
    async fn answered(&self, call: ModelAnswered) {
        if let Err(stopped) = self.send_and_wait(Command::ModelAnswered(Box::new(call))).await {
            tracing::debug!(plan_id = %self.plan, "the answer of a model was not stored: {stopped:?}");
        }
    }
}

#[async_trait]
impl StepSink for ShardHandle {
    async fn begin(&self, planned: Planned) -> Result<(), SinkClosed> {
        self.send_and_wait(Command::Planned { revision: 0, answer: PlanAnswer::Open(Box::new(planned)) }).await
    }

    async fn begin_whole(&self, planned: Planned) -> Result<(), SinkClosed> {
        self.send_and_wait(Command::Planned { revision: 0, answer: PlanAnswer::Plan(Box::new(planned)) }).await
    }

    async fn add(&self, steps: Vec<Step>) -> Result<(), SinkClosed> {
        self.send_and_wait(Command::AddSteps { steps }).await
    }
}
