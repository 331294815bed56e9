//! Effects of decisions: timers, tasks, and actions after the commit.

use goalmill_broker::DeadLetter;
use goalmill_common::failure::Failure;
use goalmill_common::task::Task;
use goalmill_engine::{Effect, StepIndex};

use super::ShardState;
use crate::effects::StoreUpdate;
use crate::shard::Slot;
use crate::shard::outbox::PostCommit;
use crate::shard::ready::DispatchOrder;
use crate::traces;

impl ShardState {
    /// Applies effects now, or collects them for after the commit.
    pub(super) fn apply_effects(&mut self, slot: Slot, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(mut task) => {
                    self.set_execution_context(&mut task);
                    self.turn.add_task(&task);
                }
                Effect::StoreInputs { key, inputs } => {
                    self.turn.add_bytes(inputs.text().len());
                    self.turn.inputs.push((key, inputs));
                }
                Effect::Acknowledge { agent_type, entry } => self.turn.acknowledged.push((agent_type, entry)),
                Effect::Ready(step) => self.offer_step(slot, step),
                Effect::Room => self.ready.unpark(slot, true),
                Effect::Timer(timer, due) => self.timers.set(slot, timer, due),
                Effect::Continue => self.unsettled.push_back(slot),
                // The end is counted once it is written.
                Effect::Ended => {}
                Effect::Plan { .. }
                | Effect::Judge
                | Effect::CacheLookup { .. }
                | Effect::CacheStore { .. }
                | Effect::LoadPayloads { .. }
                | Effect::AskHooks { .. }
                | Effect::AwaitEvent { .. }
                | Effect::StopAwaiting { .. }
                | Effect::Cancel(_)
                | Effect::DeadLetter { .. }
                | Effect::Answer { .. } => {
                    let action = self.post_commit(slot, effect);
                    self.turn.post_commit.extend(action);
                }
            }
        }
    }

    /// The action of an effect that runs after the commit.
    fn post_commit(&mut self, slot: Slot, effect: Effect) -> Option<PostCommit> {
        if let (Effect::Plan { revision: 1.. }, Some(active)) = (&effect, self.plans.get_mut(&slot)) {
            active.revision_requests += 1;
        }
        if let (Effect::AwaitEvent { .. }, Some(active)) = (&effect, self.plans.get_mut(&slot)) {
            active.begin_registration();
        }
        let active = &self.plans[&slot];
        let (state, request) = (&active.state, active.revision_requests);
        let plan = state.id().clone();
        Some(match effect {
            Effect::Plan { revision: 0 } => PostCommit::Plan {
                plan,
                goal: Box::new(state.accepted().goal.clone()),
                depth: state.depth(),
                answers: state.model_answers().to_vec(),
            },
            Effect::Plan { revision } => PostCommit::Revise { state: Box::new(state.clone()), revision, request },
            Effect::Judge => PostCommit::Judge { state: Box::new(state.clone()) },
            Effect::CacheLookup { step, key } => PostCommit::CacheGet { plan, step, key },
            Effect::CacheStore { key, outputs, ttl_ms } => PostCommit::CachePut { key, outputs, ttl_ms },
            Effect::LoadPayloads { step, payloads } => PostCommit::LoadPayloads { plan, step, payloads },
            Effect::AskHooks { step } => {
                let question = Box::new(state.hook_question(step, &self.context)?);
                PostCommit::AskHooks { plan, question }
            }
            Effect::AwaitEvent { step } => PostCommit::AwaitEvent(Box::new(state.event_wait(step)?)),
            Effect::StopAwaiting { step } => PostCommit::StopAwaiting(Box::new(state.event_wait(step)?)),
            Effect::Cancel(token) => PostCommit::Update(StoreUpdate::CancelAttempt(token)),
            Effect::DeadLetter { step, failure } => {
                let letter = Box::new(self.dead_letter(slot, step, failure)?);
                PostCommit::Update(StoreUpdate::DeadLetter(letter))
            }
            Effect::Answer { submission } => {
                PostCommit::Update(StoreUpdate::answer(submission, Ok((plan, state.status()))))
            }
            Effect::Send(_)
            | Effect::StoreInputs { .. }
            | Effect::Acknowledge { .. }
            | Effect::Ready(_)
            | Effect::Room
            | Effect::Timer(..)
            | Effect::Continue
            | Effect::Ended => return None,
        })
    }

    /// Offers a ready step to the dispatch.
    fn offer_step(&mut self, slot: Slot, step: StepIndex) {
        let state = &self.plans[&slot].state;
        let Some(agent_type) = state.queue(step) else { return };
        let order = DispatchOrder {
            agent_type,
            priority: state.priority(step).0,
            namespace: state.namespace_name(),
            rank: state.rank(step),
        };
        self.ready.insert(slot, step, &order);
    }

    pub(super) fn add_update(&mut self, update: StoreUpdate) {
        self.turn.post_commit.push(PostCommit::Update(update));
    }

    fn set_execution_context(&self, task: &mut Task) {
        if self.is_traced {
            traces::set_execution_context(task);
        }
    }

    fn dead_letter(&self, slot: Slot, index: StepIndex, failure: Failure) -> Option<DeadLetter> {
        let state = &self.plans[&slot].state;
        let step = state.step(index)?;
        Some(DeadLetter {
            agent_type: state.queue(index)?.clone(),
            plan: state.id().clone(),
            step: step.spec.id.to_string(),
            attempt: step.attempt,
            code: failure.code,
            reason: failure.message,
            task: match state.task(index, &self.context)? {
                Ok(mut task) => {
                    self.set_execution_context(&mut task);
                    serde_json::to_string(&task).expect("a task always has a JSON text")
                }
                Err(_) => String::new(),
            },
        })
    }
}
