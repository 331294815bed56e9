//! Settings of one agent type of kind `llm`.

use std::collections::BTreeMap;

use goalmill_llm::ModelTier;
use serde::Deserialize;
use serde_json::Value;

use crate::tools::ToolSettings;

/// An entry of `worker.agents` with the kind `llm`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentSettings {
    /// The system prompt, a template: `agent_type`, `action`, `action_description`, `step`, `plan` and `today` are
    /// known.
    pub system: String,
    /// The only model to ask (its name in the settings); any model if missing.
    #[serde(default)]
    pub model: Option<String>,
    /// The group of models to prefer.
    #[serde(default = "strong")]
    pub tier: ModelTier,
    /// 0 to 2; the default of the server if missing.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Maximum tokens of one reply; the setting of the model if missing.
    #[serde(default)]
    pub output_tokens_max: Option<u64>,
    /// JSON Schema of the answer, if neither the step nor the action of the card has one.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// The tools that the model may call.
    #[serde(default)]
    pub tools: Vec<ToolSettings>,
    /// MCP servers by the prefix of their tools; the fields are those of the executor `mcp`.
    #[serde(default)]
    pub mcp: BTreeMap<String, Value>,
    /// Whether what the model writes is shown as progress of the step.
    #[serde(default)]
    pub stream: bool,
    #[serde(default)]
    pub limits: AgentLimits,
}

/// Limits of one step.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentLimits {
    /// Calls of the model.
    pub turns: u32,
    /// Tokens of all calls of the model.
    pub tokens: u64,
    /// US dollars of all calls of the model; no limit if missing.
    pub cost: Option<f64>,
    /// Seconds of one attempt; the time limit of the step applies too.
    pub seconds: u64,
    /// Invalid answers that the model may correct.
    pub repairs: u32,
    /// Tool calls in one reply of the model; further ones are refused.
    pub calls_per_turn: usize,
    /// Bytes of one tool result; longer ones are cut.
    pub result_bytes: usize,
    /// Bytes of the inputs in the prompt; longer ones are cut.
    pub inputs_bytes: usize,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            turns: 20,
            tokens: 200_000,
            cost: None,
            seconds: 600,
            repairs: 2,
            calls_per_turn: 8,
            result_bytes: 32 << 10,
            inputs_bytes: 128 << 10,
        }
    }
}

impl AgentSettings {
    /// The violated condition, as a sentence that begins with the field.
    pub fn violation(&self) -> Option<&'static str> {
        let limits = &self.limits;
        let checks = [
            (!self.system.trim().is_empty(), "`system` must not be empty"),
            (self.temperature.is_none_or(|t| (0.0..=2.0).contains(&t)), "`temperature` must be within 0 and 2"),
            (self.output_tokens_max != Some(0), "`output_tokens_max` must be above 0"),
            ((1..=200).contains(&limits.turns), "`limits.turns` must be within 1 and 200"),
            (limits.tokens > 0, "`limits.tokens` must be above 0"),
            (limits.cost.is_none_or(|c| c.is_finite() && c >= 0.0), "`limits.cost` must not be negative"),
            (limits.seconds > 0, "`limits.seconds` must be above 0"),
            (limits.repairs <= 20, "`limits.repairs` must be at most 20"),
            ((1..=64).contains(&limits.calls_per_turn), "`limits.calls_per_turn` must be within 1 and 64"),
            ((256..=1 << 20).contains(&limits.result_bytes), "`limits.result_bytes` must be within 256 and 1048576"),
            ((256..=2 << 20).contains(&limits.inputs_bytes), "`limits.inputs_bytes` must be within 256 and 2097152"),
        ];
        checks.iter().find(|(holds, _)| !holds).map(|(_, text)| *text)
    }
}

fn strong() -> ModelTier {
    ModelTier::Strong
}
