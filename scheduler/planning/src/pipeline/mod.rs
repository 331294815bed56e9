//! Tries the planners in the configured order and takes the first valid plan.

use std::sync::Arc;
use std::time::Duration;

use goalmill_common::agent::Agent;
use goalmill_common::command::Planned;
use goalmill_common::config::{GuessApproval, PlannerSettings};
use goalmill_common::plan::{Plan, Step};
use goalmill_common::planning::ReadGoal;
use goalmill_common::problem::Issue;
use goalmill_common::view::{ModelView, PlannerView};
use goalmill_llm::{ModelRegistry, ModelStats};
use goalmill_plan::states::RoutedPlan;
use tokio::time::Instant;

use crate::agent_planner::{AgentPlanner, PlanningAgents};
use crate::calibration::ConfidenceCalibration;
use crate::examples::ExampleStore;
use crate::llm::degenerate_plan::{GOAL_NOT_ADDRESSED, PROMPT_COPIED};
use crate::llm::goal_reader::read_goal;
use crate::llm::judge::CriteriaJudge;
use crate::llm::{LlmDeps, PromptStore};
use crate::planned_rules::validate_planned;
use crate::rules::{FACT_GUESSED, GUESS_CONFIDENCE_MAX};
use crate::stage::{self, PlanningStage, StageOutcome, Stages};
use crate::{CallLog, LlmPlanner, PlanRequest, Planner, PlannerAnswer, PlanningError, RulesPlanner, ToolsPlanner, htn};

pub mod planner_selection;
mod refusal;
pub mod revise;
mod revision_policy;
mod routing;
pub mod slow_model;
pub mod stream;

pub use revision_policy::{enable_revisions, enable_step_revisions};
pub(crate) use routing::route_plan;
pub use routing::{RouteSteps, route_changes};

use refusal::{PlannerRefusal, RefusalReason, explain_model_failure, failure, invalid, merge_provenance, refusal};

/// Why planners cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("planner `{name}`: {reason}")]
pub struct SetupError {
    pub name: String,
    pub reason: String,
}

/// What a planner has for a revision when the time of all is used up.
const LATE_REVISION: Duration = Duration::from_millis(500);

/// Warnings of plans that rest on a guess.
const GUESSES: [&str; 4] = ["GENERIC_PLAN", FACT_GUESSED, GOAL_NOT_ADDRESSED, PROMPT_COPIED];

/// Planners in the order in which they are asked.
pub struct Pipeline {
    planners: Vec<Arc<dyn Planner>>,
    /// Asked only by goals that name them.
    spare: Vec<Arc<dyn Planner>>,
    /// The names of the models that goals may ask for.
    models: Vec<String>,
    /// What the planners `llm` and `tools` work with.
    deps: Option<Arc<LlmDeps>>,
    confidences: Arc<ConfidenceCalibration>,
    timeout: Duration,
    /// How long all planners together may take for one revision.
    replan_limit: Duration,
    /// Which unsure plans wait for a person.
    guess_approval: GuessApproval,
    route: RouteSteps,
}

impl Pipeline {
    /// - `timeout`: how long one planner may take.
    pub fn new(planners: Vec<Arc<dyn Planner>>, timeout: Duration, route: RouteSteps) -> Self {
        Self {
            planners,
            spare: Vec::new(),
            models: Vec::new(),
            deps: None,
            confidences: Arc::new(ConfidenceCalibration::new(0)),
            timeout,
            replan_limit: Duration::MAX,
            guess_approval: GuessApproval::default(),
            route,
        }
    }

