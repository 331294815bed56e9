//! The rules planner: goal patterns select plan templates. It needs no model and no network.

use std::path::Path;

use async_trait::async_trait;
use goalmill_common::command::{Planned, Proposal};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_common::view::RuleView;
use serde_json::{Map, Value, json};

use super::extraction::GoalFacts;
use super::{LoadError, PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest, revise};

mod cases;
mod load;
mod phrase;
pub(crate) mod render;
pub(crate) mod rule;
#[cfg(test)]
mod tests;
mod unfold;

pub use cases::{CASES_BYTES_MAX, CaseFailure, CaseReport, CasesError, RuleCases};
pub use phrase::Phrase;
pub use rule::{Match, Rule, Signal, Want};

pub(crate) use phrase::words;
pub(crate) use render::TemplateRenderer;
pub use render::literal;

/// Most steps in flight, of a plan whose rule names no number.
const MAX_PARALLEL: u32 = 3;

/// Makes plans from rules.
#[derive(Clone, Debug)]
pub struct RulesPlanner {
    rules: Vec<Rule>,
}

/// A rule that recognises a goal, and how well it fits.
#[derive(Clone, Debug)]
struct Candidate<'a> {
    rule: &'a Rule,
    /// The sum of the signals; infinite when the goal names the type.
    score: f64,
    /// Facts that it cannot do without and that the goal does not say.
    missing: Vec<&'a str>,
}

impl RulesPlanner {
    /// With the shipped rules.
    pub fn built_in() -> Self {
        Self { rules: load::built_in() }
    }

    /// With the rules of `planner.rules_dir`; the shipped ones when it is empty.
    pub fn from_setting(rules_dir: &str) -> Result<Self, LoadError> {
        if rules_dir.is_empty() { Ok(Self::built_in()) } else { Self::from_dir(Path::new(rules_dir)) }
    }

    /// With the rules of a directory.
    pub fn from_dir(dir: &Path) -> Result<Self, LoadError> {
        load::from_dir(dir).map(|rules| Self { rules })
    }

    fn plan_by_rules(&self, request: &PlanRequest) -> Result<Planned, PlanningError> {
        if request.revision > 0 {
            return Err(PlanningError::new("rules make first plans only, no revisions"));
        }
        let read = GoalFacts::from_goal(&request.goal, request.now_ms);
        let candidates = self.candidates(request, &read);
        let rule = self.best(&candidates).filter(|rule| rule.matching.is_some() || !request.is_part);
        let rule = rule.ok_or_else(|| PlanningError::new("no rule matched"))?;
        let mut planned = write(rule, &candidates, request, &read)?;
        planned.warnings.extend(read.issues());
        Ok(planned)
    }

    /// The rule that makes the plan of a goal.
    fn choose(&self, request: &PlanRequest) -> Option<&Rule> {
        self.best(&self.candidates(request, &GoalFacts::from_goal(&request.goal, request.now_ms)))
    }

    /// The best candidate that misses no fact, or the rule for goals that no other rule takes.
    fn best<'a>(&'a self, candidates: &[Candidate<'a>]) -> Option<&'a Rule> {
        let fitting = candidates.iter().find(|candidate| candidate.missing.is_empty()).map(|candidate| candidate.rule);
        fitting.or_else(|| self.rules.iter().find(|rule| rule.matching.is_none()))
    }

    /// The rules that recognise the goal, best first.
    fn candidates(&self, request: &PlanRequest, read: &GoalFacts) -> Vec<Candidate<'_>> {
        let known = read.known();
        let words = words(&request.goal.description);
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for rule in &self.rules {
            let Some(matching) = &rule.matching else { continue };
            let is_named = request.goal.is_of_type(&rule.goal_type);
            let score = if is_named { f64::INFINITY } else { matching.sum(&words, &read.request, &known) };
            let missing = rule.facts.iter().filter(|(name, want)| want.required && !known.contains_key(*name));
            if score >= matching.score {
                candidates.push(Candidate { rule, score, missing: missing.map(|(name, _)| name.as_str()).collect() });
            }
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.rule.id.cmp(&b.rule.id)));
        candidates
    }
}

#[async_trait]
impl Planner for RulesPlanner {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn rules(&self) -> Vec<RuleView> {
        self.rules.iter().map(Rule::view).collect()
    }

    fn sees_results(&self) -> bool {
        false
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        PlannerAnswer::validate(self.plan_by_rules(request)?, request)
    }

    async fn revise(&self, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        revise::revise(request, || self.plan_by_rules(&request.whole_plan()).ok().map(|planned| planned.plan))
    }
}

