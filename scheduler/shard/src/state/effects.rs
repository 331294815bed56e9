//! Effects of decisions: timers, tasks, and actions after the commit.

use goalmill_common::commit::DeadLetter;
use goalmill_common::failure::Failure;
use goalmill_engine::{Effect, StepIndex, attempt, budget, people, sub_plan, wait};

use super::ShardState;
use crate::Slot;
use crate::post_commit::{PostCommit, StoreUpdate};
use crate::ready_set::DispatchOrder;

impl ShardState {
    /// Applies an effect now, or adds the action for it to those after the commit.
    pub(super) fn apply_effect(&mut self, slot: Slot, effect: Effect) {
        let active = self.plans.get_mut(&slot).expect("callers have the plan");
        let state = &active.state;
        let plan = || state.id().clone();
        let action = match effect {
            Effect::Send(mut task) => {
                self.observer.prepare_task(&mut task);
                return self.turn.add_task(&task);
            }
            Effect::StoreInputs { key, inputs } => {
                self.turn.add_bytes(inputs.text().len());
                return self.turn.inputs.push((key, inputs));
            }
            Effect::Acknowledge { agent_type, entry } => return self.turn.acknowledged.push((agent_type, entry)),
            Effect::Ready(step) => {
                let Some(agent_type) = state.queue(step) else { return };
                let (priority, namespace, rank) = (state.priority(step).0, state.namespace_name(), state.rank(step));
                let order = DispatchOrder { agent_type, priority, namespace, rank };
                return self.ready.insert(slot, step, &order);
            }
            Effect::Room => return self.offer_again(slot),
            Effect::Timer(timer, due) => return self.timers.set(slot, timer, due),
            Effect::Continue => return self.unsettled.push_back(slot),
            // The end is counted once it is written.
            Effect::Ended => return,
            Effect::Plan { revision: 0 } => PostCommit::Plan {
                plan: plan(),
                goal: Box::new(state.accepted().goal.clone()),
                depth: sub_plan::depth(state),
                answers: budget::model_answers(state).to_vec(),
            },
            Effect::Plan { revision } => {
                active.revision_requests += 1;
                let request = active.revision_requests;
                PostCommit::Revise { state: Box::new(active.state.clone()), revision, request }
            }
            Effect::Judge => PostCommit::Judge { state: Box::new(state.clone()) },
            Effect::CacheLookup { step, key } => PostCommit::CacheGet { plan: plan(), step, key },
            Effect::CacheStore { key, outputs, ttl_ms } => PostCommit::CachePut { key, outputs, ttl_ms },
            Effect::LoadPayloads { step, payloads } => {
                active.begin_effect();
                PostCommit::LoadPayloads { plan: active.state.id().clone(), step, payloads }
            }
            Effect::AskHooks { step } => {
                let Some(question) = people::hook_question(state, step, &self.context) else { return };
                PostCommit::AskHooks { plan: plan(), question: Box::new(question) }
            }
            Effect::AwaitEvent { step } => {
                active.begin_effect();
                let Some(wait) = wait::event_wait(&active.state, step) else { return };
                PostCommit::AwaitEvent(Box::new(wait))
            }
            Effect::StopAwaiting { step } => {
                let Some(wait) = wait::event_wait(state, step) else { return };
                PostCommit::StopAwaiting(Box::new(wait))
            }
            Effect::Cancel(token) => PostCommit::Update(StoreUpdate::CancelAttempt(token)),
            Effect::DeadLetter { step, failure } => {
                let Some(letter) = self.dead_letter(slot, step, failure) else { return };
                PostCommit::Update(StoreUpdate::DeadLetter(Box::new(letter)))
            }
        };
        self.turn.post_commit.push(action);
    }

    pub(super) fn add_update(&mut self, update: StoreUpdate) {
        self.turn.post_commit.push(PostCommit::Update(update));
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
            task: match attempt::task(state, index, &self.context)? {
                Ok(mut task) => {
                    self.observer.prepare_task(&mut task);
                    serde_json::to_string(&task).expect("a task always has a JSON text")
                }
                Err(_) => String::new(),
            },
        })
    }
}
