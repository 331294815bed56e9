//! Stored plans: named plan documents with numbered versions.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Characters of the name of a stored plan.
pub const NAME_CHARS_MAX: usize = 64;

/// The field of a goal's `metadata` that says from which version its plan began: `trip@3`.
pub const STORED_PLAN: &str = "stored_plan";

/// A stored plan as it is named: `trip`, its newest version that is not retired, or `trip@3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredPlanRef {
    /// See [`is_name`].
    pub name: String,
    /// Counted from 1; the newest without it.
    pub version: Option<u32>,
}

/// What a reference to a stored plan looks like, for errors.
pub const REF_FORM: &str = "a name of up to 64 letters, digits, `.`, `_`, `-`, alone or with a version: `trip@3`";

/// Whether a text may name a stored plan: a letter or digit, then up to 63 of letters, digits, `.`, `_`, `-`.
pub fn is_name(text: &str) -> bool {
    crate::id::is_id(text) && text.len() <= NAME_CHARS_MAX && !text.contains(':')
}

impl StoredPlanRef {
    /// Parses `trip` or `trip@3`; `None` when it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, version) = match text.split_once('@') {
            Some((name, number)) => {
                let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
                (name, Some(number.parse().ok().filter(|_| is_number)?))
            }
            None => (text, None),
        };
        is_name(name).then(|| Self { name: name.to_owned(), version })
    }

    /// One version of a plan.
    pub fn new(name: &str, version: u32) -> Self {
        Self { name: name.to_owned(), version: Some(version) }
    }
}

impl fmt::Display for StoredPlanRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A version of a stored plan, without its document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoredPlanView {
    /// The name, the same for all versions.
    pub name: String,
    /// Counted from 1.
    pub version: u32,
    /// What the plan is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The number of its steps, without those of plans inside.
    pub steps: usize,
    /// JSON Schema of its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// Who stored it.
    pub actor: String,
    /// When, RFC 3339.
    pub stored_at: String,
    /// Set when no new plan may begin from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Retirement>,
}

impl StoredPlanView {
    /// The version as it is named: `trip@3`.
    pub fn reference(&self) -> StoredPlanRef {
        StoredPlanRef::new(&self.name, self.version)
    }
}

/// Who retired a version of a stored plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Retirement {
    /// Who retired it.
    pub actor: String,
    /// When, RFC 3339.
    pub at: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A version of a stored plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoredPlanVersion {
    /// The version.
    #[serde(flatten)]
    pub view: StoredPlanView,
    /// The plan as it was stored.
    pub document: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_name_alone_or_with_a_version() {
        let trip = |version| Some(StoredPlanRef { name: "trip".into(), version });
        assert_eq!((StoredPlanRef::parse("trip"), StoredPlanRef::parse("trip@12")), (trip(None), trip(Some(12))));
        for wrong in
            ["", "@1", "trip@", "trip@0", "trip@01", "trip@+1", "trip@x", "trip@1@2", "a:b", "a b", "trip@4294967296"]
        {
            assert_eq!(StoredPlanRef::parse(wrong), None, "{wrong}");
        }
        assert_eq!(StoredPlanRef::new("trip", 3).to_string(), "trip@3");
        assert!(is_name(&"x".repeat(NAME_CHARS_MAX)) && !is_name(&"x".repeat(NAME_CHARS_MAX + 1)));
    }
}
