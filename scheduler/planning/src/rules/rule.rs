//! The format of a rule file.

use std::collections::BTreeMap;

use goalmill_common::id::{AgentType, is_id};
use goalmill_common::view::{RuleView, SignalView};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::phrase::Phrase;
use super::render;
use crate::extraction::GoalRequest;

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
    /// The agent type of a step whose own one has no worker, if this one has a worker.
    #[serde(default)]
    pub stand_in: Option<AgentType>,
    /// How to know that the goal is reached; lines with an unknown value are left out.
    #[serde(default)]
    pub success: Vec<SuccessLine>,
    /// Says something about every plan made by this rule.
    #[serde(default)]
    pub warning: String,
    /// Inputs that every step of a worker gets besides its own.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// A plan; strings may hold `${ … }`, rendered at planning time.
    pub plan: Value,
}

/// Signals that add up; the goal is recognised from `score` on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    pub score: f64,
    pub signals: Vec<Signal>,
    /// A field of earlier versions, which is refused.
    #[serde(default, rename = "examples")]
    pub removed_examples: Option<serde::de::IgnoredAny>,
}

/// A sign of a kind of goal, or against it (negative weight); counts once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    pub weight: f64,
    /// Any of these phrases is there.
    #[serde(default)]
    pub any: Vec<Phrase>,
    /// Any of these phrases stands in the main request of the goal: its first words, without constraints and topic.
    #[serde(default)]
    pub lead: Vec<Phrase>,
    /// The main request begins with any of these phrases.
    #[serde(default)]
    pub verb: Vec<Phrase>,
    /// The main request begins with a verb that asks for something to be made or done (`plan`, `write`).
    #[serde(default)]
    pub making: bool,
    /// This fact was found, or the goal has a constraint of this name.
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
    /// Taken when the goal does not say; reported as assumed.
    #[serde(default)]
    pub default: Option<Value>,
}

/// A line of `success`: words, and an expression over outputs that is true when they hold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum SuccessLine {
    Text(String),
    Checked(CheckedLine),
}

/// A line that outputs can prove.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckedLine {
    pub text: String,
    /// `steps.budget.outputs.total <= ${ budget.amount }`
    pub check: String,
}

impl SuccessLine {
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Checked(CheckedLine { text, .. }) => text,
        }
    }

    pub fn check(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Checked(line) => Some(&line.check),
        }
    }
}

impl Rule {
    /// The rule as people see it.
    pub fn view(&self) -> RuleView {
        RuleView {
            rule: self.id.clone(),
            planner: "rules".into(),
            version: self.version,
            goal_type: self.goal_type.clone(),
            confidence: self.confidence,
            score: self.matching.as_ref().map(|matching| matching.score),
            signals: self.matching.as_ref().map(Match::views).unwrap_or_default(),
            required_facts: required(&self.facts),
        }
    }

    /// Whether the rule is about this fact: it wants it, recognises goals by it, or has it in its plan or its criteria. The
    /// days of `start` to `end` are a duration.
    pub fn asks_for(&self, fact: &str) -> bool {
        let signals = self.matching.iter().flat_map(|matching| &matching.signals);
        let lines = self.success.iter().flat_map(|line| [Some(line.text()), line.check()]).flatten().map(str::to_owned);
        let texts = [self.plan.to_string(), Value::Object(self.inputs.clone()).to_string()].into_iter().chain(lines);
        self.facts.contains_key(fact)
            || signals.filter_map(|signal| signal.fact.as_deref()).any(|known| known == fact)
            || texts.into_iter().any(|text| mentions(&text, fact))
    }

