//! The format of a domain file: matching goals, the problem that a goal becomes, and the agents of its actions.

use std::collections::BTreeMap;

use goalmill_common::id::{AgentType, is_id};
use goalmill_common::view::RuleView;
use goalmill_htn::{Domain, parse_domain};
use serde::Deserialize;
use serde_json::Value;

use crate::rules::render::check_all;
use crate::rules::rule::required;
use crate::rules::{Match, Want};

/// Goals of one kind and how they are decomposed; one YAML file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalDomain {
    pub id: String,
    pub version: u32,
    /// A goal that says so is of this kind, whatever its words are.
    pub goal_type: String,
    /// 0 to 1, of plans made with this domain.
    pub confidence: f64,
    /// How a goal is recognised.
    #[serde(rename = "match")]
    pub matching: Match,
    /// What the problem wants to know: facts of the text, or constraints of the goal.
    #[serde(default)]
    pub facts: BTreeMap<String, Want>,
    /// How to know that the goal is reached; lines with an unknown value are left out.
    #[serde(default)]
    pub success: Vec<String>,
    /// Types, predicates, tasks, methods and actions.
    pub hddl: String,
    #[serde(default)]
    pub objects: Vec<DomainObject>,
    /// The initial state.
    #[serde(default)]
    pub init: Vec<Line>,
    /// What is to be done, one after the other.
    pub tasks: Vec<Line>,
    /// Who does each action; the others are bookkeeping and become no steps.
    pub actions: BTreeMap<String, ActionStep>,
    /// Most steps in flight.
    #[serde(default)]
    pub max_parallel: Option<u32>,
    #[serde(skip)]
    pub parsed: Domain,
}

/// An object of the problem, or one for each member of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainObject {
    /// What the problem calls it; sees `item` and `index` (from 1). Other characters than letters and digits become `_`.
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// What steps call it; the name when missing.
    #[serde(default)]
    pub value: Option<Value>,
    /// An expression for a list.
    #[serde(default)]
    pub each: Option<String>,
}

/// A fact or a task in HDDL, or one for each member of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Line {
    One(String),
    Each(Each),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    pub each: String,
    pub line: String,
}

/// How an action is done; texts see the action's parameters by name, the facts, and `made`: for each predicate that the
/// action reads, the ids of the steps that made it true.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionStep {
    pub agent_type: AgentType,
    #[serde(default)]
    pub action: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub inputs: Value,
    #[serde(default)]
    pub expected_outputs: Vec<String>,
    #[serde(default)]
    pub estimates: Value,
    /// Any other field of a step, such as `retry` or `approve`.
    #[serde(default)]
    pub step: serde_json::Map<String, Value>,
}

impl GoalDomain {
    /// The domain as people see it, in the form of a rule.
    pub(super) fn view(&self) -> RuleView {
        RuleView {
            rule: self.id.clone(),
            planner: "htn".into(),
            version: self.version,
            goal_type: self.goal_type.clone(),
            confidence: self.confidence,
            score: Some(self.matching.score),
            signals: self.matching.views(),
            required_facts: required(&self.facts),
        }
    }

    /// Reads a domain; the error names the place.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let mut domain: Self = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
        domain.parsed = parse_domain(&domain.hddl).map_err(|e| format!("hddl:{e}"))?;
        domain.check_domain()?;
        Ok(domain)
    }

    fn check_domain(&self) -> Result<(), String> {
        if !is_id(&self.id) {
            return Err(format!("id: `{}` is no id; use letters, digits, `.`, `_`, `:`, `-`", self.id));
        }
        if !(0.0..=1.0).contains(&self.confidence) {
            return Err(format!("confidence: `{}` is not between 0 and 1", self.confidence));
        }
        self.matching.check_match()?;
        if self.tasks.is_empty() {
            return Err("tasks: name at least one task".into());
        }
        let known = |name: &str| self.parsed.actions.iter().any(|a| a.name == name);
        if let Some(name) = self.actions.keys().find(|name| !known(name)) {
            return Err(format!("actions.{name}: the domain has no such action; add it to `hddl`"));
        }
        for (name, action) in &self.actions {
            check_all(&action.inputs).map_err(|e| format!("actions.{name}.inputs{e}"))?;
            check_all(&Value::String(action.description.clone()))
                .map_err(|e| format!("actions.{name}.description{e}"))?;
        }
        Ok(())
    }
}