    /// Sets up the planners that the settings name.
    ///
    /// - `agents`: asks planning agents; without it `planner.order` names none.
    pub fn from_settings(
        settings: &PlannerSettings,
        models: &Arc<ModelRegistry>,
        route: RouteSteps,
        agents: Option<&Arc<dyn PlanningAgents>>,
    ) -> Result<Self, SetupError> {
        let failed = |name: &str, reason: String| SetupError { name: name.into(), reason };
        let timeout = Duration::from_millis(settings.timeout_ms);
        let deps = LlmDeps::from_settings(&settings.llm, timeout, models).map_err(|e| failed("llm", e.to_string()))?;
        let deps = Arc::new(deps);
        let make = |name: &str| -> Result<Arc<dyn Planner>, SetupError> {
            Ok(match name {
                "rules" => {
                    Arc::new(RulesPlanner::from_setting(&settings.rules_dir).map_err(|e| failed(name, e.to_string()))?)
                }
                "htn" => htn::planner(settings).map_err(|reason| failed(name, reason))?,
                "llm" => Arc::new(LlmPlanner::new(deps.clone(), route.clone())),
                "tools" => Arc::new(ToolsPlanner::new(deps.clone(), route.clone())),
                _ => match agents.and_then(|agents| AgentPlanner::new(name, agents.clone())) {
                    Some(planner) => Arc::new(planner),
                    None => {
                        let known = "there is no such planner; `planner.order` may name: `llm`, `tools`, `htn`, `rules`, \
                                     `agent:NAME`";
                        return Err(failed(name, known.into()));
                    }
                },
            })
        };
        let planners = settings.order.iter().map(|name| make(name)).collect::<Result<Vec<_>, _>>()?;
        if planners.is_empty() {
            return Err(failed("", "`planner.order` names none; set it to `[rules]`".into()));
        }
        let of_models: &[&str] = if models.is_empty() { &[] } else { &["llm", "tools"] };
        let spare = of_models.iter().chain(&["htn", "rules"]).filter(|name| !settings.order.iter().any(|o| o == *name));
        // A planner that is not asked need not be in order.
        let spare = spare.filter_map(|name| make(name).ok()).collect();
        let mut pipeline = Self::new(planners, timeout, route.clone());
        if settings.replan_ms_max > 0 {
            pipeline.replan_limit = Duration::from_millis(settings.replan_ms_max);
        }
        pipeline.offer(spare, models.names().into_iter().map(Into::into).collect());
        pipeline.deps = Some(deps);
        pipeline.guess_approval = settings.approve_guesses;
        Ok(pipeline)
    }

    /// Judges success criteria; `None` without a model.
    pub fn judge(&self) -> Option<CriteriaJudge> {
        self.deps.clone().filter(|_| !self.models.is_empty()).map(CriteriaJudge::new)
    }

    /// Corrects what planners say of their plans by what became of earlier ones.
    pub fn calibrate(&mut self, confidences: Arc<ConfidenceCalibration>) {
        self.confidences = confidences;
    }

    /// The plan with its provenance, with the confidence that earlier plans give it, and with what a model read in the
    /// text of the goal. A guess stays one, whatever became of earlier ones.
    pub(super) fn account(
        &self,
        planned: Planned,
        refusals: &[PlannerRefusal],
        stages: &Stages,
        request: &PlanRequest,
    ) -> Planned {
        let planning = &request.goal.planning;
        let provenance = Some(merge_provenance(&planned, refusals, stages, planning));
        let mut confidence = self.confidences.completion_probability(&planned.planner, planned.confidence);
        let mut warnings = planned.warnings.clone();
        explain_model_failure(&planned.planner, &mut warnings, refusals);
        let is_guess = warnings.iter().any(|warning| GUESSES.contains(&warning.code.as_str()));
        if is_guess {
            confidence = confidence.min(GUESS_CONFIDENCE_MAX);
        }
        let mut plan = planned.plan;
        let is_unsure = confidence <= GUESS_CONFIDENCE_MAX;
        let asks = match self.guess_approval {
            GuessApproval::SideEffects => is_unsure && has_side_effect(&plan, &request.agents),
            GuessApproval::All => is_unsure,
            GuessApproval::Never => false,
        };
        if planning.require_approval || asks {
            plan.approve.get_or_insert_default();
        }
        warnings.extend(request.reading.iter().flat_map(|reading| reading.notes.iter().cloned()));
        Planned { plan, provenance, confidence, warnings, goal: request.read_goal(), ..planned }
    }

