//! The part of a plan's log that its last state does not tell.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::event::{Event, PlanEvent, Record, Route, StepEvent};
use goalmill_common::id::{AgentType, StepId};
use goalmill_common::json::Json;
use goalmill_common::number::to_usize;
use goalmill_common::revision::Trigger;
use goalmill_common::text::shorten;
use serde::Deserialize;
use serde_json::Value;

use super::cost_sums::CostSums;
use super::model_figures::ModelFiguresByName;
use super::plan_figures::Ratio;
use super::stated_confidence::StatedConfidence;

/// Characters of the name of a model.
const MODEL_CHARS_MAX: usize = 100;

/// The part of a plan's log that the last state does not tell.
#[derive(Debug, Default)]
pub(crate) struct PlanSample {
    accepted_ms: u64,
    /// Seconds from goal to plan, of planners.
    pub(super) planning: Option<f64>,
    pub(super) confidence: Option<StatedConfidence>,
    replan_ms: Option<u64>,
    pub(super) replanning: Vec<f64>,
    pub(super) routing: Vec<f64>,
    pub(super) answers: Ratio,
    pub(super) planning_cost: f64,
    /// Cost of each step's attempts: all, failed. Without those of plans inside, which count with their own plan.
    pub(super) costs: BTreeMap<StepId, (f64, f64)>,
    /// Agent type of each step's last attempt that a worker made.
    pub(super) agent_types: BTreeMap<StepId, AgentType>,
    /// Steps whose last attempt is a plan inside, or was made by the engine.
    without_worker: BTreeSet<StepId>,
    /// Cost of each step's recorded calls, while a next attempt would use them.
    call_costs: BTreeMap<StepId, Vec<f64>>,
    pub(super) models: ModelFiguresByName,
    /// Cost of recorded calls by the model that replied.
    pub(super) model_costs: CostSums,
}

/// The reply of a model, as the shipped agents record it.
#[derive(Deserialize)]
struct RecordedReply {
    model: String,
}

/// What the provenance of a plan says about its making.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Account {
    rounds: Vec<Value>,
    tried: Vec<Value>,
}

impl PlanSample {
    /// Takes in the next event of the log.
    pub(crate) fn observe(&mut self, record: &Record) {
        match &record.event {
            Event::Plan(event) => self.observe_plan(event, record.time_ms),
            Event::Step { step, event, .. } => self.observe_step(step, event),
        }
    }

    fn observe_plan(&mut self, event: &PlanEvent, time_ms: u64) {
        if let PlanEvent::GoalAccepted(_) = event {
            self.accepted_ms = time_ms;
        } else if let PlanEvent::PlanCreated(created) = event {
            if let Some(provenance) = created.provenance.as_ref().filter(|_| created.fork.is_none()) {
                self.account(provenance, true, true);
                self.planning = Some(seconds(self.accepted_ms, time_ms));
                self.confidence = StatedConfidence::from_created(created);
            }
        } else if let PlanEvent::PlanValidated(validated) = event {
            self.route(&validated.routes);
        } else if let PlanEvent::Extended(extended) = event {
            self.route(&extended.routes);
            if let Some(stated) = &mut self.confidence {
                stated.observe(event);
            }
        } else if let PlanEvent::PlanningFailed(failed) = event {
            let is_first = self.planning.is_none();
            match &failed.provenance {
                Some(provenance) => self.account(provenance, is_first, false),
                None if is_first => self.answers.count(false),
                None => {}
            }
        } else if let PlanEvent::ModelAnswered(answered) = event {
            self.planning_cost += answered.usage.cost;
        } else if let PlanEvent::ReplanTriggered(replan) = event {
            let by_planner = ![Trigger::AskUser, Trigger::BetterPlan].iter().any(|t| t.as_str() == replan.trigger);
            self.replan_ms = by_planner.then_some(time_ms);
        } else if let PlanEvent::QuestionAnswered(_) = event {
            self.replan_ms = Some(time_ms);
        } else if let PlanEvent::Revised(revised) = event {
            self.end_replan(time_ms);
            if let Some(provenance) = &revised.provenance {
                self.account(provenance, false, true);
            }
        } else if let PlanEvent::RevisionProposed(_)
        | PlanEvent::QuestionAsked(_)
        | PlanEvent::Resumed(_)
        | PlanEvent::Failed(_) = event
        {
            self.end_replan(time_ms);
        }
    }

