//! The outbox of a shard: actions that follow from events and run once these are written. All of them may run twice.

use std::sync::Arc;

use goalmill_common::id::PlanId;
use goalmill_common::view::WaitView;
use goalmill_engine::{Command, StepIndex, budget};
use goalmill_planning::CallLog;
use goalmill_shard::{PostCommit, ShardMessage};
use tokio::sync::mpsc;

use super::event_waits::{self, EventSearches};
use super::shard_handle::ShardHandle;
use crate::effects;
use crate::scheduler::Scheduler;

/// Runs the actions of one shard.
pub(super) struct Outbox {
    pub(super) scheduler: Arc<Scheduler>,
    /// The shard's own loop, for the answers of effects.
    pub(super) to_loop: mpsc::Sender<ShardMessage>,
    pub(super) searches: Arc<EventSearches>,
}

impl Outbox {
    /// Starts the actions of a turn; store updates are written together.
    ///
    /// Returns a plan that is to be released from quarantine.
    pub(super) fn run_actions(&self, actions: Vec<PostCommit>) -> Option<PlanId> {
        let mut released = None;
        let mut updates = Vec::new();
        for action in actions {
            match action {
                PostCommit::Reply(reply, result) => reply.send(Ok(result)),
                PostCommit::CommandReply(reply, result) => reply.send(result),
                PostCommit::SuspectsReply(reply, suspects) => reply.send(suspects),
                PostCommit::Plan { plan, goal, depth, answers } => {
                    self.spawn(self.handle(plan, None), move |scheduler, handle| async move {
                        let call_log = CallLog::new(0, Arc::new(handle.clone()), &answers);
                        effects::ask_planners(&scheduler, handle.plan.as_str(), *goal, depth, call_log, &handle).await
                    });
                }
                PostCommit::Revise { state, revision, request } => {
                    self.spawn(self.handle(state.id().clone(), Some(request)), move |scheduler, handle| async move {
                        let call_log = CallLog::new(revision, Arc::new(handle), budget::model_answers(&state));
                        effects::revise(&scheduler, &state, revision, call_log).await
                    });
                }
                PostCommit::Judge { state } => {
                    self.spawn(self.handle(state.id().clone(), None), move |scheduler, handle| async move {
                        let call_log = CallLog::new(state.revision(), Arc::new(handle), budget::model_answers(&state));
                        effects::judge(&scheduler, &state, call_log).await
                    });
                }
                PostCommit::CacheGet { plan, step, key } => self.get_cached(plan, step, key),
                PostCommit::LoadPayloads { plan, step, payloads } => {
                    self.spawn(self.handle(plan, None), move |scheduler, handle| async move {
                        Some(effects::load_payloads(&scheduler, &handle.plan, step, payloads).await)
                    });
                }
                PostCommit::AskHooks { plan, question } => {
                    self.spawn(self.handle(plan, None), move |scheduler, handle| async move {
                        Some(effects::ask_hooks(&scheduler, &handle.plan, *question).await)
                    });
                }
                PostCommit::AwaitEvent(wait) => self.register_wait(wait, true),
                PostCommit::StopAwaiting(wait) => self.register_wait(wait, false),
                PostCommit::CachePut { key, outputs, ttl_ms } => {
                    let scheduler = self.scheduler.clone();
                    self.scheduler
                        .tasks
                        .spawn(async move { effects::cache_put(&scheduler, key, outputs, ttl_ms).await });
                }
                PostCommit::EndQuarantine(plan) => released = Some(plan),
                PostCommit::Update(update) => updates.push(update),
            }
        }
        if !updates.is_empty() {
            self.scheduler.tasks.spawn(effects::write_updates(self.scheduler.clone(), updates));
        }
        released
    }

    fn get_cached(&self, plan: PlanId, step: StepIndex, key: String) {
        let (scheduler, handle) = (self.scheduler.clone(), self.handle(plan, None));
        self.scheduler.tasks.spawn(async move {
            let command = effects::cache_get(&scheduler, &handle.plan, step, key).await;
            handle.send(command).await;
        });
    }

    /// Registers a wait that has begun or removes one that has ended, whichever it is by then.
    ///
    /// - `begins`: the plan counts the registration, see [`ShardMessage::WaitRegistered`].
    fn register_wait(&self, wait: Box<WaitView>, begins: bool) {
        let (scheduler, handle) = (self.scheduler.clone(), self.handle(wait.plan_id.clone(), None));
        let searches = self.searches.clone();
        self.scheduler.tasks.spawn(async move {
            event_waits::register_wait(&scheduler, &handle, &searches, &wait).await;
            if begins {
                handle.wait_registered().await;
            }
        });
    }

    /// Runs an effect until it gives a command for the plan, or the scheduler stops.
    fn spawn<F>(&self, handle: ShardHandle, effect: impl FnOnce(Arc<Scheduler>, ShardHandle) -> F)
    where
        F: Future<Output = Option<Command>> + Send + 'static,
    {
        let effect = Box::pin(effect(self.scheduler.clone(), handle.clone()));
        let stop = self.scheduler.stop.clone();
        self.scheduler.tasks.spawn(async move {
            if let Some(Some(command)) = stop.run_until_cancelled(effect).await {
                handle.send(command).await;
            }
        });
    }

    fn handle(&self, plan: PlanId, request: Option<u32>) -> ShardHandle {
        ShardHandle { to_loop: self.to_loop.clone(), plan, request }
    }
}
