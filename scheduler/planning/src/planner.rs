//! The interface of planners: what they are asked, and what they answer.

use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::command::{Planned, Proposal, Situation};
use goalmill_common::config::WeightSettings;
use goalmill_common::event::GoalChanged;
use goalmill_common::goal::Goal;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_common::view::RuleView;
use goalmill_plan::states::{RoutedPlan, ValidPlan};
use goalmill_plan::validate::{Catalogue, Policy};
use tokio::sync::mpsc;

use crate::call_log::CallLog;
use crate::llm::goal_reader::GoalReading;
use crate::offered_plans::OfferedPlans;
use crate::planned_rules;

/// A way to make plans.
#[async_trait]
pub trait Planner: Send + Sync {
    /// The word for it in settings and in the log: `rules`.
    fn name(&self) -> &'static str;

    /// Makes a valid plan for the goal; the caller routes it and limits the time.
    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError>;

    /// Makes a plan and hands steps over while the rest is written; returns the whole plan.
    ///
    /// Unless a planner has a way of its own, nothing is handed over before the end: this is the adapter that makes
    /// every planner a stream. What is handed over may run immediately, so it holds by itself, as far as it goes.
    async fn stream(&self, request: &PlanRequest, _parts: mpsc::Sender<Part>) -> Result<PlannerAnswer, PlanningError> {
        self.plan(request).await
    }

    /// Its rules or domains, and what they match.
    fn rules(&self) -> Vec<RuleView> {
        Vec::new()
    }

    /// Whether [`Planner::revise`] plans what remains with what is done in view. A person who wants such a planner to plan
    /// what remains gets its plan for the whole goal, around what is done.
    fn sees_results(&self) -> bool {
        true
    }

    /// Says how to change a running plan; the caller validates it and limits the time.
    async fn revise(&self, _request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        Err(PlanningError::new(format!("planner `{}` makes no revisions", self.name())))
    }
}

/// A planner's valid plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannerAnswer {
    pub(crate) plan: ValidPlan,
    /// The same plan, where the planner had it routed.
    pub(crate) routed: Option<RoutedPlan>,
    /// Planner, confidence, provenance and the planner's own warnings; the plan is the unrouted one.
    pub(crate) planned: Planned,
}

impl PlannerAnswer {
    /// Validates the plan of a planner that made it without a model.
    pub fn validate(planned: Planned, request: &PlanRequest) -> Result<Self, PlanningError> {
        match planned_rules::validate_planned(&planned.plan, request) {
            Ok(plan) => Ok(Self { plan, routed: None, planned }),
            Err(issues) => {
                let error = PlanningError::new(NOT_VALID);
                Err(PlanningError { issues, provenance: planned.provenance, is_invalid: true, ..error })
            }
        }
    }
}

/// What a planner hands over before its plan is whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The plan without its steps: name, strategy, limits.
    Head(Box<Plan>),
    /// The next step, complete; it depends on steps before it only.
    Step(Box<Step>),
}

/// A running plan that is to be changed.
#[derive(Clone, Debug)]
pub struct ReviseRequest {
    pub situation: Situation,
    /// The agents that are registered.
    pub agents: Vec<Agent>,
    pub limits: Limits,
    /// Unix milliseconds.
    pub now_ms: u64,
    /// Where calls of models are written down.
    pub call_log: CallLog,
    pub terms: Terms,
}

impl ReviseRequest {
    /// The request for a new plan for the whole goal.
    pub fn whole_plan(&self) -> PlanRequest {
        PlanRequest {
            goal: self.situation.goal.clone(),
            agents: self.agents.clone(),
            limits: self.limits.clone(),
            now_ms: self.now_ms,
            revision: 0,
            is_part: true,
            call_log: self.call_log.clone(),
            terms: self.terms.clone(),
            reading: None,
        }
    }
}

/// What is to be planned.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    pub goal: Goal,
    /// The agents that are registered.
    pub agents: Vec<Agent>,
    /// What is left of them where the plan is nested.
    pub limits: Limits,
    /// Unix milliseconds; `in May` is the next May from then.
    pub now_ms: u64,
    /// 0 for the first plan of a goal, else the revision asked for.
    pub revision: u32,
    /// The plan stands in another one: as a decomposition, as a revision, or as its rest. The generic plan never does.
    pub is_part: bool,
    /// Where calls of models are written down.
    pub call_log: CallLog,
    pub terms: Terms,
    /// What a model read in the text of the goal; the goal has it.
    pub reading: Option<Arc<GoalReading>>,
}

impl PlanRequest {
    /// The fields of the goal, if a model read some of them in its text.
    pub(crate) fn read_goal(&self) -> Option<Box<GoalChanged>> {
        self.reading.as_ref()?.changed.clone().map(Box::new)
    }
}

/// What plans are held to besides the limits.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Who is there to run them.
    pub workers: Arc<Vec<WorkerBeat>>,
    pub policy: Arc<Policy>,
    /// What of a plan that does not fit the agents is refused.
    pub weights: WeightSettings,
    /// The stored plans that steps may use.
    pub stored_plans: Arc<OfferedPlans>,
}

impl Terms {
    /// The agents and workers that plans are validated against.
    pub fn catalogue(&self, agents: &[Agent]) -> Catalogue {
        Catalogue::from_agents(agents).with_workers(&self.workers)
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct PlanningError {
    pub reason: String,
    /// The located errors of the best try.
    pub issues: Vec<Issue>,
    /// What was said to models, and what it took.
    pub provenance: Option<Json>,
    /// Whether there was a plan, which is not valid.
    pub is_invalid: bool,
}

/// The reason of an answer whose plan is not valid.
pub(crate) const NOT_VALID: &str = "the plan is not valid";

impl PlanningError {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), issues: Vec::new(), provenance: None, is_invalid: false }
    }
}
