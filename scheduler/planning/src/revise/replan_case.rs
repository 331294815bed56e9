//! The situation of a failed step as the strategies see it, and the category of its failure.

use goalmill_common::agent::{Action, Agent};
use goalmill_common::failure::Failure;
use goalmill_common::id::{AgentType, StepId};
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::replan_situation::{Situation, StepSituation};
use goalmill_common::report::SuggestedAdjustment;
use goalmill_common::revision::Trigger;
use serde_json::{Map, Value};

use crate::ReviseRequest;

/// What a failure says in words. Words choose among ways that are certain in themselves, never who does a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureCategory {
    /// The agent is not available at the moment.
    Unavailable,
    /// It is too much for one step.
    TooComplex,
    /// It was done, and there is nothing to be had.
    NoResult,
    /// More is spent than may be.
    OverLimit,
}

/// Words of failures, in their codes or messages, by what they mean. The first that a text has counts.
const WORDS: [(FailureCategory, &[&str]); 4] = [
    (
        FailureCategory::TooComplex,
        &["too complex", "too_complex", "too broad", "break it down", "split it", "decompose", "smaller steps"],
    ),
    (
        FailureCategory::OverLimit,
        &["over budget", "over_budget", "over the budget", "exceeds the budget", "budget exceeded"],
    ),
    (
        FailureCategory::NoResult,
        &[
            "fully booked", "fully_booked", "sold out", "sold_out", "no availability", "no vacanc", "no result",
            "no_result", "nothing found", "none available", "no rooms", "no match", "not_found",
        ],
    ),
    (
        FailureCategory::Unavailable,
        &[
            "unavailable", "not available", "unreachable", "offline", "out of service", "connection refused",
            "timed out", "timeout", "overloaded", "down for maintenance",
        ],
    ),
];

/// What a text says first, as far as words can tell: advice follows what is wrong.
pub(super) fn category(text: &str) -> Option<FailureCategory> {
    let text = text.to_lowercase();
    let place = |words: &[&str]| words.iter().filter_map(|word| text.find(word)).min();
    let found = WORDS.iter().filter_map(|(category, words)| Some((place(words)?, *category)));
    found.min_by_key(|(place, _)| *place).map(|(_, category)| category)
}

/// A situation with what is looked up often.
pub(super) struct ReplanCase<'a> {
    pub(super) request: &'a ReviseRequest,
    pub(super) situation: &'a Situation,
    pub(super) trigger: Trigger,
    /// The rules' own plan for the goal, where that is of use.
    pub(super) new_plan: Option<Plan>,
}

impl<'a> ReplanCase<'a> {
    pub(super) fn new(request: &'a ReviseRequest, trigger: Trigger, new_plan: Option<Plan>) -> Self {
        Self { request, situation: &request.situation, trigger, new_plan }
    }

    /// The step that it is about.
    pub(super) fn step(&self) -> Option<&'a Step> {
        self.find(self.situation.step.as_ref()?)
    }

    pub(super) fn find(&self, id: &StepId) -> Option<&'a Step> {
        self.situation.plan.steps.iter().find(|step| step.id == *id)
    }

    pub(super) fn at(&self, id: &StepId) -> Option<&'a StepSituation> {
        self.situation.steps.get(id)
    }

    pub(super) fn failure(&self) -> Option<&'a Failure> {
        self.at(self.situation.step.as_ref()?)?.failure.as_ref()
    }

    /// What the failure and its further errors say. What its agent suggests in words counts only if these say nothing:
    /// an error that says what is wrong in other words than a suggestion leads.
    pub(super) fn cause(&self) -> Option<FailureCategory> {
        let failure = self.failure()?;
        let errors = std::iter::once(failure).chain(&failure.errors);
        let errors: Vec<String> = errors.map(|error| format!("{} {}", error.code, error.message)).collect();
        category(&errors.join(" ")).or_else(|| self.suggested_cause())
    }

    fn suggested_cause(&self) -> Option<FailureCategory> {
        let own = self.situation.step.as_ref();
        let is_own = |one: &SuggestedAdjustment| one.step.is_none() || one.step.as_ref() == own;
        let suggested = self.suggested().into_iter().filter(is_own).map(|one| one.description);
        category(&suggested.collect::<Vec<_>>().join(" "))
    }

    /// What the step's report suggested.
    pub(super) fn suggestions(&self) -> Option<Value> {
        let own = self.situation.step.as_ref().and_then(|id| self.at(id)).and_then(|at| at.adjustments.as_ref());
        self.situation.information.as_ref().or(own).map(Json::value)
    }

    /// What the step's report suggested in words, the most urgent first.
    pub(super) fn suggested(&self) -> Vec<SuggestedAdjustment> {
        let listed = self.suggestions().and_then(|given| given.get("suggested_adjustments").cloned());
        listed.and_then(|listed| serde_json::from_value(listed).ok()).unwrap_or_default()
    }

    pub(super) fn agent(&self, agent_type: &AgentType) -> Option<&'a Agent> {
        self.request.agents.iter().find(|agent| agent.agent_type == *agent_type)
    }

    /// Whether a worker is there that takes tasks of this agent type.
    pub(super) fn is_served(&self, agent_type: &AgentType) -> bool {
        self.request.terms.workers.iter().any(|worker| !worker.draining && worker.agents.contains(agent_type))
    }

    pub(super) fn action(&self, step: &Step) -> Option<&'a Action> {
        self.agent(&step.agent_type)?.actions.iter().find(|action| action.name == step.action)
    }

    /// Steps that are not over and depend on this one.
    pub(super) fn dependents(&self, id: &StepId) -> impl Iterator<Item = &'a Step> {
        let steps = self.situation.plan.steps.iter();
        steps.filter(move |step| step.dependencies.contains(id)).collect::<Vec<_>>().into_iter()
    }

    /// Whether a step's outputs are read by another one.
    pub(super) fn is_read(&self, id: &StepId) -> bool {
        let plain = format!("steps.{id}");
        let quoted = [format!("steps[\"{id}\"]"), format!("steps['{id}']"), format!("steps[\\\"{id}\\\"]")];
        self.situation.plan.steps.iter().filter(|step| step.id != *id).any(|step| {
            let text = Json::from_value(step).text().to_owned();
            names(&text, &plain) || quoted.iter().any(|word| text.contains(word))
        })
    }

    /// An id for a new step that the plan never had.
    pub(super) fn fresh(&self, wanted: &str) -> StepId {
        let taken = |id: &str| {
            let now = self.situation.plan.steps.iter().any(|step| step.id.as_str() == id);
            now || self
                .situation
                .revisions
                .iter()
                .any(|record| record.added.iter().chain(&record.removed).any(|step| step.id.as_str() == id))
        };
        let numbered = (2..).map(|n| format!("{wanted}_{n}"));
        let mut ids = std::iter::once(wanted.to_owned()).chain(numbered);
        ids.find(|id| !taken(id)).expect("there are endless numbers").as_str().into()
    }
}

/// Whether `text` names `word` and does not continue with a letter of another name.
fn names(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let next = text[at + word.len()..].chars().next();
        next.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == '-'))
    })
}

/// A step's inputs as an object.
pub(super) fn inputs(step: &Step) -> Map<String, Value> {
    if let Value::Object(fields) = step.inputs.value() { fields } else { Map::new() }
}