/// Writes the rule's plan with the goal's facts.
///
/// - `candidates`: the rules that recognise the goal, best first.
fn write(
    rule: &Rule,
    candidates: &[Candidate<'_>],
    request: &PlanRequest,
    read: &GoalFacts,
) -> Result<Planned, PlanningError> {
    let broken = |reason: String| PlanningError::new(format!("rule `{}`: {reason}", rule.id));
    let found = read.by_name();
    let mut known = with_aliases(read);
    let assumed = assume_defaults(rule, &mut known);
    known.insert(
        "goal".into(),
        json!({"description": request.goal.description, "constraints": request.goal.constraints}),
    );
    let success = success(rule, request, read, &TemplateRenderer::new(&known)).map_err(broken)?;
    let rendered = unfold::unfold(rule, &known, request.limits.planned_steps_max).map_err(broken)?;
    let mut plan: Plan = serde_json::from_value(rendered).map_err(|e| broken(e.to_string()))?;
    let stood_in = stand_in(rule, request, &mut plan);
    let (steps, max) = (plan.steps.len(), request.limits.planned_steps_max);
    if steps > max {
        return Err(broken(format!("its plan has {steps} steps; `limits.planned_steps_max` allows {max}")));
    }
    plan.max_parallel = plan.max_parallel.or(Some(MAX_PARALLEL));
    plan.budget = request.goal.budget;
    let questions = questions(rule, candidates, &known);
    plan.metadata = Map::from_iter([
        ("goal_type".to_owned(), rule.goal_type.clone().into()),
        ("facts".to_owned(), Value::Object(found.clone())),
    ]);
    let (lines, checks): (Vec<String>, Vec<Option<String>>) = success.into_iter().unzip();
    if checks.iter().any(Option::is_some) {
        plan.metadata.insert("success_checks".to_owned(), json!(checks));
    }
    plan.metadata.insert("success_criteria".to_owned(), lines.into());
    let mut account = json!({
        "rule": rule.id, "version": rule.version, "goal_type": rule.goal_type, "considered": considered(candidates),
        "facts": found, "assumed": assumed, "missing": questions, "stood_in": stood_in,
    });
    let guessed = guessed(rule, request, &found);
    if !guessed.is_empty() {
        account["guessed"] = guessed.keys().cloned().collect();
    }
    if !rule.warning.is_empty() {
        account["note"] = rule.warning.clone().into();
    }
    Ok(Planned {
        plan,
        planner: "rules".into(),
        confidence: confidence(rule, read, &guessed),
        provenance: Some(Json::from_value(&account)),
        warnings: warnings(rule, &assumed, &questions).into_iter().chain(guessed.iter().map(guess)).collect(),
        routes: Vec::new(),
        goal: None,
    })
}

/// Adds the defaults of the rule for facts that are not known; returns them.
fn assume_defaults(rule: &Rule, known: &mut Map<String, Value>) -> Map<String, Value> {
    let mut assumed = Map::new();
    for (name, want) in &rule.facts {
        if let (false, Some(value)) = (known.contains_key(name), &want.default) {
            known.insert(name.clone(), value.clone());
            assumed.insert(name.clone(), value.clone());
        }
    }
    assumed
}

/// The candidates with their scores, for the provenance.
fn considered(candidates: &[Candidate<'_>]) -> Vec<Value> {
    let one = |c: &Candidate<'_>| json!({"rule": c.rule.id, "score": finite(c.score), "missing": c.missing});
    candidates.iter().map(one).collect()
}

/// Taken off the confidence when a part of the goal was not understood.
const UNREAD_MALUS: f64 = 0.1;

/// Highest confidence of a plan that rests on a guess.
pub(crate) const GUESS_CONFIDENCE_MAX: f64 = 0.3;
/// The warning for a fact of the text that is a guess.
pub(crate) const FACT_GUESSED: &str = "FACT_GUESSED";

/// The rule's confidence, less when a part of the goal was not understood. The generic plan promises nothing anyway.
fn confidence(rule: &Rule, read: &GoalFacts, guessed: &Map<String, Value>) -> f64 {
    let is_certain = read.unread.is_empty() || rule.matching.is_none();
    let said = if is_certain { rule.confidence } else { (rule.confidence - UNREAD_MALUS).max(0.0) };
    if rule.matching.is_some() && guessed.is_empty() { said } else { said.min(GUESS_CONFIDENCE_MAX) }
}

/// Facts that were interpreted from the text and that neither a constraint of the goal nor the rule asks for. Places stand
/// in the goal as they are.
fn guessed(rule: &Rule, request: &PlanRequest, found: &Map<String, Value>) -> Map<String, Value> {
    let stated = GoalFacts::stated(&request.goal, request.now_ms);
    let is_guess = |name: &str| {
        let is_interpreted = INTERPRETED.contains(&name);
        is_interpreted && !stated.contains_key(name) && !rule.asks_for(name)
    };
    found.iter().filter(|(name, _)| is_guess(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Facts whose meaning is more than their words.
const INTERPRETED: [&str; 4] = ["budget", "duration", "month", "travellers"];

fn guess((name, value): (&String, &Value)) -> Issue {
    Issue {
        code: FACT_GUESSED.into(),
        pointer: format!("/constraints/{name}"),
        detail: format!("`{name}` was read in the text only: `{}`", short(value)),
        hint: format!("state `{name}` in the constraints if it is meant"),
    }
}

/// The facts and constraints, and what templates know besides: `place`, `people`, `subject`, `requirements`.
fn with_aliases(read: &GoalFacts) -> Map<String, Value> {
    let mut known = read.known();
    for (name, other) in [("place", "destination"), ("people", "travellers")] {
        if let (false, Some(value)) = (known.contains_key(name), known.get(other).cloned()) {
            known.insert(name.into(), value);
        }
    }
    let requirements = read.requirements();
    if !requirements.is_empty() {
        known.insert("requirements".into(), Value::Object(requirements));
    }
    if let Some(subject) = &read.subject {
        known.insert("subject".into(), subject.clone().into());
    }
    known
}

/// How to know that the goal is reached, in words, each with an expression over outputs where the rule has one.
type Success = Vec<(String, Option<String>)>;

/// The caller's criteria, else the rule's and those that the goal's text sets.
fn success(rule: &Rule, request: &PlanRequest, read: &GoalFacts, render: &TemplateRenderer) -> Result<Success, String> {
    if !request.goal.success_criteria.is_empty() {
        let own = request.goal.success_criteria.iter();
        return Ok(own.map(|criterion| (criterion.text().to_owned(), None)).collect());
    }
    let mut lines = Success::new();
    for line in &rule.success {
        let Some(text) = render.line(line.text())? else { continue };
        let check = line.check().map(|check| render.line(check)).transpose()?.flatten();
        lines.push((text, check));
    }
    // A rule that has a line for the budget counts its parts.
    let has_total = lines.iter().any(|(line, _)| line.starts_with("total"));
    lines.extend(read.criterion().filter(|_| !has_total).map(|line| (line, None)));
    Ok(lines)
}

/// Gives steps that no worker serves to the rule's stand-in, if that one is served; tells which.
///
/// A stand-in that does not know the action gets it in words, as the input `task`.
fn stand_in(rule: &Rule, request: &PlanRequest, plan: &mut Plan) -> Map<String, Value> {
    let served = |name: &AgentType| request.agents.iter().find(|agent| agent.agent_type == *name);
    let Some(agent) = rule.stand_in.as_ref().and_then(served) else { return Map::new() };
    let mut stood_in = Map::new();
    for step in &mut plan.steps {
        if step.kind.is_inline() || step.agent_type.is_open() || served(&step.agent_type).is_some() {
            continue;
        }
        stood_in.insert(step.id.to_string(), step.agent_type.to_string().into());
        step.agent_type = agent.agent_type.clone();
        if agent.actions.iter().all(|action| action.name != step.action) {
            step.action = agent.actions.first().map(|action| action.name.clone()).unwrap_or_default();
            step.inputs = with_task(&step.inputs, &step.description);
        }
    }
    stood_in
}

fn with_task(inputs: &Json, task: &str) -> Json {
    let Value::Object(mut fields) = inputs.value() else { return inputs.clone() };
    fields.entry("task").or_insert_with(|| render::escape(task).into());
    Json::from_value(&fields)
}

/// What to ask the caller: the wants of this rule and of those that would have fitted better.
fn questions(rule: &Rule, candidates: &[Candidate<'_>], known: &Map<String, Value>) -> Map<String, Value> {
    let better = candidates.iter().take_while(|c| c.rule.id != rule.id).map(|c| c.rule);
    let wants = better.chain([rule]).flat_map(|r| &r.facts);
    wants
        .filter(|(name, _)| !known.contains_key(*name))
        .map(|(name, want)| (name.clone(), want.question.clone().into()))
        .collect()
}

fn warnings(rule: &Rule, assumed: &Map<String, Value>, questions: &Map<String, Value>) -> Vec<Issue> {
    let issue =
        |code: &str, pointer: String, detail: String, hint: String| Issue { code: code.into(), pointer, detail, hint };
    let note =
        (!rule.warning.is_empty()).then(|| issue("GENERIC_PLAN", String::new(), rule.warning.clone(), String::new()));
    let assumed = assumed.iter().map(|(name, value)| {
        let detail = format!("the goal does not say `{name}`; taken: `{}`", short(value));
        issue(
            "FACT_ASSUMED",
            format!("/constraints/{name}"),
            detail,
            format!("say it, or add `{name}` to the constraints"),
        )
    });
    let missing = questions.iter().map(|(name, question)| {
        let detail = format!("the goal does not say `{name}`: {}", question.as_str().unwrap_or_default());
        issue(
            "FACT_MISSING",
            format!("/constraints/{name}"),
            detail,
            format!("say it, or add `{name}` to the constraints"),
        )
    });
    note.into_iter().chain(missing).chain(assumed).collect()
}

fn short(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A score as JSON; the goal's own type has no number.
fn finite(score: f64) -> Value {
    if score.is_finite() { json!(score) } else { json!("named by the goal") }
}
