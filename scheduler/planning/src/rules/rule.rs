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
    /// Who does a step whose agent type nobody serves, if this one is served.
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
    /// Short goals of this kind in different words. Goals that give no clear signal are compared with them.
    #[serde(default)]
    pub examples: Vec<String>,
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
    /// The main request asks for something to be made or done (`plan`, `write`), or only names it.
    #[serde(default)]
    pub making: bool,
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
    "budget", "rate", "duration", "month", "start", "end", "deadline", "deadline_time", "end_time", "time",
    "recurrence", "length_minutes", "destination", "place", "further_destinations", "origin", "travellers", "people",
    "counts", "at_most", "at_least", "exclusions", "inclusions", "formats", "languages", "source_language", "options",
    "subtasks", "topic", "dataset", "files", "details",
];

/// Most examples of one rule.
const EXAMPLES_MAX: usize = 64;
/// Longest example, in characters.
const EXAMPLE_CHARS_MAX: usize = 200;

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
    /// Goals of this kind.
    pub(super) fn examples(&self) -> &[String] {
        self.matching.as_ref().map(|matching| matching.examples.as_slice()).unwrap_or_default()
    }

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
            examples: self.examples().to_vec(),
            required_facts: required(&self.facts),
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
        render::check_all(&Value::Object(self.inputs.clone())).map_err(|e| format!("inputs{e}"))?;
        for (index, line) in self.success.iter().enumerate() {
            for text in std::iter::once(line.text()).chain(line.check()) {
                render::check(text).map_err(|e| format!("success[{index}]: {e}"))?;
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

/// Verbs of `making`.
const MAKING: &[&str] = &[
    "plan", "organise", "organize", "arrange", "prepare", "create", "make", "write", "draft", "set up", "set",
    "put together", "draw up", "develop", "design", "build", "run", "hold", "host", "produce", "work out", "work on",
    "come up with", "get", "do", "carry out", "conduct", "coordinate", "schedule", "manage", "handle", "finish",
    "complete", "generate", "compile", "start", "compose", "rewrite", "update", "perform", "define", "need", "give",
    "send", "provide", "deliver", "propose", "suggest", "outline", "sketch", "find", "establish", "introduce",
    "implement", "publish", "improve",
];

impl Signal {
    /// Whether the signal is there.
    ///
    /// - `words`: the whole description.
    pub(crate) fn is_there(&self, words: &[String], request: &GoalRequest, facts: &Map<String, Value>) -> bool {
        if let Some(fact) = &self.fact {
            return facts.contains_key(fact);
        }
        self.making && (request.is_nominal || Match::is_making(request))
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

/// The facts without which there is no plan.
pub(crate) fn required(facts: &BTreeMap<String, Want>) -> Vec<String> {
    facts.iter().filter(|(_, want)| want.required).map(|(name, _)| name.clone()).collect()
}

impl Match {
    /// The signals that a goal gives.
    pub(super) fn signals_there(
        &self,
        words: &[String],
        request: &GoalRequest,
        facts: &Map<String, Value>,
    ) -> impl Iterator<Item = &Signal> {
        self.signals.iter().filter(move |signal| signal.is_there(words, request, facts))
    }

    /// Whether a request begins with a verb of `making`.
    pub(super) fn is_making(request: &GoalRequest) -> bool {
        let begins =
            |verb: &str| verb.split(' ').enumerate().all(|(i, word)| request.words.get(i).is_some_and(|w| w == word));
        MAKING.iter().any(|verb| begins(verb))
    }

    /// Whether words begin with a verb of the kind.
    pub(super) fn begins(&self, words: &[String]) -> bool {
        self.signals.iter().flat_map(|signal| &signal.verb).any(|verb| verb.begins(words))
    }

    /// The sum of the signals against the kind.
    pub(super) fn against(&self, words: &[String], request: &GoalRequest, facts: &Map<String, Value>) -> f64 {
        self.signals_there(words, request, facts).map(|signal| signal.weight.min(0.0)).sum()
    }

    /// The signals as people see them.
    pub(crate) fn views(&self) -> Vec<SignalView> {
        self.signals.iter().map(|signal| SignalView { weight: signal.weight, any: signal.shown() }).collect()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.score.is_nan() || self.score <= 0.0 {
            return Err("match.score: must be above 0".into());
        }
        if self.examples.len() > EXAMPLES_MAX {
            return Err(format!("match.examples: at most {EXAMPLES_MAX} are read"));
        }
        let is_example =
            |text: &String| text.chars().any(char::is_alphabetic) && text.chars().count() <= EXAMPLE_CHARS_MAX;
        if let Some(index) = self.examples.iter().position(|text| !is_example(text)) {
            return Err(format!("match.examples[{index}]: write a goal of 1 to {EXAMPLE_CHARS_MAX} characters"));
        }
        for (index, signal) in self.signals.iter().enumerate() {
            if let Some(fact) = signal.fact.as_ref().filter(|fact| !FACTS.contains(&fact.as_str())) {
                return Err(format!(
                    "match.signals[{index}].fact: there is no fact `{fact}`; known: {}",
                    FACTS.join(", ")
                ));
            }
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
