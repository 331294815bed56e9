//! Maps and loops: steps that run once for each item of a list, or again until a condition is true.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::is_default;
use crate::json::Json;

/// Expands a step into one step for each item of a list, once the list is known. Its outputs are a list in the order of
/// the items, with `null` for each that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForEach {
    /// A list, or an expression that gives one. The fields of the step see each item as `item`, its place as `index`.
    pub items: Json,
    /// Another name for `item`.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Groups the items into lists of so many; `item` is such a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Most items, or batches, that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Most items; `limits.items_max` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_max: Option<u32>,
    /// What happens when an item fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_item_failure: OnItemFailure,
}

/// Runs a step again until a condition is true. Its outputs are those of the last iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// A bare expression that sees the `outputs` of the iteration and its number, `iteration`, from 1.
    pub until: String,
    /// Most iterations.
    pub max: u32,
    /// The wait between two iterations, in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_ms: u64,
    /// What happens when the condition is not true after the last iteration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_max: OnMax,
}

/// What becomes of a loop whose condition is never true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMax {
    /// It fails.
    #[default]
    Fail,
    /// It completes with the outputs of the last iteration.
    Continue,
}

/// What becomes of a map when an item fails for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnItemFailure {
    /// It fails; nothing new starts.
    #[default]
    Fail,
    /// The other items continue; the output of this one is `null`.
    Continue,
    /// The same, while no more than so many fail.
    AtMost(u32),
}

/// The name of an item in the undo step of a map: its outputs.
pub(super) const UNDONE: &str = "outputs";

impl ForEach {
    /// That of the undo step of a map: one step for each item that gave outputs, one at a time, the last one first.
    pub fn of_undo() -> Self {
        Self {
            items: Json::from(Value::from("{{ outputs }}")),
            name: Some(UNDONE.into()),
            batch: None,
            max_parallel: Some(1),
            items_max: None,
            on_item_failure: OnItemFailure::Continue,
        }
    }

    /// What the fields of the step see besides `goal` and `steps`.
    pub fn names(&self) -> Vec<&str> {
        ["item", "index"].into_iter().chain(self.name.as_deref()).collect()
    }
}
