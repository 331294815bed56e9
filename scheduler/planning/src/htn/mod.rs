//! The HTN planner: decomposes goals by hierarchical task networks (HDDL domains), deterministically.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use goalmill_common::command::Planned;
use goalmill_common::config::PlannerSettings;
use goalmill_common::json::Json;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_common::view::RuleView;
use goalmill_htn::{PlanningProblem, SearchLimits, SearchOutcome, Solution, dependencies, solve};
use serde_json::{Map, Value, json};

use super::extraction::GoalFacts;
use super::rules::{TemplateRenderer, words};
use super::{LoadError, PlanRequest, Planner, PlannerAnswer, PlanningError};

mod domain;
mod load;
mod problem;
mod steps;
#[cfg(test)]
mod tests;

use domain::GoalDomain;

type Values = Map<String, Value>;

/// Methods of a plan that the provenance lists at most.
const TRACE_MAX: usize = 500;

/// The planner of the settings.
pub(crate) fn planner(settings: &PlannerSettings) -> Result<Arc<dyn Planner>, String> {
    Ok(Arc::new(HtnPlanner::from_settings(settings).map_err(|error| error.to_string())?))
}

/// Makes plans by decomposing tasks.
#[derive(Clone, Debug)]
pub struct HtnPlanner {
    domains: Arc<Vec<GoalDomain>>,
    limits: SearchLimits,
}

impl HtnPlanner {
    /// With the shipped domains, or those of `planner.domains_dir`.
    pub fn from_settings(settings: &PlannerSettings) -> Result<Self, LoadError> {
        let domains = match settings.domains_dir.as_str() {
            "" => load::built_in(),
            dir => load::from_dir(Path::new(dir))?,
        };
        let limits =
            SearchLimits { nodes_max: settings.htn_nodes_max, seed: settings.htn_seed, ..SearchLimits::default() };
        Ok(Self { domains: Arc::new(domains), limits })
    }

    /// - `stop`: whether the answer is no longer awaited.
    fn search_plan(&self, request: &PlanRequest, stop: &mut dyn FnMut() -> bool) -> Result<Planned, PlanningError> {
        if request.revision > 0 {
            return Err(PlanningError::new("domains make first plans only, no revisions"));
        }
        let read = GoalFacts::from_goal(&request.goal, request.now_ms);
        let said = read.known();
        let domain = self.domain(request, &read, &said).ok_or_else(|| PlanningError::new("no domain matched"))?;
        let (facts, assumed) = with_defaults(domain, &said)?;
        let broken = |reason: String| PlanningError::new(format!("domain `{}`: {reason}", domain.id));
        let posed = problem::pose(domain, &facts).map_err(broken)?;
        let (solution, nodes) = self.search(domain, &posed.problem, stop).map_err(broken)?;
        let found = dependencies(&domain.parsed, &posed.problem, &solution);
        let steps = steps::steps(domain, &facts, &posed.values, &solution, &found).map_err(broken)?;
        if steps.is_empty() {
            return Err(broken("there is nothing to do".into()));
        }
        if steps.len() > request.limits.planned_steps_max {
            let (steps, max) = (steps.len(), request.limits.planned_steps_max);
            return Err(broken(format!("its plan has {steps} steps; `limits.planned_steps_max` allows {max}")));
        }
        let account = json!({
            "domain": domain.id, "version": domain.version, "goal_type": domain.goal_type, "facts": said,
            "assumed": assumed, "seed": self.limits.seed, "nodes": nodes, "methods": trace(&solution),
            "links": found.links.len(),
        });
        let render = TemplateRenderer::new(&facts);
        let success = match request.goal.success_criteria.as_slice() {
            [] => domain.success.iter().filter_map(|l| render.line(l).transpose()).collect::<Result<_, _>>(),
            own => Ok(own.iter().map(|criterion| criterion.text().to_owned()).collect::<Vec<String>>()),
        };
        let plan = Plan {
            name: render.line(&request.goal.description).ok().flatten().unwrap_or_default().chars().take(80).collect(),
            max_parallel: domain.max_parallel,
            budget: request.goal.budget,
            steps,
            metadata: Map::from_iter([
                ("goal_type".to_owned(), domain.goal_type.clone().into()),
                ("facts".to_owned(), Value::Object(said)),
                ("success_criteria".to_owned(), success.map_err(broken)?.into()),
            ]),
            ..Plan::default()
        };
        Ok(Planned {
            plan,
            planner: "htn".into(),
            confidence: domain.confidence,
            provenance: Some(Json::from_value(&account)),
            warnings: assumed.iter().map(|(name, value)| assumption(name, value)).chain(read.issues()).collect(),
            routes: Vec::new(),
            goal: None,
        })
    }