    /// Reads a rule; the error names the place.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let rule: Self = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
        rule.check_rule()?;
        Ok(rule)
    }

    fn check_rule(&self) -> Result<(), String> {
        if !is_id(&self.id) {
            return Err(format!("id: `{}` is no id; use letters, digits, `.`, `_`, `:`, `-`", self.id));
        }
        if !(0.0..=1.0).contains(&self.confidence) {
            return Err(format!("confidence: `{}` is not between 0 and 1", self.confidence));
        }
        if let Some(matching) = &self.matching {
            matching.check_match()?;
        }
        if let Some((fact, _)) = self.facts.iter().find(|(_, want)| want.required && want.default.is_some()) {
            return Err(format!("facts.{fact}: a required fact has no default; remove one of the two"));
        }
        render::check_all(&Value::Object(self.inputs.clone())).map_err(|e| format!("inputs{e}"))?;
        for (index, line) in self.success.iter().enumerate() {
            for text in std::iter::once(line.text()).chain(line.check()) {
                render::check_template_text(text).map_err(|e| format!("success[{index}]: {e}"))?;
            }
        }
        match self.plan.get("steps") {
            Some(Value::Array(steps)) if !steps.is_empty() => {
                render::check_all(&self.plan).map_err(|e| format!("plan{e}"))
            }
            _ => Err("plan.steps: a plan has at least one step".into()),
        }
    }
}

impl Signal {
    fn is_there(&self, words: &[String], request: &GoalRequest, known: &Map<String, Value>) -> bool {
        if let Some(fact) = &self.fact {
            return known.contains_key(fact);
        }
        self.making && request.is_making()
            || self.any.iter().any(|phrase| phrase.is_in(words))
            || self.lead.iter().any(|phrase| phrase.is_in(&request.words))
            || self.verb.iter().any(|phrase| phrase.begins(&request.words))
    }

    /// What it matches, for people.
    fn shown(&self) -> Vec<String> {
        let lists = [("", &self.any), ("lead:", &self.lead), ("verb:", &self.verb)];
        let phrases =
            lists.iter().flat_map(|(prefix, list)| list.iter().map(move |phrase| format!("{prefix}{phrase}")));
        let fact = self.fact.iter().map(|fact| format!("fact:{fact}"));
        phrases.chain(fact).chain(self.making.then(|| "making".to_owned())).collect()
    }
}

/// Whether a `${ … }` of the text names the fact.
fn mentions(text: &str, fact: &str) -> bool {
    let inner = text.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(inner, _)| inner);
    inner.flat_map(|inner| inner.split(|c: char| !c.is_alphanumeric() && c != '_')).any(|word| word == fact)
}

/// The facts without which there is no plan.
pub(crate) fn required(facts: &BTreeMap<String, Want>) -> Vec<String> {
    facts.iter().filter(|(_, want)| want.required).map(|(name, _)| name.clone()).collect()
}

impl Match {
    /// How well a goal fits: the sum of its signals.
    ///
    /// - `words`: the whole description.
    /// - `known`: the facts and constraints of the goal.
    pub(crate) fn sum(&self, words: &[String], request: &GoalRequest, known: &Map<String, Value>) -> f64 {
        let is_there = |signal: &&Signal| signal.is_there(words, request, known);
        self.signals.iter().filter(is_there).map(|signal| signal.weight).sum()
    }

    /// The signals as people see them.
    pub(crate) fn views(&self) -> Vec<SignalView> {
        self.signals.iter().map(|signal| SignalView { weight: signal.weight, any: signal.shown() }).collect()
    }

    pub(crate) fn check_match(&self) -> Result<(), String> {
        if self.score.is_nan() || self.score <= 0.0 {
            return Err("match.score: must be above 0".into());
        }
        if self.removed_examples.is_some() {
            return Err(
                "match.examples: examples are no longer compared; remove them, and describe the kind by `signals`"
                    .into(),
            );
        }
        for (index, signal) in self.signals.iter().enumerate() {
            let kinds = [
                signal.fact.is_some(),
                signal.making,
                !signal.any.is_empty(),
                !signal.lead.is_empty(),
                !signal.verb.is_empty(),
            ];
            if kinds.iter().filter(|kind| **kind).count() != 1 {
                return Err(format!(
                    "match.signals[{index}]: give exactly one of `any`, `lead`, `verb`, `making` and `fact`"
                ));
            }
        }
        Ok(())
    }
}
