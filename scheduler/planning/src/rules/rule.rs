//! The format of a rule file.

use std::collections::BTreeMap;

use goalmill_common::id::{AgentType, is_id};
use goalmill_common::view::{RuleView, SignalView};
use serde::Deserialize;
use serde_json::Value;

use super::phrase::Phrase;
use super::render;

/// Goals of one kind and the plan for them; one YAML file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub id: String,
    pub version: u32,
    /// A goal that says so is of this kind, whatever its words are.
    pub goal_type: String,
    /// 0 to 1, of plans made by this rule.
    pub confidence: f64,
    /// How a goal is recognised; none for the rule that takes what the others leave.
    #[serde(default, rename = "match")]
    pub matching: Option<Match>,
    /// Facts that the plan wants.
    #[serde(default)]
    pub facts: BTreeMap<String, Want>,
    /// Who does a step whose agent type nobody serves, if this one is served.
    #[serde(default)]
    pub stand_in: Option<AgentType>,
    /// How to know that the goal is reached; lines with an unknown value are left out.
    #[serde(default)]
    pub success: Vec<String>,
    /// Says something about every plan made by this rule.
    #[serde(default)]
    pub warning: String,
    /// A plan; strings may hold `${ … }`, rendered at planning time.
    pub plan: Value,
}

/// Signals that add up; the goal is recognised from `score` on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    pub score: f64,
    pub signals: Vec<Signal>,
}

/// A sign of a kind of goal, or against it (negative weight); counts once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    pub weight: f64,
    /// Any of these phrases is there.
    #[serde(default)]
    pub any: Vec<Phrase>,
    /// This fact was found.
    #[serde(default)]
    pub fact: Option<String>,
}

/// A fact that a plan wants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Want {
    /// What to ask the caller.
    pub question: String,
    /// Without it, the rule makes no plan.
    #[serde(default)]
    pub required: bool,
    /// Taken when the goal does not say; told as assumed.
    #[serde(default)]
    pub default: Option<Value>,
}

/// Facts that rules may name.
pub(super) const FACTS: &[&str] = &[
    "budget",
    "rate",
    "duration",
    "month",
    "start",
    "end",
    "deadline",
    "time",
    "length_minutes",
    "destination",
    "place",
    "further_destinations",
    "origin",
    "travellers",
    "people",
    "counts",
    "at_most",
    "at_least",
    "exclusions",
    "formats",
    "languages",
    "source_language",
    "options",
    "subtasks",
    "topic",
    "dataset",
];

impl Rule {
    /// The rule as people see it.
    pub fn view(&self) -> RuleView {
        let signal = |signal: &Signal| SignalView {
            weight: signal.weight,
            any: match &signal.fact {
                Some(fact) => vec![format!("fact:{fact}")],
                None => signal.any.iter().map(ToString::to_string).collect(),
            },
        };
        RuleView {
            rule: self.id.clone(),
            version: self.version,
            goal_type: self.goal_type.clone(),
            confidence: self.confidence,
            score: self.matching.as_ref().map(|matching| matching.score),
            signals: self.matching.iter().flat_map(|matching| &matching.signals).map(signal).collect(),
            required_facts: self.facts.iter().filter(|(_, want)| want.required).map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Reads a rule; the error names the place.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let rule: Self = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
        rule.check()?;
        Ok(rule)
    }

    fn check(&self) -> Result<(), String> {
        if !is_id(&self.id) {
            return Err(format!("id: `{}` is no id; use letters, digits, `.`, `_`, `:`, `-`", self.id));
        }
        if !(0.0..=1.0).contains(&self.confidence) {
            return Err(format!("confidence: `{}` is not between 0 and 1", self.confidence));
        }
        if let Some(matching) = &self.matching {
            matching.check()?;
        }
        if let Some(fact) = self.facts.keys().find(|fact| !FACTS.contains(&fact.as_str())) {
            return Err(format!("facts.{fact}: there is no such fact; known: {}", FACTS.join(", ")));
        }
        if let Some((fact, _)) = self.facts.iter().find(|(_, want)| want.required && want.default.is_some()) {
            return Err(format!("facts.{fact}: a required fact has no default; remove one of the two"));
        }
        for (index, line) in self.success.iter().enumerate() {
            render::check(line).map_err(|e| format!("success[{index}]: {e}"))?;
        }
        match self.plan.get("steps") {
            Some(Value::Array(steps)) if !steps.is_empty() => {
                render::check_all(&self.plan).map_err(|e| format!("plan{e}"))
            }
            _ => Err("plan.steps: a plan has at least one step".into()),
        }
    }
}

impl Match {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.score.is_nan() || self.score <= 0.0 {
            return Err("match.score: must be above 0".into());
        }
        for (index, signal) in self.signals.iter().enumerate() {
            match (&signal.fact, signal.any.is_empty()) {
                (None, false) => {}
                (Some(fact), true) if FACTS.contains(&fact.as_str()) => {}
                (Some(fact), true) => {
                    return Err(format!(
                        "match.signals[{index}].fact: there is no fact `{fact}`; known: {}",
                        FACTS.join(", ")
                    ));
                }
                _ => return Err(format!("match.signals[{index}]: give either `any` or `fact`")),
            }
        }
        Ok(())
    }
}
