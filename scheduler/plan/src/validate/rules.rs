//! Rules of validation beyond the form of a plan: agents, policy, budget.

use std::collections::BTreeSet;

pub use goalmill_common::config::{Weight, WeightSettings};
use goalmill_common::constraint::Constraint;
use goalmill_common::goal::Budget;
use goalmill_common::id::AgentType;
use serde::{Deserialize, Serialize};

use super::catalogue::Catalogue;
use super::requirements::Requirements;

/// The same weight, but never an error.
pub(super) fn min_warning(weight: Weight) -> Weight {
    match weight {
        Weight::Ignore => Weight::Ignore,
        Weight::Warning | Weight::Error => Weight::Warning,
    }
}

/// What is checked besides the form, and how strictly.
#[derive(Clone, Debug, Default)]
pub struct Rules<'r> {
    /// Agents and actions to check against; none: neither names, inputs nor outputs are looked at.
    pub catalogue: Option<&'r Catalogue>,
    /// Agent types with live workers, where there is no catalogue: a step that asks for another one is a warning.
    pub live: Option<&'r BTreeSet<AgentType>>,
    /// How much it weighs when a plan does not fit them.
    pub weights: WeightSettings,
    /// Whether a step may only see steps written before it. Models write plans in order: when they look ahead, they
    /// have mistaken a number.
    pub in_order: bool,
    /// Most steps, where it is less than the limit of all plans.
    pub steps_max: Option<usize>,
    /// What the goal allows; the plan's own budget counts too.
    pub budget: Budget,
    /// What the goal requires of each step.
    pub requires: Requirements,
    /// The constraints of the goal.
    pub constraints: Vec<Constraint>,
    /// The time of the check, in Unix milliseconds; none: literal times are not looked at.
    pub now_ms: Option<u64>,
    /// The names of the inputs that the plan is submitted with; none: they are not known yet.
    pub inputs: Option<Vec<String>>,
    /// Seconds until the goal's deadline.
    pub seconds_left: Option<f64>,
    pub policy: &'r Policy,
}

impl<'r> Rules<'r> {
    /// For plans that a client submits: agents may come later and change, so what does not fit is a warning. An action
    /// that no registered agent has is an error, because the router refuses it.
    pub fn submitted(catalogue: &'r Catalogue) -> Self {
        let weights = WeightSettings { unknown_action: Weight::Error, ..WeightSettings::all(Weight::Warning) };
        Self { catalogue: Some(catalogue), weights, ..Self::default() }
    }

    /// For plans that a planner made: only what is there may be used.
    pub fn planned(catalogue: &'r Catalogue) -> Self {
        Self {
            catalogue: Some(catalogue),
            weights: WeightSettings { unknown_agent: Weight::Error, ..WeightSettings::default() },
            in_order: true,
            ..Self::default()
        }
    }
}

/// Which actions of which agents a plan may use. A pattern is `agent/action`; `*` stands for any letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// When there are any, only these.
    pub allow: Vec<String>,
    /// Never these; wins over `allow`.
    pub deny: Vec<String>,
    /// Steps with these wait for a person.
    pub approve: Vec<String>,
}

/// Allows everything.
impl Default for &Policy {
    fn default() -> Self {
        static OPEN: Policy = Policy { allow: Vec::new(), deny: Vec::new(), approve: Vec::new() };
        &OPEN
    }
}

impl Policy {
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty() && self.approve.is_empty()
    }

    /// The pattern that forbids this, if one does; an empty text when it is merely not allowed.
    pub fn forbids(&self, agent_type: &str, action: &str) -> Option<&str> {
        if let Some(pattern) = found(&self.deny, agent_type, action) {
            return Some(pattern);
        }
        (!self.allow.is_empty() && found(&self.allow, agent_type, action).is_none()).then_some("")
    }

    /// The pattern by which a person has to be asked, if there is one.
    pub fn asks(&self, agent_type: &str, action: &str) -> Option<&str> {
        found(&self.approve, agent_type, action)
    }
}

fn found<'p>(patterns: &'p [String], agent_type: &str, action: &str) -> Option<&'p str> {
    patterns.iter().map(String::as_str).find(|pattern| {
        let (agent, rest) = pattern.split_once('/').unwrap_or((pattern, "*"));
        matches(agent, agent_type) && matches(rest, action)
    })
}

/// Matches `*` against any letters, in time proportional to the product of both lengths at most.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p].eq_ignore_ascii_case(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after, from)) = star {
            star = Some((after, from + 1));
            p = after + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deny_wins_over_allow_and_allow_shuts_out_the_rest() {
        let policy =
            Policy { allow: vec!["mail/*".into(), "web".into()], deny: vec!["*/delete*".into()], ..Policy::default() };
        assert_eq!(policy.forbids("mail", "send"), None);
        assert_eq!(policy.forbids("web", "get"), None);
        assert_eq!(policy.forbids("mail", "delete_all"), Some("*/delete*"));
        assert_eq!(policy.forbids("shell", "run"), Some(""));
        assert_eq!(Policy::default().forbids("shell", "run"), None);
    }

    #[test]
    fn a_star_stands_for_any_letters() {
        for (pattern, text, is_match) in
            [("*", "", true), ("a*c", "abbc", true), ("a*c", "abcd", false), ("*b*", "abc", true), ("", "x", false)]
        {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
    }
}