    /// The request with what a model reads in the text of the goal, where the goal or the settings want that.
    pub async fn read_goal(&self, mut request: PlanRequest) -> PlanRequest {
        let Some(deps) = &self.deps else { return request };
        let mode = request.goal.planning.read_goal.unwrap_or(deps.settings.read_goal);
        if mode == ReadGoal::Off {
            return request;
        }
        let reading = read_goal(deps, &request).await;
        if let Some(changed) = &reading.changed {
            changed.set(&mut request.goal);
        }
        request.goal.planning.require_approval |= mode == ReadGoal::Approve;
        request.reading = Some(Arc::new(reading));
        request
    }

    /// Adds what only goals that name it get: planners, and which of the models is asked first.
    pub(super) fn offer(&mut self, spare: Vec<Arc<dyn Planner>>, models: Vec<String>) {
        (self.spare, self.models) = (spare, models);
    }

    /// Puts other planners before those that the settings name.
    pub fn prefer(&mut self, planners: Vec<Arc<dyn Planner>>) {
        self.planners.splice(0..0, planners);
    }

    /// How long one planner may take for a revision for which the first was asked at `begun`.
    pub(super) fn revision_timeout(&self, begun: Instant) -> Duration {
        let left = self.replan_limit.saturating_sub(begun.elapsed());
        self.timeout.min(left.max(LATE_REVISION))
    }

    pub(super) fn planners(&self) -> &[Arc<dyn Planner>] {
        &self.planners
    }

    /// Those of the settings, and those that goals may name besides.
    pub(super) fn known(&self) -> impl Iterator<Item = &Arc<dyn Planner>> {
        self.planners.iter().chain(&self.spare)
    }

    pub(super) fn models(&self) -> &[String] {
        &self.models
    }

    /// The planners in the order in which they are asked, then those that only goals name.
    pub fn planner_views(&self) -> Vec<PlannerView> {
        let ordered = self.planners.iter().zip(1..).map(|(planner, order)| (planner, Some(order)));
        let all = ordered.chain(self.spare.iter().map(|planner| (planner, None)));
        let view = |(planner, order): (&Arc<dyn Planner>, Option<u32>)| PlannerView {
            planner: planner.name().to_owned(),
            order,
            asks_models: asks_models(planner.name()),
            rules: planner.rules(),
        };
        all.map(view).collect()
    }

    /// The language models with their live rates.
    pub fn model_views(&self) -> Vec<ModelView> {
        let stats = self.deps.as_ref().map(|deps| deps.models.stats()).unwrap_or_default();
        let view = |stats: ModelStats| ModelView {
            model: stats.model,
            calls: stats.weight,
            success_rate: stats.rates.success,
            parse_failure_rate: 1.0 - stats.rates.readable,
            validation_failure_rate: 1.0 - stats.rates.valid,
            latency_ms: stats.rates.latency_ms,
            input_tokens: stats.tokens.0,
            output_tokens: stats.tokens.1,
            cost: stats.cost.dollars(),
            cost_per_usable_plan: stats.cost_per_valid,
            is_circuit_open: stats.is_circuit_open,
            obstacle: stats.obstacle,
        };
        stats.into_iter().map(view).collect()
    }

    pub(super) fn prompts(&self) -> Option<&PromptStore> {
        self.deps.as_ref().map(|deps| &deps.prompts)
    }

