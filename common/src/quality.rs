//! Measures of planning and execution: what they are, and a report of them.

use serde::{Deserialize, Serialize};

use crate::word_enum::word_enum;

word_enum! {
    /// A measure of plans that ended.
    QualityMeasure {
        /// Answers of planners that are valid plans.
        PlanValidity = "plan_validity",
        /// Steps that were completed.
        TaskCompleteness = "task_completeness",
        /// Dependencies of the first plan that the execution kept.
        DependencyAccuracy = "dependency_accuracy",
        /// Steps that the agent completed that was chosen first.
        AssignmentAccuracy = "assignment_accuracy",
        /// Plans that planners revised.
        RevisionFrequency = "revision_frequency",
        /// Revised plans that were completed.
        RevisionSuccess = "revision_success",
        /// Distance between confidence and outcome.
        CalibrationError = "calibration_error",
        /// Correlation of confidence and outcome.
        ConfidenceCorrelation = "confidence_correlation",
        /// Cost of failed attempts.
        WastedCost = "wasted_cost",
        /// From a goal to its plan, median.
        PlanningP50 = "planning_p50",
        /// From a goal to its plan, 95th percentile.
        PlanningP95 = "planning_p95",
        /// From a trigger to its revision, median.
        ReplanningP50 = "replanning_p50",
        /// From a trigger to its revision, 95th percentile.
        ReplanningP95 = "replanning_p95",
        /// Choosing agents for a plan, median.
        RoutingP50 = "routing_p50",
        /// Choosing agents for a plan, 95th percentile.
        RoutingP95 = "routing_p95",
    }
}

/// What a measure should reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QualityTarget {
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
}

impl QualityTarget {
    /// Whether a value reaches it.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::Above(least) => value > least,
            Self::Below(most) => value < most,
        }
    }
}

impl QualityMeasure {
    /// What it should reach, if there is a target.
    pub fn target(self) -> Option<QualityTarget> {
        Some(match self {
            Self::PlanValidity | Self::TaskCompleteness => QualityTarget::Above(0.95),
            Self::DependencyAccuracy => QualityTarget::Above(0.9),
            Self::AssignmentAccuracy => QualityTarget::Above(0.85),
            Self::RevisionFrequency => QualityTarget::Below(0.2),
            Self::RevisionSuccess | Self::ConfidenceCorrelation => QualityTarget::Above(0.7),
            Self::WastedCost => QualityTarget::Below(0.1),
            Self::PlanningP95 => QualityTarget::Below(3.0),
            Self::ReplanningP95 => QualityTarget::Below(2.0),
            Self::RoutingP95 => QualityTarget::Below(0.5),
            Self::CalibrationError | Self::PlanningP50 | Self::ReplanningP50 | Self::RoutingP50 => return None,
        })
    }

    /// Whether its values are seconds; otherwise they are shares, or a correlation.
    pub fn is_seconds(self) -> bool {
        match self {
            Self::PlanningP50
            | Self::PlanningP95
            | Self::ReplanningP50
            | Self::ReplanningP95
            | Self::RoutingP50
            | Self::RoutingP95 => true,
            Self::PlanValidity
            | Self::TaskCompleteness
            | Self::DependencyAccuracy
            | Self::AssignmentAccuracy
            | Self::RevisionFrequency
            | Self::RevisionSuccess
            | Self::CalibrationError
            | Self::ConfidenceCorrelation
            | Self::WastedCost => false,
        }
    }

    /// Whether its values are shares.
    pub fn is_share(self) -> bool {
        !self.is_seconds() && self != Self::ConfidenceCorrelation && self != Self::CalibrationError
    }
}

/// A measure over a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MeasureValue {
    /// Which one.
    pub measure: QualityMeasure,
    /// A share from 0 to 1, a correlation from -1 to 1, or seconds; none without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What it was computed from: answers, steps, dependencies, plans, or durations.
    pub samples: u64,
    /// What it should reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<QualityTarget>,
    /// Whether it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_met: Option<bool>,
}

impl MeasureValue {
    /// A value with its target.
    pub fn new(measure: QualityMeasure, value: Option<f64>, samples: u64) -> Self {
        let target = measure.target();
        let is_met = target.zip(value).map(|(target, value)| target.is_met(value));
        Self { measure, value, samples, target, is_met }
    }
}

/// How a language model did, in calls of planners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ModelQuality {
    /// Its name in the settings.
    pub model: String,
    /// Calls, with those that failed.
    pub calls: u64,
    /// Calls that gave an answer ÷ all calls.
    pub success: Option<f64>,
    /// Answers that could not be read ÷ all answers.
    pub parse_failures: Option<f64>,
    /// Answers that were read and are not valid ÷ answers that were read.
    pub validation_failures: Option<f64>,
    /// Seconds of an answer, median.
    pub latency_p50: Option<f64>,
    /// Seconds of an answer, 95th percentile.
    pub latency_p95: Option<f64>,
    /// US dollars.
    pub cost: f64,
    /// Plans and revisions that were used.
    pub usable: u64,
    /// Cost ÷ usable plans and revisions, US dollars.
    pub cost_per_usable: Option<f64>,
}

/// The measures of all plans that ended in a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct QualityReport {
    /// Start of the period, Unix milliseconds.
    pub since_ms: u64,
    /// End of the period, Unix milliseconds.
    pub until_ms: u64,
    /// Plans that ended in it and whose logs are kept (`scheduler.retention_ms`).
    pub plans: u64,
    /// The period has more plans: only the latest ones were read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// Every measure, in a fixed order.
    pub measures: Vec<MeasureValue>,
    /// Cost of all attempts of steps, US dollars.
    pub step_cost: f64,
    /// Cost of models that planned, US dollars.
    pub planning_cost: f64,
    /// Cost of choosing agents: embeddings by an endpoint with `router.embedding_price`, US dollars.
    pub routing_cost: f64,
    /// By language model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelQuality>,
    /// What the cost was for.
    pub costs: CostSplit,
}

/// The cost of plans that ended, split in four ways. Each list has at most [`COST_SHARES_MAX`] parts, the most costly ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct CostSplit {
    /// By the day on which the plan ended, in UTC: `2026-05-01`. With planning; in the order of time.
    pub days: Vec<CostShare>,
    /// By namespace, with planning.
    pub namespaces: Vec<CostShare>,
    /// By agent type of the step, without planning. Steps that a revision took out are not in it.
    pub agent_types: Vec<CostShare>,
    /// By language model, of planners and of the recorded calls that say which model replied.
    pub models: Vec<CostShare>,
}

/// Parts of one list of a [`CostSplit`].
pub const COST_SHARES_MAX: usize = 100;

/// A part of the cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct CostShare {
    /// A day, a namespace, an agent type or a model.
    pub name: String,
    /// Plans, steps or calls that it is the cost of.
    pub count: u64,
    /// US dollars.
    pub cost: f64,
}
