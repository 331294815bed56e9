//! Queries of the API, and pages of its answers.

use goalmill_common::event::RouteCandidate;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use goalmill_common::status::PlanStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A plan or a goal as text, and what the text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub text: String,
    pub media: &'static str,
}

/// One page of a plan's log; the events are kept as the text they came as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventPage {
    pub items: Vec<Json>,
    /// The last event of the page, when more follow; a number, or its text.
    #[serde(default)]
    pub next: Option<Value>,
}

impl EventPage {
    /// Where the next page begins.
    pub fn next(&self) -> Option<u64> {
        let next = self.next.as_ref()?;
        next.as_u64().or_else(|| next.as_str()?.parse().ok())
    }
}

/// The router's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidates {
    pub candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Whether the router finds that no agent type fits.
    #[serde(default)]
    pub abstains: bool,
}

/// Which plans to list.
#[derive(Clone, Debug, Default)]
pub struct PlanQuery {
    pub limit: usize,
    pub cursor: Option<String>,
    pub status: Option<PlanStatus>,
    /// Words that all must be in name, id or goal.
    pub search: Option<String>,
    /// Conditions on the entry of the plan; empty for all.
    pub conditions: String,
}

/// Which events of a plan to look up; empty for all.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    pub types: Vec<String>,
    pub step: String,
    pub phase: String,
}

/// Which events to look up.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    pub plan: Option<PlanId>,
    /// Empty for all.
    pub step: String,
    pub types: Vec<String>,
    /// Empty for all.
    pub phase: String,
    /// Words; empty for all.
    pub text: String,
    /// Conditions on the data; empty for all.
    pub conditions: String,
    pub since_ms: u64,
    pub limit: u16,
}

/// Which plans to measure.
#[derive(Clone, Copy, Debug)]
pub struct StatsQuery {
    pub since_ms: u64,
    /// Plans read, latest first.
    pub plans: u16,
}
