//! The plan-generation task for the repair loop.

use std::sync::OnceLock;

use goalmill_common::command::Planned;
use goalmill_common::config::{LlmSettings, PlanningStrategy};
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_formats::DraftKind;
use goalmill_llm::ResponseFormat;
use goalmill_plan::states::{RoutedPlan, ValidPlan};
use goalmill_plan::validate::{Catalogue, Rules, Weight, WeightSettings, own_id};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::degenerate_plan::{self, PromptExample};
use super::parse_answer::{self, ParsedAnswer};
use super::plan_schema::{KnownStep, PlanVocabulary, features};
use super::prompt_data::PromptData;
use super::prompt_store::{Prompt, PromptError};
use super::repair_loop::{DraftVerdict, GenerationTask};
use super::{LlmDeps, ToolShortlist, day, goal_context};
use crate::examples::Example;
use crate::provenance::Round;
use crate::repair::{repair, repair_list};
use crate::stage::{self, PlanningStage, StageOutcome};
use crate::{OfferedPlans, PlanRequest, PlannerAnswer, RouteSteps, pipeline, planned_rules};

/// Characters of one step in a critique.
const STEP_CHARS_MAX: usize = 6_000;

/// A model's plan that is valid and can be routed.
#[derive(Debug)]
pub struct ValidDraft {
    /// As the model wrote it.
    pub plan: Plan,
    /// With the goal's name, limits and checkpoint.
    pub valid: ValidPlan,
    pub routed: RoutedPlan,
    /// What a review says of it.
    pub warnings: Vec<Issue>,
}

impl ValidDraft {
    /// - `provenance`: the prompts, answers and edits that led to the plan.
    pub fn into_answer(self, planner: &str, confidence: f64, provenance: Value) -> PlannerAnswer {
        let planned = Planned {
            plan: self.valid.plan().clone(),
            planner: planner.into(),
            confidence,
            provenance: Some(Json::from_value(&provenance)),
            warnings: self.warnings,
            routes: Vec::new(),
            goal: None,
        };
        PlannerAnswer { plan: self.valid, routed: Some(self.routed), planned }
    }
}

/// The plan that is wanted.
pub struct PlanTask<'a> {
    /// Who asks.
    planner: &'static str,
    deps: &'a LlmDeps,
    settings: LlmSettings,
    request: &'a PlanRequest,
    route: &'a RouteSteps,
    data: PromptData,
    pub shortlist: ToolShortlist,
    catalogue: Catalogue,
    /// For the reader.
    pub actions: goalmill_reader::ToolCatalogue,
    examples: Vec<Example>,
    prompt_example: OnceLock<PromptExample>,
    /// Steps that were handed over, in order.
    pub frozen: Vec<Step>,
    /// How far the answer had come each time, and its whole length, in bytes; none when it came in one piece.
    pub arrived: Option<Arrived>,
    /// There is a plan that holds already: a better one is wanted of the same author's draft, or none.
    pub holds: bool,
}

/// When the steps of an answer came.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Arrived {
    /// Bytes of the whole answer.
    pub bytes: usize,
    pub steps: Vec<ArrivedStep>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivedStep {
    pub step: StepId,
    /// Bytes of the answer that had come when the step was handed over.
    pub bytes: usize,
}

impl<'a> PlanTask<'a> {
    /// - `planner`: who asks.
    /// - `data`: the data part of prompts.
    pub fn new(
        planner: &'static str,
        deps: &'a LlmDeps,
        request: &'a PlanRequest,
        route: &'a RouteSteps,
        data: PromptData,
    ) -> Self {
        let settings = deps.settings_for(&request.goal.planning);
        let shortlist = ToolShortlist::choose(&request.agents, &request.goal.description, settings.actions_max);
        let actions = shortlist.catalogue();
        let catalogue = planned_rules::catalogue(request);
        let examples = deps.examples.nearest(&request.goal.description, deps.settings.examples_max);
        Self {
            planner,
            deps,
            settings,
            request,
            route,
            data,
            shortlist,
            catalogue,
            actions,
            examples,
            prompt_example: OnceLock::new(),
            frozen: Vec::new(),
            arrived: None,
            holds: false,
        }
    }

    /// The beginning of the plan's provenance: parameters, and what the prompts showed.
    pub fn account(&self) -> Value {
        let LlmSettings { strategy, candidates, review, .. } = &self.settings;
        let limits = &self.request.limits;
        let mut account = json!({"strategy": strategy.as_str(), "actions_left_out": self.shortlist.left_out,
                                 "examples": self.examples.len(), "candidates": candidates, "review": review,
                                 "limits": {"steps": limits.planned_steps_max, "depth": limits.depth_max}});
        let earlier: Vec<&str> = self.examples.iter().map(|example| example.source.as_str()).collect();
        if !earlier.is_empty() {
            account["example_sources"] = json!(earlier);
        }
        if let Some(data) = self.data.account() {
            account["context"] = data;
        }
        account
    }

