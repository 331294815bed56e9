//! Planners in any language: an agent whose card says `plans: true` gets the goal, the catalogue and the limits as a
//! task, and answers with a document, which is read, repaired, validated and criticised like the draft of a model.

use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::command::{Planned, Proposal};
use goalmill_common::goal::{Budget, Goal, Usage};
use goalmill_common::id::{AgentType, PlanId};
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_formats::DraftKind;
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{Rules, Weight, WeightSettings};
use serde_json::{Value, json};

use crate::llm::ToolShortlist;
use crate::llm::parse_answer::{self, ParsedAnswer};
use crate::llm::{finish, needs_changes};
use crate::parse_proposal::parse_proposal;
use crate::repair::{Edit, repair_list};
use crate::replan_context::ReplanContext;
use crate::{CallLog, OfferedPlans, PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest, planned_rules};

/// What the names of these planners begin with, in `planner.order`.
pub const AGENT_PREFIX: &str = "agent:";
/// How often one agent is asked for one plan or revision.
const ROUNDS_MAX: usize = 3;
/// Confidence of a plan that does not say its own.
const CONFIDENCE: f64 = 0.6;

/// A question to a planning agent.
#[derive(Clone, Debug)]
pub struct PlanningQuestion {
    pub agent_type: AgentType,
    /// `plan` or `revise`.
    pub action: &'static str,
    pub inputs: Value,
    /// The plan that is planned; none for a preview.
    pub plan: Option<PlanId>,
    pub goal: Goal,
    /// What the answer may use up.
    pub budget: Budget,
}

/// The answer of a planning agent.
#[derive(Clone, Debug)]
pub struct PlanningReply {
    pub outputs: Result<Json, String>,
    pub usage: Usage,
    /// The plan in which the agent worked, if it began.
    pub plan: Option<PlanId>,
}

/// How planning agents are asked: as a step, with its retries, time limit and recorded calls.
#[async_trait]
pub trait PlanningAgents: Send + Sync {
    /// Waits for the outputs of an agent. May be asked again with the same question by another scheduler, and gives the
    /// same answer then.
    async fn ask(&self, question: PlanningQuestion) -> PlanningReply;
}

/// Asks one planning agent.
pub struct AgentPlanner {
    /// `agent:my_planner`.
    name: &'static str,
    agent_type: AgentType,
    agents: Arc<dyn PlanningAgents>,
}

/// The rounds of one question, for the provenance of its answer.
#[derive(Default)]
struct PlanningRounds {
    entries: Vec<Value>,
    usage: Usage,
}

impl AgentPlanner {
    /// - `name`: from the settings, with [`AGENT_PREFIX`]; it is kept until the process ends.
    pub fn new(name: &str, agents: Arc<dyn PlanningAgents>) -> Option<Self> {
        let agent_type = name.strip_prefix(AGENT_PREFIX).filter(|agent| goalmill_common::id::is_id(agent))?.into();
        Some(Self { name: String::from(name).leak(), agent_type, agents })
    }

    /// Asks once and records the call.
    async fn ask(
        &self,
        action: &'static str,
        inputs: Value,
        (goal, left): (&Goal, &Budget),
        call_log: &CallLog,
        rounds: &mut PlanningRounds,
    ) -> Result<Json, PlanningError> {
        let Some(call) = call_log.begin_agent(self.name, action).await else {
            return Err(PlanningError::new("nobody waits for the plan any more"));
        };
        let question = PlanningQuestion {
            agent_type: self.agent_type.clone(),
            action,
            inputs,
            plan: call_log.plan().cloned(),
            goal: goal.clone(),
            budget: left_after(left, &rounds.usage),
        };
        let reply = self.agents.ask(question).await;
        let error = reply.outputs.as_ref().err().cloned().unwrap_or_default();
        call_log.end_agent(self.name, call, reply.usage, error.clone()).await;
        rounds.usage.add(reply.usage.cost, reply.usage.tokens);
        rounds.entries.push(json!({"plan": reply.plan, "usage": reply.usage}));
        reply.outputs.map_err(|reason| self.failed(reason, Vec::new(), rounds))
    }

