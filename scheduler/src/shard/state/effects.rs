//! Effects of decisions: timers, tasks, sub-plans, and actions after the commit.

use goalmill_broker::DeadLetter;
use goalmill_common::command::{Submit, Verb};
use goalmill_common::event::Parent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::Usage;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::status::PlanStatus;
use goalmill_common::task::Task;
use goalmill_engine::{Closing, Command, Effect, StepIndex};

use super::ShardState;
use crate::effects::StoreUpdate;
use crate::shard::Slot;
use crate::shard::outbox::PostCommit;
use crate::shard::ready::DispatchOrder;
use crate::traces;

/// The end of a sub-plan, for its parent. They are queued, because recursion over long chains of sub-plans would exhaust
/// the stack.
pub(super) struct RollUp {
    parent: PlanId,
    command: Command,
}

impl ShardState {
    /// Reports finished sub-plans to their parents, in the same turn.
    pub(super) fn roll_up(&mut self) {
        while let Some(RollUp { parent, command }) = self.roll_ups.pop_front() {
            let Some(slot) = self.slots.get(&parent).copied() else { continue };
            if let Err(rejection) = self.apply_command(slot, None, command) {
                tracing::debug!("the end of a sub-plan was rejected: {rejection}");
            }
        }
    }

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
                // The planner that streamed the plan ran before a takeover.
                Effect::Close => {
                    let reason = "the scheduler that wrote the plan is gone".to_owned();
                    let closing = Box::new(Closing::Broken { reason, issues: Vec::new(), provenance: None });
                    if let Err(rejection) = self.apply_command(slot, None, Command::ClosePlan(closing)) {
                        tracing::debug!("the plan was already closed: {rejection}");
                    }
                }
                Effect::CacheLookup { step, key } => {
                    let plan = self.plans[&slot].state.id().clone();
                    self.turn.post_commit.push(PostCommit::CacheGet { plan, step, key });
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
                Effect::StartSubPlan { plan_id, submit } => self.start_sub_plan(plan_id, submit),
                Effect::AskSubPlan { plan_id, verb } => self.ask_sub_plan(&plan_id, verb),
                Effect::RollUp { parent, status, outputs, usage, failure } => {
                    let (step, attempt) = (parent.step, parent.attempt);
                    let command = Command::SubPlanEnded { step, attempt, status, outputs, usage, failure };
                    self.roll_ups.push_back(RollUp { parent: parent.plan, command });
                }
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

    fn start_sub_plan(&mut self, plan: PlanId, submit: Box<Submit>) {
        let parent = submit.parent.clone();
        if let (Err(problem), Some(parent)) = (self.handle_submission(plan, "engine".into(), submit), parent) {
            let failure = Failure::new(FailureClass::Permanent, problem.code.as_str(), problem.detail);
            self.roll_up_failure(parent, failure);
        }
    }

    fn roll_up_failure(&mut self, parent: Parent, failure: Failure) {
        let command = Command::SubPlanEnded {
            step: parent.step,
            attempt: parent.attempt,
            status: PlanStatus::Failed,
            outputs: Json::empty_object(),
            usage: Usage::default(),
            failure: Some(failure),
        };
        self.roll_ups.push_back(RollUp { parent: parent.plan, command });
    }

    fn ask_sub_plan(&mut self, plan: &PlanId, verb: Verb) {
        let Some(slot) = self.slots.get(plan).copied() else { return };
        if let Err(rejection) = self.apply_command(slot, None, Command::Verb(verb)) {
            tracing::debug!(plan_id = %plan, "sub-plan {plan} rejected the verb of its parent: {rejection}");
        }
    }
}
