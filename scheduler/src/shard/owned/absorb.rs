//! What decisions ask for besides events: timers, tasks, sub-plans, and what is done once the turn is written.

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

use super::Owned;
use crate::effects::Errand;
use crate::shard::Slot;
use crate::shard::ready::Standing;
use crate::shard::turn::After;
use crate::traces;

/// The end of a sub-plan, for its parent. A queue of them and not a recursion: the end of one may begin the next, and
/// chains are long.
pub(super) struct RollUp {
    parent: PlanId,
    command: Command,
}

impl Owned {
    /// Gives the ends of sub-plans to their parents, in the turn in which they ended.
    pub(super) fn roll_up(&mut self) {
        while let Some(RollUp { parent, command }) = self.roll_ups.pop_front() {
            let Some(slot) = self.slots.get(&parent).copied() else { continue };
            if let Err(rejection) = self.decide_one(slot, None, command) {
                tracing::debug!("a sub-plan's end came too late: {rejection}");
            }
        }
    }

    /// Does, or gathers for after the commit, what a decision asks for besides its events.
    pub(super) fn absorb(&mut self, slot: Slot, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(mut task) => {
                    self.name_execution(&mut task);
                    self.turn.send(&task);
                }
                Effect::Acknowledge { agent_type, entry } => self.turn.acknowledged.push((agent_type, entry)),
                Effect::Ready(step) => {
                    let state = &self.plans[&slot].state;
                    let Some(agent_type) = state.queue(step) else { continue };
                    let standing = Standing {
                        agent_type,
                        priority: state.priority(step).0,
                        tenant: state.tenant(),
                        rank: state.rank(step),
                    };
                    self.ready.insert(slot, step, &standing);
                }
                Effect::Room => self.ready.unpark(slot, true),
                Effect::Timer(timer, due) => self.timers.set(slot, timer, due),
                Effect::Plan { revision } => {
                    let held = self.plans.get_mut(&slot).expect("its effects are dealt with");
                    held.asked += u32::from(revision > 0);
                    let (state, asked) = (&held.state, held.asked);
                    let Some(accepted) = state.accepted() else { continue };
                    let plan = accepted.plan_id.clone();
                    self.turn.after.push(if revision == 0 {
                        After::Plan {
                            plan,
                            goal: Box::new(accepted.goal.clone()),
                            depth: state.depth(),
                            answers: state.model_answers().to_vec(),
                        }
                    } else {
                        After::Revise { plan, state: Box::new(state.clone()), revision, asked }
                    });
                }
                // Whatever wrote the plan did so in another process, or before this one lost the shard.
                Effect::Close => {
                    let reason = "the scheduler that wrote the plan is gone".to_owned();
                    let closing = Box::new(Closing::Broken { reason, issues: Vec::new(), provenance: None });
                    if let Err(rejection) = self.decide_one(slot, None, Command::ClosePlan(closing)) {
                        tracing::debug!("the plan was closed already: {rejection}");
                    }
                }
                Effect::LookUp { step, key } => {
                    let Some(plan) = self.plans[&slot].state.id().cloned() else { continue };
                    self.turn.after.push(After::LookUp { plan, step, key });
                }
                Effect::Keep { key, outputs, ttl_ms } => {
                    self.turn.after.push(After::Keep { key, outputs, ttl_ms });
                }
                Effect::Cancel(token) => self.errand(Errand::Cancel(token)),
                Effect::StartSubPlan { plan_id, submit } => self.start_sub_plan(plan_id, submit),
                Effect::AskSubPlan { plan_id, verb } => self.ask_sub_plan(&plan_id, verb),
                Effect::RollUp { parent, status, outputs, usage, failure } => {
                    let (step, attempt) = (parent.step, parent.attempt);
                    let command = Command::SubPlanEnded { step, attempt, status, outputs, usage, failure };
                    self.roll_ups.push_back(RollUp { parent: parent.plan, command });
                }
                Effect::Continue => self.unsettled.push_back(slot),
                Effect::Bury { step, failure } => {
                    if let Some(letter) = self.dead_letter(slot, step, failure) {
                        self.errand(Errand::Bury(Box::new(letter)));
                    }
                }
                Effect::Answer { submission } => {
                    let state = &self.plans[&slot].state;
                    let Some(plan) = state.id().cloned() else { continue };
                    let status = state.status();
                    self.errand(Errand::answer(submission, Ok((plan, status))));
                }
                Effect::Ended => {
                    let state = &self.plans[&slot].state;
                    metrics::counter!("goalmill_plans_ended_total", "status" => state.status().as_str()).increment(1);
                }
            }
        }
    }

    pub(super) fn errand(&mut self, errand: Errand) {
        self.turn.after.push(After::Errand(errand));
    }

    fn name_execution(&self, task: &mut Task) {
        if self.is_traced {
            traces::name_execution(task);
        }
    }

    fn dead_letter(&self, slot: Slot, index: StepIndex, failure: Failure) -> Option<DeadLetter> {
        let state = &self.plans[&slot].state;
        let step = state.step(index)?;
        Some(DeadLetter {
            agent_type: state.queue(index)?.clone(),
            plan: state.id()?.clone(),
            step: step.spec.id.to_string(),
            attempt: step.attempt,
            code: failure.code,
            reason: failure.message,
            task: match state.task(index, &self.context)? {
                Ok(mut task) => {
                    self.name_execution(&mut task);
                    serde_json::to_string(&task).expect("a task always has a JSON text")
                }
                Err(_) => String::new(),
            },
        })
    }

    fn start_sub_plan(&mut self, plan: PlanId, submit: Box<Submit>) {
        let parent = submit.parent.clone();
        if let (Err(problem), Some(parent)) = (self.take_submission(plan, "engine".into(), submit), parent) {
            let failure = Failure::new(FailureClass::Permanent, problem.code.as_str(), problem.detail);
            self.absorb_roll_up(parent, failure);
        }
    }

    fn absorb_roll_up(&mut self, parent: Parent, failure: Failure) {
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
        if let Err(rejection) = self.decide_one(slot, None, Command::Verb(verb)) {
            tracing::debug!(plan_id = %plan, "sub-plan {plan} does not do as its parent: {rejection}");
        }
    }
}