    /// The stored plans that steps may use.
    fn stored(&self) -> &OfferedPlans {
        &self.request.terms.stored_plans
    }

    /// What is checked: who is there, and that steps look at earlier ones only.
    fn rules(&self) -> Rules<'_> {
        let unknown_agent = if self.request.agents.is_empty() { Weight::Warning } else { Weight::Error };
        let rules = planned_rules::rules(&self.catalogue, self.request);
        Rules { weights: WeightSettings { unknown_agent, ..rules.weights }, in_order: true, ..rules }
    }

    /// Repairs and validates a draft.
    pub fn validate_draft(&self, draft: Value, round: &mut Round) -> (Value, Result<ValidPlan, Vec<Issue>>) {
        // Tool calls add one step after the other: what they leave out is meant to be left out.
        let repair = if self.planner == "tools" { repair } else { repair_list };
        let (limits, rules) = (&self.request.limits, self.rules());
        let repaired = self.stored().repair(draft, |draft| repair(draft, limits, &rules));
        round.repairs.extend(repaired.edits);
        let outcome = repaired.outcome.and_then(|valid| {
            let issues = degenerate_plan::issues(valid.plan(), self.prompt_example());
            if issues.is_empty() { Ok(valid) } else { Err(issues) }
        });
        (repaired.draft, outcome)
    }

    /// What the first prompt shows as an example. The planner `tools` has no examples in its prompt.
    fn prompt_example(&self) -> &PromptExample {
        self.prompt_example.get_or_init(|| {
            let prompt = (self.planner != "tools").then(|| self.first(None).ok()).flatten();
            prompt.as_ref().map(PromptExample::from_prompt).unwrap_or_default()
        })
    }

    /// What becomes of a draft.
    pub fn evaluate_draft(&self, value: Value, round: &mut Round) -> DraftVerdict<ValidDraft> {
        let (begun, repairs) = (Instant::now(), round.repairs.len());
        let (draft, outcome) = self.validate_draft(value, round);
        let ended = match &outcome {
            Ok(_) if round.repairs.len() == repairs => StageOutcome::Ok,
            Ok(_) => StageOutcome::Repaired,
            Err(_) => StageOutcome::Invalid,
        };
        stage::count(self.planner, PlanningStage::Repair, ended, begun.elapsed());
        let valid = match outcome {
            Ok(valid) => valid,
            Err(issues) => return DraftVerdict::Invalid { draft, issues },
        };
        if let Some(issue) = self.thawed(valid.plan()) {
            return DraftVerdict::Invalid { draft, issues: vec![issue] };
        }
        let plan = valid.plan().clone();
        let strategy = self.settings.strategy;
        let valid = valid.with_policies(|plan| super::finish(plan, self.request, strategy));
        match pipeline::route_plan(self.route, valid.clone(), self.request) {
            Ok(routed) => {
                let warnings = degenerate_plan::doubts(&plan, &self.request.goal, self.prompt_example());
                DraftVerdict::Valid(ValidDraft { plan, valid, routed, warnings })
            }
            Err(issues) => DraftVerdict::Invalid { draft, issues },
        }
    }

    /// A step that has begun and is another one in this plan.
    fn thawed(&self, plan: &Plan) -> Option<Issue> {
        let gone = self.frozen.iter().enumerate().find(|(at, step)| plan.steps.get(*at) != Some(step));
        gone.map(|(at, step)| Issue {
            code: "STEP_HAS_BEGUN".into(),
            pointer: format!("/steps/{at}"),
            detail: format!("step `{}` has begun and can neither change nor move", step.id),
            hint: "leave it as it is, and add steps behind it".into(),
        })
    }

    /// What the steps of the plan may be made of.
    pub fn vocabulary(&self) -> PlanVocabulary {
        let is_hierarchical = self.settings.strategy == PlanningStrategy::Hierarchical;
        PlanVocabulary {
            agents: self.shortlist.agents.clone(),
            plans: self.stored().views().cloned().collect(),
            fallbacks: self.request.goal.planning.require_fallbacks,
            parts: is_hierarchical && self.request.limits.depth_max > 0,
            nested: self.request.limits.depth_max > 0,
            features: self.settings.features.clone(),
            output_tokens_max: self.settings.output_tokens_max,
        }
    }

    fn frozen_ids(&self) -> Vec<String> {
        self.frozen.iter().map(|step| step.id.to_string()).collect()
    }

    fn render(&self, template: &str, mut context: Value, note: Option<&str>) -> Result<Prompt, PromptError> {
        context["goal"] = goal_context(&self.request.goal);
        context["note"] = note.into();
        context["today"] = day(self.request.now_ms).into();
        context["strategy"] = self.settings.strategy.as_str().into();
        context["limits"] = super::limits_context(&self.request.limits);
        context["features"] = json!(features::lines(&self.settings.features));
        context["require"] = super::requirements_context(&self.request.goal.planning);
        if template == "plan" {
            let prompt = self.request.goal.planning.prompt.as_deref();
            return self.deps.prompts.render_plan(template, prompt, &context);
        }
        self.deps.prompts.render(template, &context)
    }
}

