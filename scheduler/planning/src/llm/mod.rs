//! Goals → plans by language models: ask, read, repair, validate, criticise.
//!
//! ```text
//! prompt ─▶ model ─▶ read ─▶ repair ─▶ validate ─▶ plan
//!    ▲                 │       │        │
//!    │       unreadable, cut   │      issues ─▶ critique (issues and their steps only) ─▶ model ─▶ …
//!    └── another author ◀──────┴── two answers without fewer issues
//! ```
//!
//! A plan that holds may be reviewed before it is taken: what a model objects to is criticised once.
//!
//! What a model writes is never trusted: nothing is invented for it, no cut answer counts as a whole one, and every
//! change to what it wrote is in the plan's provenance.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::clock::rfc3339;
use goalmill_common::command::Proposal;
use goalmill_common::config::{LlmSettings, PlanningStrategy};
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{OnFailure, Phase, Plan, RevisionPolicy};
use goalmill_llm::{Models, Purpose};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::memory::Memory;
use super::{Part, PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest, RoutePlan};

pub(super) mod account;
pub(super) mod draft;
mod offer;
pub mod overhead;
pub(super) mod plan;
mod prompts;
pub(super) mod redact;
pub(super) mod review;
mod revise;
mod stream;
pub(super) mod talk;
#[cfg(test)]
mod tests;

pub use offer::Offer;
pub(super) use plan::step_schema;
pub use prompts::{Prompt, PromptError, Prompts};
pub(super) use revise::{keep_going, situation_context};

use plan::{PlanMatter, ValidDraft};
use review::reviewed;
use talk::{Settled, Talk};

/// Confidence of a plan that a model made, by how it came about.
const CONFIDENCE_AT_ONCE: f64 = 0.75;
const CONFIDENCE_AFTER_CRITIQUE: f64 = 0.6;
/// Characters of a plan's name.
const NAME_CHARS_MAX: usize = 80;

/// What the planners `llm` and `tools` work with.
#[derive(Debug)]
pub struct Desk {
    pub models: Arc<Models>,
    pub prompts: Prompts,
    pub settings: LlmSettings,
    /// For one plan or revision, all rounds and all models.
    pub timeout: Duration,
    pub memory: Memory,
}

impl Desk {
    /// - `timeout`: for one plan or revision; the pipeline ends it, models share it.
    pub fn from_settings(settings: &LlmSettings, timeout: Duration, models: &Arc<Models>) -> Result<Self, PromptError> {
        let prompts = match settings.prompts_dir.as_str() {
            "" => Prompts::built_in(),
            dir => Prompts::from_dir(Path::new(dir))?,
        };
        let memory = Memory::new(settings.memory_plans);
        Ok(Self { models: models.clone(), prompts, settings: settings.clone(), timeout, memory })
    }
}

/// Makes and revises plans by asking language models.
pub struct LlmPlanner {
    desk: Arc<Desk>,
    route: RoutePlan,
}

impl LlmPlanner {
    /// - `route`: routes valid plans, so that an unroutable step can be criticised.
    pub fn new(desk: Arc<Desk>, route: RoutePlan) -> Self {
        Self { desk, route }
    }

    fn matter<'a>(&'a self, request: &'a PlanRequest) -> PlanMatter<'a> {
        PlanMatter::new(self.name(), &self.desk, request, &self.route)
    }

    fn talk(&self, request: &PlanRequest) -> Talk<'_> {
        Talk::new(&self.desk, &request.ledger, self.name(), &request.goal.budget, Purpose::Plan)
            .preferring(&request.goal)
    }

    /// The plan with what the planner itself has to say.
    async fn planned(
        &self,
        request: &PlanRequest,
        mut matter: PlanMatter<'_>,
        mut talk: Talk<'_>,
        settled: Settled<ValidDraft>,
    ) -> PlannerAnswer {
        let is_first = settled.is_at_once;
        let (good, is_corrected) = reviewed(&mut talk, &mut matter, settled).await;
        let is_at_once = is_first && !is_corrected;
        let spent = talk.purse.spent();
        let strategy = self.desk.settings.strategy;
        let mut head = json!({"strategy": strategy.as_str(), "actions_left_out": matter.offer.left_out,
                              "examples": matter.examples_shown()});
        if let Some(arrived) = &matter.arrived {
            head["arrived"] = json!(arrived);
        }
        self.desk.memory.keep(&request.goal.description, good.valid.plan());
        let confidence = if is_at_once { CONFIDENCE_AT_ONCE } else { CONFIDENCE_AFTER_CRITIQUE };
        good.into_answer("llm", confidence, talk.account.close(head, &spent))
    }
}