    fn end_replan(&mut self, time_ms: u64) {
        self.replanning.extend(self.replan_ms.take().map(|begun_ms| seconds(begun_ms, time_ms)));
    }

    fn route(&mut self, routes: &[Route]) {
        let took: Vec<f64> = routes.iter().filter_map(|route| route.took_ms).collect();
        if !took.is_empty() {
            self.routing.push(took.iter().sum::<f64>() / 1_000.0);
        }
    }

    /// Takes in what models answered, in all planners that were asked.
    ///
    /// - `is_plan`: whether the answers were to the goal.
    /// - `is_used`: whether the last one was used.
    pub(super) fn account(&mut self, provenance: &Json, is_plan: bool, is_used: bool) {
        let account: Account = serde_json::from_str(provenance.text()).unwrap_or_default();
        let answers = self.answers.all;
        for tried in &account.tried {
            let rounds = tried["rounds"].as_array().map(Vec::as_slice).unwrap_or_default();
            self.models.observe(rounds, is_plan, &mut self.answers);
            if is_plan && rounds.is_empty() {
                self.answers.count(false);
            }
        }
        let valid = self.models.observe(&account.rounds, is_plan, &mut self.answers);
        if let (true, Some(model)) = (is_used, valid) {
            self.models.of_model(&model).usable += 1;
        }
        let is_silent = account.rounds.is_empty() && (is_used || self.answers.all == answers);
        if is_plan && is_silent {
            self.answers.count(is_used);
        }
    }

    fn observe_step(&mut self, step: &StepId, event: &StepEvent) {
        self.observe_calls(step, event);
        if let StepEvent::CallRecorded(_) = event {
            return;
        }
        if let StepEvent::Queued(queued) = event {
            self.begin_attempt(step, &queued.agent_type);
        }
        // These have the cost of a plan inside.
        let is_of_plan = matches!(event, StepEvent::Resumed(_) | StepEvent::Cancelled(_));
        if is_of_plan || self.without_worker.contains(step) {
            return;
        }
        let cost = event.usage().cost;
        let is_wasted = matches!(event, StepEvent::Retrying(_) | StepEvent::Failed(_) | StepEvent::Skipped(_));
        let wasted = if is_wasted { cost } else { 0.0 };
        self.add_cost(step, cost, wasted);
    }

    /// - `agent_type`: empty without a worker.
    fn begin_attempt(&mut self, step: &StepId, agent_type: &AgentType) {
        if agent_type.as_str().is_empty() {
            self.without_worker.insert(step.clone());
        } else {
            self.without_worker.remove(step);
            self.agent_types.insert(step.clone(), agent_type.clone());
        }
    }

    /// The cost of a recorded call is wasted when it is dropped: for another call, with another agent, or with its step.
    fn observe_calls(&mut self, step: &StepId, event: &StepEvent) {
        if let StepEvent::CallRecorded(call) = event {
            self.call_costs.entry(step.clone()).or_default().push(call.cost);
            self.add_cost(step, call.cost, 0.0);
            let reply = call.usage.and(call.outcome.as_ref());
            if let Some(Ok(RecordedReply { model })) = reply.map(|reply| serde_json::from_str(reply.text())) {
                self.model_costs.add(shorten(&model, MODEL_CHARS_MAX).as_ref(), 1, call.cost);
            }
            return;
        }
        let Some(costs) = self.call_costs.get_mut(step) else { return };
        let kept = if let StepEvent::CallsDiscarded(discarded) = event {
            to_usize(discarded.from.saturating_sub(1)).min(costs.len())
        } else if event.drops_calls() {
            0
        } else {
            return;
        };
        let wasted = costs.drain(kept..).sum();
        if let StepEvent::Completed(_) | StepEvent::Decomposed(_) = event {
            return;
        }
        self.add_cost(step, 0.0, wasted);
    }