impl GenerationTask for PlanTask<'_> {
    type Output = ValidDraft;

    fn first(&self, note: Option<&str>) -> Result<Prompt, PromptError> {
        let examples: Vec<Value> = self
            .examples
            .iter()
            .map(|example| json!({"goal": example.goal, "plan": example.plan, "outcome": example.outcome}))
            .collect();
        let context = json!({"agents": self.shortlist.context(), "left_out": self.shortlist.left_out,
                             "stored_plans": self.stored().context(), "examples": examples});
        Ok(self.data.add_to(self.render("plan", context, note)?))
    }

    fn critique(&self, draft: &Value, issues: &[Issue], note: Option<&str>) -> Result<Prompt, PromptError> {
        let Some((at, steps)) = parse_answer::steps(draft) else {
            let context = json!({"whole": true, "wrong": draft.to_string(), "agents": self.shortlist.context(),
                                 "stored_plans": self.stored().context(),
                                 "issues": issues.iter().map(|issue| issue_to_json(issue, &issue.pointer)).collect::<Vec<_>>()});
            return self.render("critique", context, note);
        };
        let is_frozen = |step: &Value| own_id(step).is_some_and(|id| self.frozen.iter().any(|s| s.id.as_str() == id));
        let place = |issue: &Issue| place_of(&issue.pointer, &at).filter(|n| *n < steps.len());
        let mut wrong: Vec<usize> = issues.iter().filter_map(place).filter(|n| !is_frozen(&steps[*n])).collect();
        let is_of_the_whole = issues.iter().any(|issue| place(issue).is_none_or(|n| is_frozen(&steps[n])));
        if is_of_the_whole || wrong.is_empty() {
            wrong = (0..steps.len()).filter(|n| !is_frozen(&steps[*n])).collect();
        }
        wrong.sort_unstable();
        wrong.dedup();
        let others: Vec<String> =
            (0..steps.len()).filter(|n| !wrong.contains(n)).map(|n| in_short(&steps[n])).collect();
        let texts: Vec<String> = wrong.iter().map(|n| cut(&steps[*n].to_string())).collect();
        let issues: Vec<Value> = issues
            .iter()
            .map(|issue| {
                let place = match place(issue) {
                    Some(n) => {
                        format!("step `{}`{}", own_id(&steps[n]).unwrap_or_default(), field(&issue.pointer, &at))
                    }
                    None => "the plan".to_owned(),
                };
                issue_to_json(issue, &place)
            })
            .collect();
        let uses = wrong.iter().any(|n| steps[*n].get("use").is_some());
        let stored = if uses { self.stored().context() } else { Value::Null };
        let context = json!({"whole": false, "wrong": texts.join("\n"), "others": others, "issues": issues,
                             "agents": self.agents_for(&wrong, steps), "stored_plans": stored});
        self.render("critique", context, note)
    }

    fn evaluate_answer(
        &self,
        text: &str,
        is_cut: bool,
        before: Option<&Value>,
        round: &mut Round,
    ) -> DraftVerdict<ValidDraft> {
        let begun = Instant::now();
        let kind = if before.is_some() { DraftKind::Correction } else { DraftKind::Answer };
        let written = parse_answer::parse_plan_answer(text, &self.actions, is_cut, kind);
        self.was_read(&written, begun);
        self.evaluate_parsed(written, before, round)
    }

    fn want(&self, before: Option<&Value>) -> ResponseFormat {
        let vocabulary = self.vocabulary();
        let draft = before.and_then(|draft| Some(parse_answer::steps(draft)?.1.iter().filter_map(known_step)));
        let schema = match draft {
            Some(steps) => vocabulary.correction(steps.collect(), &self.frozen_ids()),
            None => vocabulary.plan_answer_schema(self.request.limits.planned_steps_max),
        };
        ResponseFormat::Json { name: "plan".into(), schema }
    }

    fn may_start_over(&self) -> bool {
        self.frozen.is_empty() && !self.holds
    }
}

