//! The LLM planner: prompts a model, parses, repairs and validates its answer, and criticises what is still wrong.
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
use goalmill_common::agent::Agent;
use goalmill_common::clock::rfc3339;
use goalmill_common::command::Proposal;
use goalmill_common::config::{LlmSettings, PlanningStrategy};
use goalmill_common::criterion::criterion_id;
use goalmill_common::goal::{Goal, Planning};
use goalmill_common::limits::Limits;
use goalmill_common::plan::{OnFailure, Phase, Plan, RevisionPolicy};
use goalmill_llm::{AnswerSchema, ModelRegistry, Purpose};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::examples::ExampleStore;
use super::retriever::{DocumentRetriever, Passage};
use super::{Part, PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest, RouteSteps};

pub(crate) mod degenerate_plan;
pub(crate) mod goal_reader;
pub(crate) mod judge;
pub mod parse_answer;
pub(super) mod plan_schema;
pub(super) mod plan_task;
pub(super) mod prompt_data;
mod prompt_store;
pub(super) mod redact;
pub(super) mod repair_loop;
mod revision_task;
mod stream;
#[cfg(test)]
mod tests;
pub(super) mod tidy_step;
mod tool_shortlist;
pub(super) mod verifier;

pub use prompt_store::{GoalPromptError, Prompt, PromptError, PromptStore};
pub(super) use revision_task::{keep_going, needs_changes, situation_context};
pub use tool_shortlist::ToolShortlist;
pub(super) use tool_shortlist::{cut_schema, nearest_cards};

use plan_schema::PlanVocabulary;
use plan_task::{PlanTask, ValidDraft};
use prompt_data::PromptData;
use repair_loop::{AcceptedDraft, RepairLoop};
use verifier::reviewed;

/// Confidence of a plan that a model made, by how it came about.
const CONFIDENCE_AT_ONCE: f64 = 0.75;
const CONFIDENCE_AFTER_CRITIQUE: f64 = 0.6;
/// Characters of a plan's name.
const NAME_CHARS_MAX: usize = 80;

/// What the planners `llm` and `tools` work with.
pub struct LlmDeps {
    pub models: Arc<ModelRegistry>,
    pub prompts: PromptStore,
    pub settings: LlmSettings,
    /// For one plan or revision, all rounds and all models.
    pub timeout: Duration,
    pub examples: Arc<ExampleStore>,
    documents: Option<DocumentRetriever>,
}

impl LlmDeps {
    /// - `timeout`: for one plan or revision; the pipeline ends it, models share it.
    pub fn from_settings(
        settings: &LlmSettings,
        timeout: Duration,
        models: &Arc<ModelRegistry>,
    ) -> Result<Self, PromptError> {
        let prompts = match settings.prompts_dir.as_str() {
            "" => PromptStore::built_in(),
            dir => PromptStore::from_dir(Path::new(dir))?,
        };
        let examples = Arc::new(ExampleStore::new(settings.memory_plans));
        let documents = DocumentRetriever::from_settings(&settings.retriever);
        Ok(Self { models: models.clone(), prompts, settings: settings.clone(), timeout, examples, documents })
    }

    /// The settings, with the goal's parameters in their place.
    pub fn settings_for(&self, planning: &Planning) -> LlmSettings {
        let settings = &self.settings;
        LlmSettings {
            strategy: planning.strategy.unwrap_or(settings.strategy),
            candidates: planning.candidates.unwrap_or(settings.candidates),
            review: planning.review.unwrap_or(settings.review),
            temperature: planning.temperature.or(settings.temperature),
            features: planning.features.clone().unwrap_or_else(|| settings.features.clone()),
            ..settings.clone()
        }
    }

    /// The data part of the prompts for a goal: its context, passages of documents, and others.
    pub async fn prompt_data(&self, goal: &Goal, others: &[Passage]) -> PromptData {
        let settings = &self.settings;
        let mut passages = others.to_vec();
        if let Some(documents) = self.documents.as_ref().filter(|_| settings.context_tokens_max > 0) {
            passages.extend(documents.retrieve(&goal.description, settings.retriever.passages_max).await);
        }
        PromptData::compose(&goal.context, &passages, settings.context_tokens_max)
    }
}

/// Makes and revises plans by asking language models.
pub struct LlmPlanner {
    deps: Arc<LlmDeps>,
    route: RouteSteps,
}

impl LlmPlanner {
    /// - `route`: routes valid plans, so that an unroutable step can be criticised.
    pub fn new(deps: Arc<LlmDeps>, route: RouteSteps) -> Self {
        Self { deps, route }
    }

