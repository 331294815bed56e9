//! Mock agents: what they answer to a task.

use std::collections::BTreeMap;
use std::sync::Arc;

use goalmill_common::call::RecordedCall;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use serde_json::{Value, json};

use crate::test_file::{AgentMocks, MockAnswer, MockFailure, OneOrMany};
use crate::value_match::first_mismatch;

/// The action that stands for every other one.
const ANY_ACTION: &str = "*";
/// The worker of mock agents.
const WORKER: &str = "test";
/// The entry of a task on no stream.
pub(crate) const NO_ENTRY: &str = "0-0";
/// Steps of sub-plans may have any agent type.
const EVERY_AGENT: &str = "*";

/// What becomes of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptOutcome {
    /// As the agent would send it; without the head of the attempt.
    pub(crate) report: Report,
    /// Calls that it records before.
    pub(crate) calls: Vec<RecordedCall>,
    /// How long the attempt runs, in milliseconds.
    pub(crate) delay_ms: u64,
    /// Whether a worker takes it.
    pub(crate) is_started: bool,
}

impl AttemptOutcome {
    pub(crate) fn new(what: What, delay_ms: u64) -> Self {
        let report = Report::on_none("".into(), NO_ENTRY.into(), WORKER.into(), what);
        Self { report, calls: Vec::new(), delay_ms, is_started: true }
    }
}

/// Mock agents, and how often each answer was given.
#[derive(Clone, Debug, Default)]
pub struct MockAgents {
    agents: AgentMocks,
    given: BTreeMap<(String, String, usize), u32>,
}

impl MockAgents {
    pub fn new(agents: AgentMocks) -> Self {
        Self { agents, given: BTreeMap::new() }
    }

    /// Whether there is a mock for an agent type.
    pub fn has(&self, agent_type: &str) -> bool {
        self.agents.contains_key(agent_type)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.agents.iter().map(|(agent, actions)| {
            let named = actions.keys().map(String::as_str).filter(|action| *action != ANY_ACTION);
            // An agent that does anything names no actions.
            let actions = if actions.contains_key(ANY_ACTION) { Vec::new() } else { named.collect() };
            (agent.as_str(), actions)
        })
    }

    /// The answer to a task: the first one that fits its inputs and was not given often enough, else the last one that
    /// fits. The error says what is missing.
    pub(crate) fn answer(&mut self, task: &Task) -> Result<AttemptOutcome, String> {
        let agent = task.agent_type.as_str();
        let Some(actions) = self.agents.get(agent) else {
            return Err(format!("no mock stands for the agent `{agent}`, which step `{}` asks", task.step));
        };
        let found = actions.get_key_value(task.action.as_str()).or_else(|| actions.get_key_value(ANY_ACTION));
        let Some((action, OneOrMany(answers))) = found else {
            return Err(format!(
                "the mock of `{agent}` has no action `{}`, which step `{}` asks for",
                task.action, task.step
            ));
        };
        let inputs = task.inputs.value();
        let fits = |answer: &MockAnswer| {
            answer.inputs.as_ref().is_none_or(|wanted| first_mismatch("", wanted, &inputs).is_none())
        };
        let fitting: Vec<usize> = (0..answers.len()).filter(|at| fits(&answers[*at])).collect();
        let Some(last) = fitting.last().copied() else {
            return Err(format!(
                "no answer of the mock `{agent}/{}` fits the inputs of step `{}`: {inputs}",
                task.action, task.step
            ));
        };
        let given = |at: &usize| {
            self.given.get(&(agent.to_owned(), action.clone(), *at)).copied().unwrap_or(0)
                >= answers[*at].times.unwrap_or(1)
        };
        let at = fitting.into_iter().find(|at| !given(at)).unwrap_or(last);
        let outcome = outcome(&answers[at]);
        *self.given.entry((agent.to_owned(), action.clone(), at)).or_default() += 1;
        Ok(outcome)
    }

    /// Answers that were never given, in words.
    pub fn unused(&self) -> Vec<String> {
        let mut unused = Vec::new();
        for (agent, actions) in &self.agents {
            for (action, OneOrMany(answers)) in actions {
                let is_unused = |at: &usize| !self.given.contains_key(&(agent.clone(), action.clone(), *at));
                let never: Vec<usize> = (0..answers.len()).filter(is_unused).collect();
                if never.len() == answers.len() {
                    unused.push(format!("no step used the mock `{agent}/{action}`"));
                } else {
                    unused.extend(
                        never.iter().map(|at| format!("answer {} of the mock `{agent}/{action}` was not used", at + 1)),
                    );
                }
            }
        }
        unused
    }
}

fn outcome(answer: &MockAnswer) -> AttemptOutcome {
    let what = match answer.fail {
        Some(MockFailure::Lost) => What::Lost,
        Some(
            MockFailure::Retryable | MockFailure::Fatal | MockFailure::RateLimited | MockFailure::ConstraintViolation,
        ) => What::Failed,
        None => What::Completed,
    };
    let outcome = AttemptOutcome::new(what, answer.delay.0);
    let outputs = answer.fail.is_none().then(|| Json::from_value(answer.outputs.as_ref().unwrap_or(&json!({}))));
    let report = Report {
        outputs,
        failure: answer.fail.map(|fail| failure(fail, answer)),
        cost: Some(answer.cost).filter(|cost| *cost > 0.0),
        tokens: Some(answer.tokens).filter(|tokens| *tokens > 0),
        sub_plan: answer.sub_plan.as_ref().map(Json::from_value::<Value>),
        sub_plans: Arc::from([EVERY_AGENT.to_owned()]),
        ..outcome.report
    };
    AttemptOutcome { report, ..outcome }
}

fn failure(fail: MockFailure, answer: &MockAnswer) -> Failure {
    let (class, code) = match fail {
        MockFailure::Retryable => (FailureClass::Transient, "MOCK_RETRYABLE"),
        MockFailure::Fatal => (FailureClass::Permanent, "MOCK_FATAL"),
        MockFailure::RateLimited => (FailureClass::RateLimited, "MOCK_RATE_LIMITED"),
        MockFailure::ConstraintViolation => (FailureClass::ConstraintViolation, "MOCK_CONSTRAINT"),
        MockFailure::Lost => (FailureClass::Lost, "WORKER_LOST"),
    };
    let code = answer.code.clone().unwrap_or_else(|| code.into());
    let message = answer.message.clone().unwrap_or_else(|| "the mock agent fails".into());
    Failure { retry_after_ms: answer.retry_after.map(|wait| wait.0), ..Failure::new(class, code, message) }
}
