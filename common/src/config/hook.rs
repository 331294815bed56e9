//! Settings of hooks: webhooks that are notified of changes of plans, or decide about them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A moment at which hooks are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// There is a plan, of planners or as submitted, and nothing of it runs yet. A decision may change or refuse it.
    OnPlanGenerated,
    /// A plan waits for approval; a decision may approve or refuse it. Notified once it is approved.
    OnPlanApproved,
    /// A step is about to start; a decision may hold or refuse it, or change its inputs. Notified once a worker has
    /// begun it.
    OnStepStart,
    /// An attempt has brought outputs; a decision may turn them into a failure. Notified once the step has ended:
    /// completed, failed or skipped.
    OnStepComplete,
    /// The planners are about to be asked for a revision; a decision may refuse it or choose its strategy.
    OnRevisionNeeded,
}

impl HookPoint {
    /// Every point.
    pub const ALL: [Self; 5] =
        [Self::OnPlanGenerated, Self::OnPlanApproved, Self::OnStepStart, Self::OnStepComplete, Self::OnRevisionNeeded];

    /// The word used in settings and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnPlanGenerated => "on_plan_generated",
            Self::OnPlanApproved => "on_plan_approved",
            Self::OnStepStart => "on_step_start",
            Self::OnStepComplete => "on_step_complete",
            Self::OnRevisionNeeded => "on_revision_needed",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::OnPlanGenerated => 1,
            Self::OnPlanApproved => 2,
            Self::OnStepStart => 4,
            Self::OnStepComplete => 8,
            Self::OnRevisionNeeded => 16,
        }
    }
}

/// A set of points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookPoints(u8);

impl HookPoints {
    /// Whether the point is in the set.
    pub fn contains(self, point: HookPoint) -> bool {
        self.0 & point.bit() != 0
    }
}

impl FromIterator<HookPoint> for HookPoints {
    fn from_iter<I: IntoIterator<Item = HookPoint>>(points: I) -> Self {
        Self(points.into_iter().fold(0, |set, point| set | point.bit()))
    }
}

/// The default when a hook does not answer, or not readably.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookDefault {
    /// It continues as if there were no hook.
    #[default]
    Allow,
    /// It counts as refused.
    Refuse,
}

/// A webhook that is notified, or decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookSettings {
    /// Unique among the hooks; the name in logs and refusals.
    pub name: String,
    /// Where it is called, by POST.
    pub url: String,
    /// When; always, when empty.
    pub on: BTreeSet<HookPoint>,
    /// Environment variable that holds the secret which calls are signed with; unsigned when empty.
    pub secret_env: String,
    /// Whether the points in `on` wait for its decision.
    pub decide: bool,
    /// Milliseconds one call may take.
    pub limit_ms: u64,
    /// What it means when there is no answer in time.
    pub default: HookDefault,
}

impl Default for HookSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            url: String::new(),
            on: BTreeSet::new(),
            secret_env: String::new(),
            decide: false,
            limit_ms: 5_000,
            default: HookDefault::Allow,
        }
    }
}

/// What does not hold among the hooks, as sentences that begin with the setting.
pub(super) fn violations(hooks: &[HookSettings]) -> Vec<String> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (at, hook) in hooks.iter().enumerate() {
        let mut tell = |text: &str| found.push(format!("`hooks.{at}` (`{}`): {text}", hook.name));
        if hook.name.is_empty() {
            tell("set `name`");
        } else if !names.insert(hook.name.as_str()) {
            tell("another hook has this `name`; choose one of its own");
        }
        if !(hook.url.starts_with("http://") || hook.url.starts_with("https://")) {
            tell("set `url` to an address that begins with `http://` or `https://`");
        }
        if hook.limit_ms == 0 || hook.limit_ms > 60_000 {
            tell("set `limit_ms` to 1 to 60000");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_that_cannot_work_are_told() {
        let good = HookSettings { name: "a".into(), url: "https://hooks.test/a".into(), ..HookSettings::default() };
        assert!(violations(std::slice::from_ref(&good)).is_empty());
        let bad = HookSettings { url: "ftp://x".into(), limit_ms: 0, ..good.clone() };
        let found = violations(&[good, bad]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|text| text.starts_with("`hooks.1` (`a`)")), "{found:?}");
    }

    #[test]
    fn every_point_has_the_word_that_settings_use() {
        for point in HookPoint::ALL {
            assert_eq!(serde_json::to_value(point).expect("it has a JSON form"), point.as_str());
        }
    }
}