    async fn task<'a>(&'a self, request: &'a PlanRequest) -> PlanTask<'a> {
        let data = self.deps.prompt_data(&request.goal, &[]).await;
        PlanTask::new(self.name(), &self.deps, request, &self.route, data)
    }

    fn repair_loop(&self, request: &PlanRequest) -> RepairLoop<'_> {
        let (goal, call_log) = (&request.goal, &request.call_log);
        RepairLoop::new(&self.deps, call_log, self.name(), &goal.budget, Purpose::Plan, &goal.planning)
    }

    /// The plan with what the planner itself has to say.
    async fn planned(
        &self,
        request: &PlanRequest,
        mut task: PlanTask<'_>,
        mut repair_loop: RepairLoop<'_>,
        accepted: AcceptedDraft<ValidDraft>,
    ) -> PlannerAnswer {
        let is_first = accepted.is_at_once;
        let (good, is_corrected) = reviewed(&mut repair_loop, &mut task, accepted).await;
        let is_at_once = is_first && !is_corrected;
        let spent = repair_loop.spend.spent();
        let mut head = task.account();
        if let Some(arrived) = &task.arrived {
            head["arrived"] = json!(arrived);
        }
        self.deps.examples.store(&request.goal.description, good.valid.plan());
        let confidence = if is_at_once { CONFIDENCE_AT_ONCE } else { CONFIDENCE_AFTER_CRITIQUE };
        good.into_answer("llm", confidence, repair_loop.provenance.close(head, &spent))
    }
}

#[async_trait]
impl Planner for LlmPlanner {
    fn name(&self) -> &'static str {
        "llm"
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        let task = self.task(request).await;
        let mut repair_loop = self.repair_loop(request);
        let accepted = repair_loop.run(&task, None).await?;
        Ok(self.planned(request, task, repair_loop, accepted).await)
    }

    async fn stream(&self, request: &PlanRequest, parts: mpsc::Sender<Part>) -> Result<PlannerAnswer, PlanningError> {
        let settings = self.deps.settings_for(&request.goal.planning);
        let is_whole = settings.candidates > 1 || settings.strategy == PlanningStrategy::Iterative;
        if is_whole || plan_task::is_reviewed(&settings) {
            return self.plan(request).await;
        }
        let mut task = self.task(request).await;
        let mut repair_loop = self.repair_loop(request);
        let begun = stream::first_answer(&mut task, &mut repair_loop, request, parts).await?;
        let accepted = repair_loop.run(&task, begun).await?;
        Ok(self.planned(request, task, repair_loop, accepted).await)
    }

    async fn revise(&self, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        revision_task::propose(&self.deps, request).await
    }
}

/// The schema of plans of these agents, as planners send it.
pub fn plan_schema_of(agents: Vec<Agent>, settings: &LlmSettings, limits: &Limits) -> AnswerSchema {
    let vocabulary = PlanVocabulary {
        agents,
        plans: Vec::new(),
        fallbacks: false,
        parts: false,
        nested: limits.depth_max > 0,
        features: settings.features.clone(),
        output_tokens_max: settings.output_tokens_max,
    };
    vocabulary.plan_answer_schema(limits.planned_steps_max)
}

/// The plan without its steps, as the planner makes it whatever the model wrote.
fn head(request: &PlanRequest) -> Plan {
    let name: String = request.goal.description.split_whitespace().collect::<Vec<_>>().join(" ");
    Plan { name: name.chars().take(NAME_CHARS_MAX).collect(), budget: request.goal.budget, ..Plan::default() }
}

/// Gives the plan its head, and, when it is written part by part, its checkpoint.
pub(crate) fn finish(plan: &mut Plan, request: &PlanRequest, strategy: PlanningStrategy) {
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
    let criteria = goal.success_criteria.iter().enumerate();
    let criteria: Vec<String> =
        criteria.map(|(place, c)| format!("{}: {}", criterion_id(c, place), c.text())).collect();
    let inputs = goal.metadata.get("inputs").filter(|inputs| !inputs.is_null()).map(Value::to_string);
    json!({"description": goal.description, "constraints": text(&goal.constraints), "criteria": criteria,
           "inputs": inputs, "budget": budget})
}

/// Limits as templates see them: how many steps, and in how many levels of plans they may be nested.
pub(super) fn limits_context(limits: &Limits) -> Value {
    json!({"steps": limits.planned_steps_max, "levels": limits.depth_max})
}

/// What the goal requires of steps, as templates see it.
pub(super) fn requirements_context(planning: &Planning) -> Value {
    json!({"dependencies": planning.require_dependencies, "fallbacks": planning.require_fallbacks})
}

/// The day, for a prompt.
pub(super) fn day(now_ms: u64) -> String {
    rfc3339(now_ms).chars().take(10).collect()
}