    fn failed(&self, reason: String, issues: Vec<Issue>, rounds: &PlanningRounds) -> PlanningError {
        let is_invalid = !issues.is_empty();
        PlanningError { reason, issues, provenance: Some(self.provenance(rounds)), is_invalid }
    }

    fn provenance(&self, rounds: &PlanningRounds) -> Json {
        Json::from_value(&json!({"planner": self.name, "rounds": rounds.entries, "usage": rounds.usage}))
    }

    /// The provenance of an answer that is taken after the last round.
    fn accept(&self, repairs: &[Edit], rounds: &mut PlanningRounds) -> Json {
        if let Some(last) = rounds.entries.last_mut() {
            last["repairs"] = json!(repairs);
        }
        self.provenance(rounds)
    }
}

#[async_trait]
impl Planner for AgentPlanner {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        let mut inputs = json!({
            "goal": request.goal,
            "agents": request.agents,
            "limits": limits_of(&request.limits),
            "now_ms": request.now_ms,
        });
        offer_plans(&mut inputs, &request.terms.stored_plans);
        // An answer does not depend on the time at which it is asked for again.
        if request.call_log.plan().is_some() {
            inputs["now_ms"] = Value::Null;
        }
        let left = request.call_log.left_of(&request.goal.budget);
        let mut rounds = PlanningRounds::default();
        let mut issues = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let asked = self.ask("plan", inputs.clone(), (&request.goal, &left), &request.call_log, &mut rounds);
            let outputs = asked.await?;
            let mut repairs = Vec::new();
            match draft_of(&outputs, request, &mut repairs) {
                Ok(valid) => {
                    let strategy = request.goal.planning.strategy.unwrap_or_default();
                    let confidence = valid.plan().confidence.unwrap_or(CONFIDENCE);
                    let plan = valid.with_policies(|plan| finish(plan, request, strategy));
                    let planned = Planned {
                        plan: plan.plan().clone(),
                        planner: self.name.into(),
                        confidence,
                        provenance: Some(self.accept(&repairs, &mut rounds)),
                        warnings: Vec::new(),
                        routes: Vec::new(),
                        goal: None,
                    };
                    return Ok(PlannerAnswer { plan, routed: None, planned });
                }
                Err((draft, found)) => {
                    criticise(&mut inputs, &mut rounds, draft, &found);
                    issues = found;
                }
            }
        }
        Err(self.failed(crate::NOT_VALID.into(), issues, &rounds))
    }

    async fn revise(&self, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        let situation = &request.situation;
        let mut inputs = json!({
            "situation": situation,
            "agents": request.agents,
            "limits": limits_of(&request.limits),
        });
        offer_plans(&mut inputs, &request.terms.stored_plans);
        let replan = ReplanContext::new(request);
        let actions = ToolShortlist { agents: request.agents.clone(), left_out: 0 }.catalogue();
        let mut rounds = PlanningRounds::default();
        let mut issues = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let (goal, left) = (&situation.goal, &situation.left);
            let outputs = self.ask("revise", inputs.clone(), (goal, left), &request.call_log, &mut rounds).await?;
            let mut repairs = Vec::new();
            let parsed = match parse_answer::value(&text_of(&outputs), &actions, false) {
                ParsedAnswer::Complete { value, .. } => parse_proposal(&value, &replan, &actions, &mut repairs),
                ParsedAnswer::Truncated { .. } => Err((outputs.value(), vec![truncated()])),
                ParsedAnswer::Unparseable { reason } => Err((outputs.value(), vec![unreadable(&reason)])),
            };
            match parsed {
                Ok(proposal) if proposal.changes.is_empty() && needs_changes(proposal.strategy) => {
                    let reason = "the agent sees nothing to change".to_owned();
                    return Err(self.failed(reason, Vec::new(), &rounds));
                }
                Ok(mut proposal) => {
                    if !request.call_log.is_written() {
                        proposal.usage = rounds.usage;
                    }
                    proposal.provenance = Some(self.accept(&repairs, &mut rounds));
                    proposal.planner = self.name.into();
                    return Ok(proposal);
                }
                Err((draft, found)) => {
                    criticise(&mut inputs, &mut rounds, draft, &found);
                    issues = found;
                }
            }
        }
        Err(self.failed(crate::NOT_VALID.into(), issues, &rounds))
    }
}