    fn add_cost(&mut self, step: &StepId, cost: f64, wasted: f64) {
        if cost > 0.0 || wasted > 0.0 {
            let sums = self.costs.entry(step.clone()).or_default();
            *sums = (sums.0 + cost, sums.1 + wasted);
        }
    }
}

fn seconds(from_ms: u64, to_ms: u64) -> f64 {
    to_ms.saturating_sub(from_ms) as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::StepQueued;

    use super::*;

    #[test]
    fn a_planner_without_a_model_gives_one_answer() {
        let mut sample = PlanSample::default();
        sample.account(&Json::from_value(&serde_json::json!({"rule": "travel"})), true, true);
        assert_eq!(sample.answers, Ratio { hits: 1, all: 1 });
        sample.account(&Json::from_value(&serde_json::json!({"tried": [{"planner": "rules"}]})), true, false);
        assert_eq!(sample.answers, Ratio { hits: 1, all: 2 });
    }

    /// The sample of this kind of event, at this cost.
    fn event_with_cost(name: &str, cost: f64) -> StepEvent {
        let mut samples = StepEvent::samples().into_iter();
        let mut event = samples.find(|event| event.type_name() == name).expect("there is a sample");
        if let StepEvent::Retrying(retrying) = &mut event {
            retrying.cost = cost;
        } else if let StepEvent::Decomposed(decomposed) = &mut event {
            decomposed.cost = cost;
        } else if let StepEvent::Suspended(suspended) = &mut event {
            suspended.cost = cost;
        } else if let StepEvent::Resumed(resumed) = &mut event {
            resumed.cost = cost;
        } else if let StepEvent::Cancelled(cancelled) = &mut event {
            cancelled.cost = cost;
        } else if let StepEvent::Completed(completed) = &mut event {
            completed.cost = cost;
        }
        event
    }

    #[test]
    fn the_cost_of_plans_inside_is_counted_with_their_own_plans() {
        let queued = |agent_type: &str| StepEvent::Queued(Box::new(StepQueued::new(agent_type.into(), 1)));
        let mut sample = PlanSample::default();
        let [called, stopped, decomposed]: [StepId; 3] = ["called".into(), "stopped".into(), "decomposed".into()];
        for (step, event) in [
            (&called, queued("echo")),
            (&called, event_with_cost("step_suspended", 0.5)),
            (&called, event_with_cost("step_resumed", 8.0)),
            (&called, queued("echo")),
            (&called, event_with_cost("step_completed", 0.25)),
            (&stopped, queued("echo")),
            (&stopped, event_with_cost("step_suspended", 0.5)),
            (&stopped, event_with_cost("step_cancelled", 8.0)),
            (&decomposed, queued("writer")),
            (&decomposed, event_with_cost("step_retrying", 0.5)),
            (&decomposed, queued("writer")),
            (&decomposed, event_with_cost("step_decomposed", 0.25)),
            (&decomposed, queued("")),
            (&decomposed, event_with_cost("step_completed", 8.0)),
        ] {
            sample.observe_step(step, &event);
        }
        assert_eq!(sample.costs.get(&called), Some(&(0.75, 0.0)));
        assert_eq!(sample.costs.get(&stopped), Some(&(0.5, 0.0)));
        assert_eq!(sample.costs.get(&decomposed), Some(&(0.75, 0.5)));
        assert_eq!(sample.agent_types.get(&decomposed).map(AgentType::as_str), Some("writer"));
    }

    #[test]
    fn the_cost_of_every_attempt_is_counted_once_and_that_of_failed_ones_as_wasted() {
        let mut sample = PlanSample::default();
        let id: StepId = "draft".into();
        for event in StepEvent::samples() {
            if let StepEvent::Iterated(mut iterated) = event {
                iterated.cost = 0.25;
                sample.observe_step(&id, &StepEvent::Iterated(iterated));
            } else if let StepEvent::Retrying(mut retrying) = event {
                retrying.cost = 0.5;
                sample.observe_step(&id, &StepEvent::Retrying(retrying));
            } else if let StepEvent::Completed(mut completed) = event {
                completed.cost = 1.0;
                sample.observe_step(&id, &StepEvent::Completed(completed));
            }
        }
        assert_eq!(sample.costs.get(&id), Some(&(1.75, 0.5)));
    }
}
