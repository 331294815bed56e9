//! Asks planning agents: each question is a plan of one step, which is dispatched, retried, limited and recorded like any
//! other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_broker::Broker;
use goalmill_common::clock::Clock;
use goalmill_common::command::fingerprint;
use goalmill_common::config::Settings;
use goalmill_common::goal::Usage;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::random::Random;
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::{Submission, SubmissionAnswer, SubmissionKind};
use goalmill_planning::agent_planner::{PlanningAgents, PlanningQuestion, PlanningReply};
use serde_json::{Map, Value, json};

use crate::agent_directory::Directory;
use crate::event_log::read_plan_state;
use crate::plan_reader;

/// The step of the plan.
const STEP: &str = "plan";
/// CloudEvents `source` of the submission.
const SOURCE: &str = "urn:goalmill:planner";
/// Interval of looking for the answer, at first and at most.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Plans of one step for planning agents.
pub(crate) struct PlanningSteps {
    broker: Arc<dyn Broker>,
    directory: Arc<Directory>,
    random: Random,
    clock: Clock,
    /// For one planner, in milliseconds.
    timeout_ms: u64,
}

/// Why there are no outputs.
struct Unanswered {
    reason: String,
    plan: Option<PlanId>,
    usage: Usage,
}

impl Unanswered {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), plan: None, usage: Usage::default() }
    }
}

impl PlanningSteps {
    pub(crate) fn new(
        settings: &Settings,
        broker: &Arc<dyn Broker>,
        directory: &Arc<Directory>,
        clock: &Clock,
        random: &Random,
    ) -> Self {
        Self {
            broker: broker.clone(),
            directory: directory.clone(),
            random: random.clone(),
            clock: clock.clone(),
            timeout_ms: settings.planner.timeout_ms,
        }
    }

    /// Whether the registry has the agent, and its card says that it plans.
    fn check_card(&self, agent: &str) -> Result<(), Unanswered> {
        match self.directory.agents().iter().find(|card| card.agent_type.as_str() == agent) {
            Some(card) if card.plans => Ok(()),
            Some(_) => Err(Unanswered::new(format!("the card of `{agent}` does not say `plans: true`"))),
            None => Err(Unanswered::new(format!("no agent `{agent}` is registered"))),
        }
    }

    /// The plan of one step. The same question about the same plan has the same id, so that a scheduler that takes over
    /// gets the answer that is there.
    fn submission(&self, question: &PlanningQuestion) -> Submission {
        let agent = &question.agent_type;
        let inputs = question.inputs.to_string();
        let about = question.plan.as_ref().map_or_else(|| self.random.token(), ToString::to_string);
        let id = format!("planner-{}", fingerprint(&format!("{about} {agent}"), inputs.as_bytes()));
        // Inputs are data: what looks like an expression in a goal is not rendered.
        let names = question.inputs.as_object().into_iter().flat_map(Map::keys);
        let read: Map<String, Value> =
            names.map(|name| (name.clone(), format!("{{{{ goal.metadata.inputs.{name} }}}}").into())).collect();
        let data = json!({
            "name": format!("{} by {agent}", question.action),
            "goal": {
                "description": format!("`{agent}` plans: {}", question.goal.description),
                "priority": question.goal.priority,
                "budget": question.budget,
                "deadline_ms": self.clock.now_ms().saturating_add(self.timeout_ms),
                "metadata": {"planning_of": question.plan, "inputs": question.inputs},
            },
            "steps": [{
                "id": STEP,
                "agent_type": agent,
                "action": question.action,
                "description": format!("make a document: {}", question.action),
                "inputs": read,
                "timeout_ms": self.timeout_ms,
            }],
        });
        Submission {
            id,
            source: SOURCE.into(),
            kind: SubmissionKind::Plan,
            data: data.to_string(),
            inputs: None,
            traceparent: None,
            namespace: question.goal.namespace.clone(),
        }
    }

    async fn run_question(&self, question: &PlanningQuestion) -> Result<(PlanId, Json, Usage), Unanswered> {
        self.check_card(question.agent_type.as_str())?;
        let submission = self.submission(question);
        let unavailable = |error: goalmill_broker::BrokerError| Unanswered::new(error.to_string());
        let ids = [submission.answer_id()];
        // A question that is asked again has another deadline, which would be other content.
        if self.broker.answers(&ids).await.map_err(unavailable)?.iter().all(Option::is_none) {
            self.broker.submit(&submission.fields()).await.map_err(unavailable)?;
        }
        let mut wait = LOOK_MIN;
        let plan = loop {
            match self.broker.answers(&ids).await.map_err(unavailable)?.into_iter().next().flatten() {
                Some(text) => match serde_json::from_str(&text) {
                    Ok(SubmissionAnswer::Accepted { plan_id, .. }) => break plan_id,
                    Ok(SubmissionAnswer::Refused(problem)) => return Err(Unanswered::new(problem.detail)),
                    Err(error) => return Err(Unanswered::new(format!("the answer cannot be read: {error}"))),
                },
                None => pause(&mut wait).await,
            }
        };
        wait = LOOK_MIN;
        loop {
            let statuses = self.broker.statuses(std::slice::from_ref(&plan)).await.map_err(unavailable)?;
            if statuses.first().copied().flatten().is_some_and(PlanStatus::is_final) {
                return self.outputs(plan).await;
            }
            pause(&mut wait).await;
        }
    }

    async fn outputs(&self, plan: PlanId) -> Result<(PlanId, Json, Usage), Unanswered> {
        let plans = plan_reader::open(self.broker.clone(), None);
        let state = read_plan_state(plans.as_ref(), &plan).await.map_err(|error| Unanswered::new(error.to_string()))?;
        let Some(state) = state else { return Err(Unanswered::new(format!("plan `{plan}` has expired"))) };
        let usage = state.usage();
        let step = state.step_index(&STEP.into()).and_then(|step| state.step(step));
        match step.as_ref().and_then(|step| step.outputs) {
            Some(outputs) if state.status() == PlanStatus::Completed => Ok((plan, outputs.clone(), usage)),
            Some(_) | None => {
                let failure = step.and_then(|step| step.failure.cloned());
                let reason = failure.map_or_else(
                    || format!("plan `{plan}` is `{}`", state.status().as_str()),
                    |failure| format!("{}: {}", failure.code, failure.message),
                );
                Err(Unanswered { reason, plan: Some(plan), usage })
            }
        }
    }
}

#[async_trait]
impl PlanningAgents for PlanningSteps {
    async fn ask(&self, question: PlanningQuestion) -> PlanningReply {
        match self.run_question(&question).await {
            Ok((plan, outputs, usage)) => PlanningReply { outputs: Ok(outputs), usage, plan: Some(plan) },
            Err(Unanswered { reason, plan, usage }) => PlanningReply { outputs: Err(reason), usage, plan },
        }
    }
}

async fn pause(wait: &mut Duration) {
    tokio::time::sleep(*wait).await;
    *wait = (*wait * 2).min(LOOK_MAX);
}