#[async_trait]
impl Planner for LlmPlanner {
    fn name(&self) -> &'static str {
        "llm"
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        let matter = self.matter(request);
        let mut talk = self.talk(request);
        let settled = talk.settle(&matter, None).await?;
        Ok(self.planned(request, matter, talk, settled).await)
    }

    async fn stream(&self, request: &PlanRequest, parts: mpsc::Sender<Part>) -> Result<PlannerAnswer, PlanningError> {
        let settings = &self.desk.settings;
        let is_whole = settings.candidates > 1 || settings.strategy == PlanningStrategy::Iterative;
        if is_whole || plan::is_reviewed(settings) {
            return self.plan(request).await;
        }
        let mut matter = self.matter(request);
        let mut talk = self.talk(request);
        let begun = stream::first_answer(&mut matter, &mut talk, request, parts).await?;
        let settled = talk.settle(&matter, begun).await?;
        Ok(self.planned(request, matter, talk, settled).await)
    }

    async fn revise(&self, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        revise::propose(&self.desk, request).await
    }
}

/// The plan without its steps, as the planner makes it whatever the model wrote.
fn head(request: &PlanRequest) -> Plan {
    let name: String = request.goal.description.split_whitespace().collect::<Vec<_>>().join(" ");
    Plan { name: name.chars().take(NAME_CHARS_MAX).collect(), budget: request.goal.budget, ..Plan::default() }
}

/// Gives the plan its head, and, when it is written part by part, its checkpoint.
pub(super) fn finish(plan: &mut Plan, request: &PlanRequest, strategy: PlanningStrategy) {
    let Plan { steps, phases, .. } = std::mem::take(plan);
    *plan = Plan { steps, phases, ..head(request) };
    if strategy == PlanningStrategy::Iterative {
        if plan.phases.is_empty() {
            plan.phases.push(Phase { id: "part_1".into(), description: String::new(), checkpoint: true });
            for step in &mut plan.steps {
                step.phase = Some("part_1".into());
            }
        } else if let Some(last) = plan.phases.last_mut() {
            last.checkpoint = true;
        }
        // Going on is what was planned, and takes no confidence away.
        plan.revision = Some(RevisionPolicy { confidence_floor: 0.0, ..RevisionPolicy::default() });
        plan.steps.iter_mut().for_each(|step| step.on_failure = OnFailure::Replan);
        plan.metadata.insert("planning".into(), strategy.as_str().into());
    }
}

/// A goal as templates see it.
pub(super) fn goal_context(goal: &Goal) -> Value {
    let text = |map: &serde_json::Map<String, Value>| {
        if map.is_empty() { Value::Null } else { Value::Object(map.clone()).to_string().into() }
    };
    let budget = if goal.budget.is_unlimited() { Value::Null } else { json!(goal.budget).to_string().into() };
    let inputs = goal.metadata.get("inputs").filter(|inputs| !inputs.is_null()).map(Value::to_string);
    json!({"description": goal.description, "constraints": text(&goal.constraints), "criteria": goal.success_criteria,
           "inputs": inputs, "budget": budget})
}

/// Limits as templates see them: how many steps, and in how many levels of plans they may be nested.
pub(super) fn limits_context(limits: &Limits) -> Value {
    json!({"steps": limits.planned_steps_max, "levels": limits.depth_max})
}

/// The day, for a prompt.
pub(super) fn day(now_ms: u64) -> String {
    rfc3339(now_ms).chars().take(10).collect()
}