/// Reads, repairs and validates an answer; else the draft and what is wrong with it.
fn draft_of(outputs: &Json, request: &PlanRequest, repairs: &mut Vec<Edit>) -> Result<ValidPlan, (Value, Vec<Issue>)> {
    let actions = ToolShortlist { agents: request.agents.clone(), left_out: 0 }.catalogue();
    match parse_answer::parse_plan_answer(&text_of(outputs), &actions, false, DraftKind::Answer) {
        ParsedAnswer::Complete { value, edits, .. } => {
            let catalogue = planned_rules::catalogue(request);
            let rules = planned_rules::rules(&catalogue, request);
            let unknown_agent = if request.agents.is_empty() { Weight::Warning } else { Weight::Error };
            let weights = WeightSettings { unknown_agent, ..rules.weights };
            let rules = Rules { weights, in_order: true, ..rules };
            let stored = &request.terms.stored_plans;
            let repaired = stored.repair(value, |draft| repair_list(draft, &request.limits, &rules));
            repairs.extend(edits.into_iter().chain(repaired.edits));
            repaired.outcome.map_err(|issues| (repaired.draft, issues))
        }
        ParsedAnswer::Truncated { .. } => Err((outputs.value(), vec![truncated()])),
        ParsedAnswer::Unparseable { reason } => Err((outputs.value(), vec![unreadable(&reason)])),
    }
}

/// The answer as text: an agent may give the text of a model as it is.
fn text_of(outputs: &Json) -> String {
    match outputs.value() {
        Value::String(text) => text,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            outputs.text().to_owned()
        }
    }
}

fn truncated() -> Issue {
    Issue {
        code: "TRUNCATED".into(),
        hint: "answer with a shorter document".into(),
        ..unreadable("the answer ends in the middle")
    }
}

fn unreadable(reason: &str) -> Issue {
    Issue {
        code: "UNPARSEABLE".into(),
        pointer: String::new(),
        detail: reason.into(),
        hint: "answer with the document of a plan, or with the changes of a revision".into(),
    }
}

/// Names the stored plans that steps may use, if there are any.
fn offer_plans(inputs: &mut Value, stored: &OfferedPlans) {
    if stored.views().next().is_some() {
        inputs["stored_plans"] = stored.context();
    }
}

/// Adds the draft and its issues to the next question.
fn criticise(inputs: &mut Value, rounds: &mut PlanningRounds, draft: Value, issues: &[Issue]) {
    if let Some(last) = rounds.entries.last_mut() {
        last["issues"] = json!(issues);
    }
    inputs["draft"] = draft;
    inputs["issues"] = json!(issues);
}

fn limits_of(limits: &Limits) -> Value {
    json!({"steps_max": limits.planned_steps_max, "depth_max": limits.depth_max})
}

fn left_after(left: &Budget, spent: &Usage) -> Budget {
    Budget {
        tokens: left.tokens.map(|tokens| tokens.saturating_sub(spent.tokens)),
        cost: left.cost.map(|cost| (cost - spent.cost).max(0.0)),
        ..*left
    }
}

/// Agents that steps may name: those that only plan are left out.
pub fn working_agents(agents: &[Agent]) -> Vec<Agent> {
    agents.iter().filter(|agent| !agent.plans).cloned().collect()
}
