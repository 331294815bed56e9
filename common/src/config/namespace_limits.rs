//! Limits of namespaces.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{Namespace, is_id};

/// Names the limits of all namespaces that have none of their own.
pub(super) const OTHER_NAMESPACES: &str = "*";

/// What a namespace may use. A limit that is not set does not exist and costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NamespaceSettings {
    /// Plans that have not ended, without sub-plans.
    pub plans_max: Option<u32>,
    /// Steps that are with workers; further ones wait.
    pub steps_max: Option<u32>,
    /// Accepted submissions in a minute of the clock.
    pub submissions_per_minute: Option<u64>,
    /// Bytes of accepted submissions in a day (UTC).
    pub payload_bytes_per_day: Option<u64>,
    /// US dollars that its plans cost in a day (UTC). Running plans continue when it is reached.
    pub cost_per_day: Option<f64>,
    /// Tokens of language models that its plans take in a day (UTC). Running plans continue when it is reached.
    pub tokens_per_day: Option<u64>,
}

/// The limits of a namespace: its own, or else those of `*`.
pub fn namespace_settings<'a>(
    all: &'a BTreeMap<String, NamespaceSettings>,
    namespace: &Namespace,
) -> Option<&'a NamespaceSettings> {
    all.get(namespace.as_str()).or_else(|| all.get(OTHER_NAMESPACES))
}

/// What is wrong with these settings, as sentences.
pub(super) fn violations(all: &BTreeMap<String, NamespaceSettings>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, limits) in all {
        if name != OTHER_NAMESPACES && !is_id(name) {
            wrong.push(format!("`namespaces` has `{name}`, which is neither a namespace nor `*`"));
        }
        if limits.steps_max == Some(0) {
            wrong.push(format!("`namespaces.{name}.steps_max > 0` must hold"));
        }
        if limits.cost_per_day.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
            wrong.push(format!("`namespaces.{name}.cost_per_day` must be a number that is not negative"));
        }
    }
    wrong
}

/// A key of the scheduler has this name among the streams of namespaces.
const RESERVED_STREAM: &str = "tries";

/// What is wrong with the streams of namespaces, as sentences.
pub(super) fn stream_violations(namespaces: &BTreeSet<String>) -> Vec<String> {
    let wrong = namespaces.iter().filter(|name| !is_id(name) || *name == RESERVED_STREAM);
    wrong.map(|name| format!("`scheduler.goal_streams` has `{name}`, which no stream can be named after")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_its_own_limits_or_those_of_all_others() {
        let limits = |plans_max| NamespaceSettings { plans_max: Some(plans_max), ..NamespaceSettings::default() };
        let mut all = BTreeMap::from([("red".to_owned(), limits(1))]);
        let of = |all: &BTreeMap<String, NamespaceSettings>, name: &str| {
            namespace_settings(all, &name.into()).and_then(|found| found.plans_max)
        };
        assert_eq!((of(&all, "red"), of(&all, "blue")), (Some(1), None));
        all.insert("*".into(), limits(2));
        assert_eq!((of(&all, "red"), of(&all, "blue")), (Some(1), Some(2)));
        assert!(violations(&all).is_empty());
        all.insert("a b".into(), NamespaceSettings { steps_max: Some(0), cost_per_day: Some(-1.0), ..limits(1) });
        assert_eq!(violations(&all).len(), 3);
        let streams = ["red", "tries", "a b"].map(str::to_owned);
        assert_eq!(stream_violations(&streams.into()).len(), 2);
    }
}
