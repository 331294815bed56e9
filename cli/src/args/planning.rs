//! Flags for the planning parameters of a goal.

use clap::{Args, ValueEnum};
use goalmill_common::planning::{CANDIDATES_MAX, ReadGoal, TEMPERATURE_MAX};
use serde_json::{Map, Value, json};

/// How a goal is planned and its plan revised.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Planning")]
pub struct PlanningArgs {
    /// Tries this planner before those of the settings: `llm`, `tools`, `htn`, `rules`.
    #[arg(long, value_name = "PLANNER")]
    pub planner: Option<String>,
    /// Tries no other planner.
    #[arg(long, requires = "planner")]
    pub only: bool,
    /// Tries this model before the others; its name in the settings.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Asks no other model.
    #[arg(long, requires = "model")]
    pub only_model: bool,
    /// How far a model works the plan out before it runs.
    #[arg(long, value_name = "STRATEGY")]
    pub strategy: Option<StrategyArg>,
    /// Steps of the plan at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_steps: Option<u32>,
    /// Plans inside plans at most.
    #[arg(long, value_name = "N")]
    pub max_depth: Option<u32>,
    /// Temperature of the models, 0 to 2.
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// First answers that models are asked for; the best one is taken.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CANDIDATES_MAX)))]
    pub candidates: Option<u32>,
    /// The id of a prompt template, or instructions for the model.
    #[arg(long, value_name = "ID|TEXT")]
    pub prompt: Option<String>,
    /// A model reviews the plan before it begins.
    #[arg(long)]
    pub review: bool,
    /// Whether a model reads constraints, criteria, deadline and inputs from the text of the goal first: `off`, `use`, or
    /// `approve` (a person approves the plan).
    #[arg(long, value_name = "MODE", value_parser = read_goal)]
    pub read_goal: Option<ReadGoal>,
}

fn read_goal(text: &str) -> Result<ReadGoal, String> {
    ReadGoal::parse(text).ok_or_else(|| "it must be `off`, `use` or `approve`".into())
}

/// How far a plan is worked out before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StrategyArg {
    Flat,
    Hierarchical,
    Iterative,
}

impl StrategyArg {
    fn as_str(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Hierarchical => "hierarchical",
            Self::Iterative => "iterative",
        }
    }
}

impl PlanningArgs {
    /// Sets what is given in the `planning` of a goal.
    pub fn set(&self, planning: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                planning.insert(name.into(), value);
            }
        };
        put("planner", self.planner.as_ref().map(|name| json!(name)));
        put("planner_only", self.only.then(|| json!(true)));
        put("model", self.model.as_ref().map(|name| json!(name)));
        put("model_only", self.only_model.then(|| json!(true)));
        put("strategy", self.strategy.map(|strategy| json!(strategy.as_str())));
        put("max_steps", self.max_steps.map(|n| json!(n)));
        put("max_depth", self.max_depth.map(|n| json!(n)));
        put("temperature", self.temperature.map(|t| json!(t)));
        put("candidates", self.candidates.map(|n| json!(n)));
        put("prompt", self.prompt.as_ref().map(|text| json!(text)));
        put("review", self.review.then(|| json!(true)));
        put("read_goal", self.read_goal.map(|mode| json!(mode)));
    }
}

/// Parses a temperature of models.
pub fn temperature(text: &str) -> Result<f64, String> {
    let temperature = text.parse().ok().filter(|t| (0.0..=TEMPERATURE_MAX).contains(t));
    temperature.ok_or_else(|| format!("it must be a number from 0 to {TEMPERATURE_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_given_is_set() {
        let mut planning = Map::from_iter([("model".to_owned(), json!("m"))]);
        PlanningArgs::default().set(&mut planning);
        assert_eq!(planning.len(), 1);
        let args = PlanningArgs {
            strategy: Some(StrategyArg::Iterative),
            temperature: Some(0.5),
            max_steps: Some(4),
            ..PlanningArgs::default()
        };
        args.set(&mut planning);
        assert_eq!(
            Value::Object(planning),
            json!({"model": "m", "strategy": "iterative", "temperature": 0.5, "max_steps": 4})
        );
        assert!(temperature("2.1").is_err() && temperature("NaN").is_err() && temperature("2").is_ok());
    }
}
