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
                Effect::Ready(step) => {
                    let state = &self.plans[&slot].state;
                    let Some(agent_type) = state.queue(step) else { continue };
                    let order = DispatchOrder {
                        agent_type,
                        priority: state.priority(step).0,
                        namespace: state.namespace_name(),
                        rank: state.rank(step),
                    };
                    self.ready.insert(slot, step, &order);
                }
                Effect::Room => self.ready.unpark(slot, true),
                Effect::Timer(timer, due) => self.timers.set(slot, timer, due),
                Effect::Plan { revision } => {
                    let plan = self.plans.get_mut(&slot).expect("its effects are dealt with");
                    plan.revision_requests += u32::from(revision > 0);
                    let (state, request) = (&plan.state, plan.revision_requests);
                    let accepted = state.accepted();
                    let plan = accepted.plan_id.clone();
                    self.turn.post_commit.push(if revision == 0 {
                        PostCommit::Plan {
                            plan,
                            goal: Box::new(accepted.goal.clone()),
                            depth: state.depth(),
                            answers: state.model_answers().to_vec(),
                        }
                    } else {
                        PostCommit::Revise { plan, revision, request }
                    });
                }
                Effect::Judge => {
                    let plan = self.plans[&slot].state.id().clone();
                    self.turn.post_commit.push(PostCommit::Judge { plan });
                }
                Effect::CacheLookup { step, key } => {
                    let plan = self.plans[&slot].state.id().clone();
                    self.turn.post_commit.push(PostCommit::CacheGet { plan, step, key });
                }
                Effect::LoadPayloads { step, payloads } => {
                    let plan = self.plans[&slot].state.id().clone();
                    self.turn.post_commit.push(PostCommit::LoadPayloads { plan, step, payloads });
                }
                Effect::AskHooks { step } => {
                    let state = &self.plans[&slot].state;
                    let question = state.hook_question(step, &self.context);
                    let plan = state.id().clone();
                    let asked = question.map(|question| PostCommit::AskHooks { plan, question: Box::new(question) });
                    self.turn.post_commit.extend(asked);
                }
                Effect::CacheStore { key, outputs, ttl_ms } => {
                    self.turn.post_commit.push(PostCommit::CachePut { key, outputs, ttl_ms });
                }
                Effect::Cancel(token) => self.add_update(StoreUpdate::CancelAttempt(token)),
                Effect::Continue => self.unsettled.push_back(slot),
                Effect::DeadLetter { step, failure } => {
                    if let Some(letter) = self.dead_letter(slot, step, failure) {
                        self.add_update(StoreUpdate::DeadLetter(Box::new(letter)));
                    }
                }
                Effect::Answer { submission } => {
                    let state = &self.plans[&slot].state;
                    let plan = state.id().clone();
                    let status = state.status();
                    self.add_update(StoreUpdate::answer(submission, Ok((plan, status))));
                }
                // The end is counted once it is written.
                Effect::Ended => {}
            }
        }
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