    /// A solution, and how many nodes were searched.
    fn search(
        &self,
        domain: &GoalDomain,
        problem: &PlanningProblem,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(Solution, u64), String> {
        match solve(&domain.parsed, problem, self.limits, stop) {
            SearchOutcome::Solved { solution, nodes } => Ok((solution, nodes)),
            SearchOutcome::Exhausted { nodes } => Err(format!("there is no way to do it; {nodes} nodes were searched")),
            SearchOutcome::GaveUp { nodes } => {
                Err(format!("no plan was found in {nodes} nodes; raise `planner.htn_nodes_max`"))
            }
            SearchOutcome::Unsupported { reason } => Err(reason),
        }
    }

    /// The domain that the goal calls for most.
    fn domain(&self, request: &PlanRequest, read: &GoalFacts, said: &Map<String, Value>) -> Option<&GoalDomain> {
        let words = words(&request.goal.description);
        let named = |d: &GoalDomain| request.goal.is_of_type(&d.goal_type);
        let scored = self
            .domains
            .iter()
            .map(|d| (if named(d) { f64::INFINITY } else { d.matching.sum(&words, &read.request, said) }, d));
        scored
            .filter(|(score, d)| *score >= d.matching.score)
            .max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| second.id.cmp(&first.id)))
            .map(|(_, d)| d)
    }
}

#[async_trait]
impl Planner for HtnPlanner {
    fn name(&self) -> &'static str {
        "htn"
    }

    fn rules(&self) -> Vec<RuleView> {
        self.domains.iter().map(GoalDomain::view).collect()
    }

    fn sees_results(&self) -> bool {
        false
    }

    /// Searches on a thread of its own, which ends when the answer is no longer awaited.
    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        let awaited = Awaited(Arc::new(AtomicBool::new(true)));
        let (planner, wanted, flag) = (self.clone(), request.clone(), awaited.0.clone());
        let search =
            tokio::task::spawn_blocking(move || planner.search_plan(&wanted, &mut || !flag.load(Ordering::Relaxed)));
        let answer = search.await;
        drop(awaited);
        let answer =
            answer.unwrap_or_else(|e| Err(PlanningError::new(format!("the search ended without an answer: {e}"))));
        PlannerAnswer::validate(answer?, request)
    }
}

/// Ends the search when it is dropped, also with the future that holds it.
struct Awaited(Arc<AtomicBool>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Adds what is taken for granted; refuses when something required is not said.
fn with_defaults(domain: &GoalDomain, said: &Values) -> Result<(Values, Values), PlanningError> {
    let (mut facts, mut assumed, mut issues) = (said.clone(), Map::new(), Vec::new());
    for (name, want) in domain.facts.iter().filter(|(name, _)| !said.contains_key(*name)) {
        if let Some(value) = &want.default {
            facts.insert(name.clone(), value.clone());
            assumed.insert(name.clone(), value.clone());
        } else if want.required {
            issues.push(Issue {
                code: "FACT_MISSING".into(),
                pointer: format!("/constraints/{name}"),
                detail: format!("the goal does not say `{name}`: {}", want.question),
                hint: format!("say it, or add `{name}` to the constraints"),
            });
        }
    }
    if issues.is_empty() {
        Ok((facts, assumed))
    } else {
        let error = PlanningError::new(format!("domain `{}` wants to know more", domain.id));
        Err(PlanningError { issues, ..error })
    }
}

fn assumption(name: &str, value: &Value) -> Issue {
    Issue {
        code: "FACT_ASSUMED".into(),
        pointer: format!("/constraints/{name}"),
        detail: format!("the goal does not say `{name}`; taken: `{value}`"),
        hint: format!("say it, or add `{name}` to the constraints"),
    }
}

/// Which method was taken for which task, in the order of taking.
fn trace(solution: &Solution) -> Vec<Value> {
    let taken = solution.events.iter().map(|n| &solution.nodes[*n]);
    taken
        .filter_map(|node| Some(json!({"task": node.words(), "method": node.method.as_ref()?.name})))
        .take(TRACE_MAX)
        .collect()
}