    /// The plans of earlier goals, which the planners `llm` and `tools` show to models.
    pub fn examples(&self) -> Option<Arc<ExampleStore>> {
        self.deps.as_ref().map(|deps| deps.examples.clone())
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks one planner after the other; the provenance of the plan tells what each of them said.
    pub async fn plan_goal(&self, request: &PlanRequest) -> Result<Planned, PlanningError> {
        let stages = Stages::default();
        let mut refusals = Vec::new();
        let chosen = self.chosen(&request.goal);
        for (at, planner) in chosen.iter().enumerate() {
            match self.ask(planner.as_ref(), request, &stages).await {
                Ok(planned) => return Ok(self.account(planned, &refusals, &stages, request)),
                Err(refusal) => {
                    tracing::debug!(
                        planner = refusal.planner,
                        "planner `{}` gave no plan: {}",
                        refusal.planner,
                        refusal.reason
                    );
                    if let Some(next) = chosen.get(at + 1) {
                        refusal.falls_back_to(next.as_ref());
                    }
                    refusals.push(refusal);
                }
            }
        }
        Err(failure(refusals, &stages))
    }

    pub(super) async fn ask(
        &self,
        planner: &dyn Planner,
        request: &PlanRequest,
        stages: &Stages,
    ) -> Result<Planned, PlannerRefusal> {
        let begun = Instant::now();
        let answer = match tokio::time::timeout(self.timeout, planner.plan(request)).await {
            Ok(answer) => answer.map_err(|error| refusal(planner, error, &request.call_log)),
            Err(_) => Err(self.too_late(planner, &request.call_log)),
        };
        request.call_log.close().await;
        note_answer(planner, &answer, stages, begun);
        self.route_answer(planner, answer?, request, stages)
    }

    pub(super) fn too_late(&self, planner: &dyn Planner, call_log: &CallLog) -> PlannerRefusal {
        let error = PlanningError::new(format!("no answer within {} ms", self.timeout.as_millis()));
        PlannerRefusal { why: RefusalReason::Timeout, ..refusal(planner, error, call_log) }
    }

    /// Routes a planner's plan, unless the planner did so itself.
    pub(super) fn route_answer(
        &self,
        planner: &dyn Planner,
        answer: PlannerAnswer,
        request: &PlanRequest,
        stages: &Stages,
    ) -> Result<Planned, PlannerRefusal> {
        let begun = Instant::now();
        let PlannerAnswer { plan, routed, planned } = answer;
        let routed = routed.map_or_else(|| route_plan(&self.route, plan, request), Ok);
        let outcome = if routed.is_ok() { StageOutcome::Ok } else { StageOutcome::Invalid };
        stages.note(planner.name(), PlanningStage::Validate, outcome, begun);
        let routed = routed.map_err(|issues| {
            count_issues(planner.name(), &issues);
            invalid(planner, issues, planned.provenance.as_ref())
        })?;
        let (plan, warnings, routes) = routed.into_parts();
        let warnings = planned.warnings.iter().cloned().chain(warnings).collect();
        Ok(Planned { plan, warnings, routes, ..planned })
    }

    /// Validates and routes a part of a plan.
    pub(super) fn validate_part(
        &self,
        planner: &str,
        plan: &Plan,
        request: &PlanRequest,
    ) -> Result<RoutedPlan, Vec<Issue>> {
        let begun = Instant::now();
        let routed = validate_planned(plan, request).and_then(|valid| route_plan(&self.route, valid, request));
        let outcome = if routed.is_ok() { StageOutcome::Ok } else { StageOutcome::Invalid };
        stage::count(planner, PlanningStage::Validate, outcome, begun.elapsed());
        routed
    }
}

/// Notes how a planner answered. A plan that is not valid was an answer.
pub(super) fn note_answer<T>(
    planner: &dyn Planner,
    answer: &Result<T, PlannerRefusal>,
    stages: &Stages,
    begun: Instant,
) {
    match answer {
        Ok(_) => stages.note(planner.name(), PlanningStage::Ask, StageOutcome::Ok, begun),
        Err(refusal) if refusal.why == RefusalReason::Invalid => {
            stages.note(planner.name(), PlanningStage::Ask, StageOutcome::Ok, begun);
            stages.note(planner.name(), PlanningStage::Validate, StageOutcome::Invalid, Instant::now());
            count_issues(planner.name(), &refusal.issues);
        }
        Err(_) => stages.note(planner.name(), PlanningStage::Ask, StageOutcome::Error, begun),
    }
}

/// Whether a step of a plan, or of a plan inside it, may change something outside of the plan.
pub(super) fn has_side_effect(plan: &Plan, agents: &[Agent]) -> bool {
    plan.steps.iter().any(|step| acts(step, agents))
}

/// Whether a card says so of the action of a step or its fallback.
pub(super) fn acts(step: &Step, agents: &[Agent]) -> bool {
    let acts = |action: &str| agents.iter().filter_map(|agent| agent.action(action)).any(|action| action.side_effect);
    let other = step.fallback.as_ref().and_then(|fallback| fallback.action.as_deref());
    acts(&step.action)
        || other.is_some_and(acts)
        || step.plan.as_ref().is_some_and(|inner| has_side_effect(inner, agents))
}

/// Whether the planner of this name asks language models.
pub(super) fn asks_models(planner: &str) -> bool {
    matches!(planner, "llm" | "tools")
}

/// Counts why a planner's plan was refused.
fn count_issues(planner: &'static str, issues: &[Issue]) {
    for issue in issues {
        let labels = [("planner", planner.to_owned()), ("code", issue.code.clone())];
        metrics::counter!("goalmill_plan_validation_failures_total", &labels).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use goalmill_common::clock::Clock;
    use goalmill_common::goal::Goal;
    use goalmill_common::limits::Limits;
    use goalmill_common::random::Random;
    use goalmill_plan::validate::Policy;
    use serde_json::{Value, json};

    use super::*;

    struct Fixed(&'static str, Result<&'static str, &'static str>);

    #[async_trait]
    impl Planner for Fixed {
        fn name(&self) -> &'static str {
            self.0
        }
        async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
            let step = self.1.map_err(PlanningError::new)?;
            PlannerAnswer::validate(planned(self.0, step), request)
        }
    }

    struct Silent;

    #[async_trait]
    impl Planner for Silent {
        fn name(&self) -> &'static str {
            "silent"
        }
        async fn plan(&self, _: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_valid_plan_is_taken_and_the_others_are_told_of() {
        let pipeline = pipeline(vec![
            Arc::new(Silent),
            Arc::new(Fixed("refuses", Err("not my thing"))),
            Arc::new(Fixed("sloppy", Ok("bad"))),
            Arc::new(Fixed("good", Ok("fine"))),
            Arc::new(Fixed("late", Ok("fine"))),
        ]);
        let planned = pipeline.plan_goal(&request()).await.expect("one planner is good");
        assert_eq!(planned.planner, "good");
        let account = planned.provenance.expect("there is always an account").value();
        let tried: Vec<_> = account["tried"].as_array().into_iter().flatten().map(|t| t["reason"].clone()).collect();
        assert_eq!((tried.len(), &tried[1]), (3, &Value::from("not my thing")));
        assert_eq!(account["planner"], "good");
        assert_eq!(planned.warnings.iter().filter(|warning| warning.code == "ODD").count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_generic_plan_behind_a_model_that_failed_says_why_it_failed() {
        struct Generic;
        #[async_trait]
        impl Planner for Generic {
            fn name(&self) -> &'static str {
                "rules"
            }
            async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
                let warning = Issue {
                    code: "GENERIC_PLAN".into(),
                    pointer: String::new(),
                    detail: "no rule matched; set up a model for better plans".into(),
                    hint: String::new(),
                };
                PlannerAnswer::validate(Planned { warnings: vec![warning], ..planned("rules", "fine") }, request)
            }
        }
        let small = Fixed("llm", Err("the prompt does not fit the context of model `m`"));
        let behind =
            pipeline(vec![Arc::new(small), Arc::new(Generic)]).plan_goal(&request()).await.expect("there is a plan");
        assert!(behind.warnings[0].detail.ends_with("does not fit the context of model `m`"), "{:?}", behind.warnings);
        let alone = pipeline(vec![Arc::new(Generic)]).plan_goal(&request()).await.expect("there is a plan");
        assert!(alone.warnings[0].detail.ends_with("set up a model for better plans"));
    }

    #[tokio::test]
    async fn an_unsure_plan_waits_for_a_person_if_it_may_change_something() {
        let pipeline = |approve_guesses: GuessApproval| {
            let settings = PlannerSettings { approve_guesses, ..PlannerSettings::default() };
            let route = Arc::new(|_: &mut Plan, _: &Policy| Ok((Vec::new(), Vec::new())));
            Pipeline::from_settings(&settings, &models(), route, None).expect("the settings are valid")
        };
        let cards = include_str!("../../../../config/agents/demo.json");
        let demo: Vec<Agent> = serde_json::from_str(cards).expect("the shipped cards can be read");
        let mut harmless = demo.clone();
        harmless.iter_mut().flat_map(|agent| &mut agent.actions).for_each(|action| action.side_effect = false);
        for (goal, is_guess) in [
            ("Water the plants", true),
            ("Book a table for 4", true),
            ("Transfer 500 EUR to Bob", true),
            ("Deploy the shop with a budget of 300 EUR", true),
            ("Plan a 3-day trip to Paris in May with a $2000 budget", false),
        ] {
            let goal = Goal { description: goal.into(), ..Goal::default() };
            for (approval, agents, asks) in [
                (GuessApproval::SideEffects, &demo, is_guess),
                (GuessApproval::SideEffects, &harmless, false),
                (GuessApproval::All, &harmless, is_guess),
                (GuessApproval::Never, &demo, false),
            ] {
                let request = PlanRequest { goal: goal.clone(), agents: agents.clone(), ..request() };
                let planned = pipeline(approval).plan_goal(&request).await.expect("there is a plan");
                assert_eq!(planned.plan.approve.is_some(), asks, "{} {approval:?}", goal.description);
                assert_eq!(planned.confidence <= 0.3, is_guess, "{}", planned.confidence);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_specific_plan_behind_a_model_that_failed_says_why_it_failed() {
        let failed = Fixed("llm", Err("the server answered 401"));
        let specific = Arc::new(Fixed("htn", Ok("fine")));
        let planned =
            pipeline(vec![Arc::new(failed), specific.clone()]).plan_goal(&request()).await.expect("there is one");
        let note = planned.warnings.iter().find(|w| w.code == "PLANNER_FALLBACK").expect("it is told");
        assert_eq!(note.detail, "planner `llm` gave no plan: the server answered 401; the plan is from planner `htn`");
        let draft = Fixed("llm", Ok("bad"));
        let planned =
            pipeline(vec![Arc::new(draft), specific.clone()]).plan_goal(&request()).await.expect("there is one");
        let note = planned.warnings.iter().find(|w| w.code == "PLANNER_FALLBACK").expect("it is told");
        assert!(note.detail.contains("BAD at /steps/0/id: a detail"), "{note:?}");
        let alone =
            pipeline(vec![Arc::new(Fixed("llm", Ok("bad")))]).plan_goal(&request()).await.expect_err("it is bad");
        assert!(alone.reason.contains("BAD at /steps/0/id: a detail"), "{alone}");
        let first = Fixed("rules", Err("no rule"));
        let planned = pipeline(vec![Arc::new(first), specific]).plan_goal(&request()).await.expect("there is one");
        assert!(planned.warnings.iter().all(|w| w.code != "PLANNER_FALLBACK"), "no model was asked");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_valid_plan_the_reasons_and_the_nearest_issues_are_given() {
        let pipeline = pipeline(vec![Arc::new(Fixed("sloppy", Ok("bad"))), Arc::new(Fixed("refuses", Err("no")))]);
        let error = pipeline.plan_goal(&request()).await.expect_err("no planner is good");
        assert!(error.reason.contains("`sloppy`: ") && error.reason.ends_with("`refuses`: no"), "{error}");
        assert_eq!(error.issues.len(), 1);
    }

    #[test]
    fn unknown_planners_and_none_are_refused() {
        for order in [vec!["magic".to_owned()], Vec::new()] {
            let settings = PlannerSettings { order, ..PlannerSettings::default() };
            let refused =
                Pipeline::from_settings(&settings, &models(), route(), None).err().expect("the order is not valid");
            assert!(refused.to_string().contains("planner.order"), "{refused}");
        }
        assert!(Pipeline::from_settings(&PlannerSettings::default(), &models(), route(), None).is_ok());
    }

    #[test]
    fn a_plan_is_held_against_the_agents_that_are_there() {
        let mut agent = Agent::named("travel".into());
        agent.actions.push(
            serde_json::from_value(json!({"name": "book", "inputs": {"required": ["flight"]}})).expect("an action"),
        );
        let request = PlanRequest { agents: vec![agent], ..request() };
        let plan = |agent: &str, action: &str| {
            let step = Step { action: action.into(), ..Step::new("a", agent) };
            Plan { steps: vec![step], ..Plan::default() }
        };
        let codes = |issues: &[Issue]| issues.iter().map(|i| i.code.clone()).collect::<Vec<_>>();
        let issues = validate_planned(&plan("travel", "buy"), &request).expect_err("there is no such action");
        assert_eq!(codes(&issues), ["UNKNOWN_ACTION"]);
        let issues = validate_planned(&plan("travel", "book"), &request).expect_err("an input is missing");
        assert_eq!(codes(&issues), ["INPUT_MISSING"]);
        let checked = validate_planned(&plan("stranger", "x"), &request).expect("it may come later");
        assert_eq!(codes(checked.warnings()), ["UNKNOWN_AGENT"]);
        let long = Plan { steps: (0..21).map(|i| Step::new(format!("s{i}"), "stranger")).collect(), ..Plan::default() };
        assert_eq!(codes(&validate_planned(&long, &request).expect_err("it is too long")), ["TOO_MANY_STEPS"]);
    }

    #[tokio::test]
    async fn shipped_rules_fit_shipped_agents() {
        let cards = include_str!("../../../../config/agents/demo.json");
        let agents: Vec<Agent> = serde_json::from_str(cards).expect("the shipped cards can be read");
        let rules = RulesPlanner::built_in();
        for description in [
            "Plan a 3-day trip to Paris in May with a $2000 budget",
            "Plan a trip to Rome",
            "Research the history of the printing press and write a report",
            "Analyse the dataset sales.csv",
            "Water the plants",
        ] {
            let goal = Goal { description: description.into(), ..Goal::default() };
            let request = PlanRequest { goal, agents: agents.clone(), ..request() };
            let answer = rules.plan(&request).await.unwrap_or_else(|error| panic!("{description}: {error:?}"));
            let checked = answer.plan;
            assert!(
                checked.warnings().iter().all(|w| w.code == "NO_LIVE_WORKER"),
                "{description}: {:?}",
                checked.warnings()
            );
        }
    }

    fn pipeline(planners: Vec<Arc<dyn Planner>>) -> Pipeline {
        Pipeline::new(planners, Duration::from_millis(100), route())
    }

    fn models() -> Arc<ModelRegistry> {
        let models = ModelRegistry::from_settings(&[], Clock::system(), Random::seeded(1));
        Arc::new(models.expect("there is nothing to set up"))
    }

    /// Refuses plans whose first step is called `bad`.
    fn route() -> RouteSteps {
        let issue = |code: &str| Issue {
            code: code.into(),
            pointer: "/steps/0/id".into(),
            detail: "a detail".into(),
            hint: String::new(),
        };
        Arc::new(move |plan: &mut Plan, _: &Policy| match plan.steps[0].id.as_str() {
            "bad" => Err(vec![issue("BAD")]),
            _ => Ok((Vec::new(), vec![issue("ODD")])),
        })
    }

    fn planned(name: &str, step: &str) -> Planned {
        Planned {
            plan: Plan { steps: vec![Step::new(step, "a")], ..Plan::default() },
            planner: name.into(),
            confidence: 0.5,
            provenance: None,
            warnings: Vec::new(),
            routes: Vec::new(),
            goal: None,
        }
    }

    fn request() -> PlanRequest {
        PlanRequest {
            goal: Goal::default(),
            agents: Vec::new(),
            limits: Limits::default(),
            now_ms: 0,
            revision: 0,
            is_part: false,
            call_log: CallLog::default(),
            terms: Default::default(),
            reading: None,
        }
    }
}
