//! Severity of findings when a plan does not fit the registered agents.

use serde::{Deserialize, Serialize};

use crate::word_enum::word_enum;

word_enum! {
    /// The severity of a finding.
    #[derive(Default)]
    Weight {
        /// Ignored.
        Ignore = "ignore",
        /// A warning; the plan is accepted.
        #[default]
        Warning = "warning",
        /// The plan is refused.
        Error = "error",
    }
}

/// Which findings refuse a plan that does not fit the agents, and which are warnings. The defaults are for planners' plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WeightSettings {
    /// An agent type that is not registered and has no worker.
    pub unknown_agent: Weight,
    /// An action that its agent type does not have.
    pub unknown_action: Weight,
    /// An agent type without a live worker.
    pub no_worker: Weight,
    /// Inputs that the action's schema does not take.
    pub inputs: Weight,
    /// A reference to outputs that are not declared, or of a type that does not fit.
    pub outputs: Weight,
}

impl WeightSettings {
    /// The same severity for all findings.
    pub fn all(weight: Weight) -> Self {
        Self { unknown_agent: weight, unknown_action: weight, no_worker: weight, inputs: weight, outputs: weight }
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
        }
    }
}
