//! How much it weighs when a plan does not fit the agents that are there.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// How much a finding weighs.
    #[derive(Default)]
    Weight {
        /// It is not told.
        Ignore = "ignore",
        /// It is told, and the plan is taken.
        #[default]
        Warning = "warning",
        /// The plan is refused.
        Error = "error",
    }
}

/// What is refused when a plan does not fit the agents, and what is merely told. The defaults are for planners' plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WeightSettings {
    /// An agent type that nobody registered or serves.
    pub unknown_agent: Weight,
    /// An action that its agent type does not have.
    pub unknown_action: Weight,
    /// An agent type without a live worker.
    pub no_worker: Weight,
    /// Inputs that the action's schema does not take.
    pub inputs: Weight,
    /// A reference to outputs that are not declared, or of a type that does not fit.
    pub outputs: Weight,
    /// A reference to data of a kind (`image`, `text`) that the action does not take.
    pub kinds: Weight,
}

impl WeightSettings {
    /// Everything weighs the same.
    pub fn all(weight: Weight) -> Self {
        Self {
            unknown_agent: weight,
            unknown_action: weight,
            no_worker: weight,
            inputs: weight,
            outputs: weight,
            kinds: weight,
        }
    }
}

impl Default for WeightSettings {
    fn default() -> Self {
        Self {
            unknown_agent: Weight::Warning,
            unknown_action: Weight::Error,
            no_worker: Weight::Warning,
            inputs: Weight::Error,
            outputs: Weight::Error,
            kinds: Weight::Warning,
        }
    }
}