impl PlanTask<'_> {
    /// The question whether a plan can reach the goal.
    pub fn review(&self, plan: &Plan) -> Result<Prompt, PromptError> {
        let steps: Vec<Value> = plan.steps.iter().map(|step| json!(step)).collect();
        let all: Vec<usize> = (0..steps.len()).collect();
        let texts: Vec<String> = steps.iter().map(|step| cut(&step.to_string())).collect();
        let context = json!({"agents": self.agents_for(&all, &steps), "steps": texts});
        Ok(self.data.add_to(self.render("review", context, None)?))
    }

    /// Counts the stage of reading.
    pub fn was_read(&self, written: &ParsedAnswer, begun: Instant) {
        stage::count(self.planner, PlanningStage::Read, written.outcome(), begun.elapsed());
    }

    /// What becomes of something that was read.
    pub fn evaluate_parsed(
        &self,
        written: ParsedAnswer,
        before: Option<&Value>,
        round: &mut Round,
    ) -> DraftVerdict<ValidDraft> {
        let (value, reading, edits, removes) = match written {
            ParsedAnswer::Complete { value, reading, edits, removes } => (value, reading, edits, removes),
            ParsedAnswer::Truncated { reading } => {
                round.syntax_repairs = reading.edits;
                let complete = reading.items.len();
                let reason = format!("it was cut after {complete} complete steps; write shorter descriptions");
                return DraftVerdict::Unparseable { reason };
            }
            ParsedAnswer::Unparseable { reason } => return DraftVerdict::Unparseable { reason },
        };
        round.verdict = verdict(&reading);
        round.syntax_repairs = reading.edits;
        round.repairs.extend(edits);
        let value = match before {
            Some(before) => parse_answer::merge(before, &value, &removes, &self.frozen_ids()),
            None => value,
        };
        self.evaluate_draft(value, round)
    }

    /// The agents that the steps to correct speak of, or all when one of them is not known.
    fn agents_for(&self, wrong: &[usize], steps: &[Value]) -> Value {
        let named: Vec<&str> = wrong.iter().filter_map(|n| agent_of(&steps[*n])).collect();
        let is_known = |name: &&str| self.shortlist.agents.iter().any(|agent| agent.agent_type.as_str() == *name);
        if named.len() < wrong.len() || !named.iter().all(is_known) {
            return self.shortlist.context();
        }
        let agents = self.shortlist.agents.iter().filter(|agent| named.contains(&agent.agent_type.as_str())).cloned();
        ToolShortlist { agents: agents.collect(), left_out: 0 }.context()
    }
}

/// Whether valid plans are reviewed. A part of a plan cannot reach the goal.
pub fn is_reviewed(settings: &LlmSettings) -> bool {
    settings.review && settings.strategy != PlanningStrategy::Iterative
}

/// The entry of a reading in the account.
pub fn verdict(reading: &goalmill_reader::Reading) -> String {
    let word = serde_json::to_value(reading.verdict).unwrap_or_default();
    if let Value::String(word) = word { word } else { word.to_string() }
}

/// The step that a pointer leads into.
fn place_of(pointer: &str, steps: &str) -> Option<usize> {
    let rest = pointer.strip_prefix(steps).or_else(|| pointer.strip_prefix("/steps"))?.strip_prefix('/')?;
    rest.split('/').next()?.parse().ok()
}

/// What of a step a pointer leads to, in words.
fn field(pointer: &str, steps: &str) -> String {
    let rest = pointer.strip_prefix(steps).or_else(|| pointer.strip_prefix("/steps")).unwrap_or_default();
    match rest.splitn(3, '/').nth(2) {
        Some(field) if !field.is_empty() => format!(", `{}`", field.replace('/', ".")),
        _ => String::new(),
    }
}

fn issue_to_json(issue: &Issue, place: &str) -> Value {
    json!({"place": if place.is_empty() { "the plan" } else { place }, "detail": issue.detail, "hint": issue.hint})
}

fn agent_of(step: &Value) -> Option<&str> {
    step.get("agent_type").or_else(|| step.get("agent")).and_then(Value::as_str)
}

fn in_short(step: &Value) -> String {
    let text = |name: &str| step.get(name).and_then(Value::as_str).unwrap_or_default();
    let id = own_id(step).unwrap_or_default();
    match text("use") {
        "" => format!("{id}: {}, {}", agent_of(step).unwrap_or_default(), text("action")),
        plan => format!("{id}: stored plan {plan}"),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(STEP_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// What a step of a draft says of itself.
fn known_step(step: &Value) -> Option<KnownStep> {
    let text = |name: &str| step.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_map = step.get("for_each").is_some_and(|list| !list.is_null());
    Some(KnownStep { id: own_id(step)?, agent_type: text("agent_type"), action: text("action"), is_map })
}
