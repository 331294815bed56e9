//! A reply of the model, as far as the loop uses it.

use goalmill_llm::{Completion, ProviderFields, ResponseFormat, ResponseMode, Tool, ToolCall};
use goalmill_reader::{ParsedCall, ReaderLimits, ToolCatalogue, parse_calls};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The part of a completion that the loop uses; recorded as the outcome of the call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ModelReply {
    pub(super) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
    /// The reply ended early.
    #[serde(default)]
    pub(super) is_cut: bool,
    /// Calls stand in the text, so results are sent as texts.
    #[serde(default)]
    pub(super) is_text: bool,
    /// Name of the model in the settings.
    pub(super) model: String,
    /// What the server wants back with the calls.
    #[serde(default, skip_serializing_if = "ProviderFields::is_empty")]
    pub(super) provider_fields: ProviderFields,
}

impl ModelReply {
    pub(super) fn read(completion: &Completion, format: &ResponseFormat) -> Self {
        let (text, tool_calls) = match format {
            // Some models write calls as text although the server has tools.
            ResponseFormat::Tools { tools, .. } if completion.tool_calls.is_empty() => {
                (completion.text.clone(), written_calls(&completion.text, tools))
            }
            ResponseFormat::Tools { .. } => (completion.text.clone(), completion.tool_calls.clone()),
            ResponseFormat::Json { .. } | ResponseFormat::Text => (completion.content().to_owned(), Vec::new()),
        };
        let is_text = completion.mode == ResponseMode::Text || completion.tool_calls.is_empty();
        Self {
            text,
            tool_calls,
            is_cut: completion.is_truncated(),
            is_text,
            model: completion.model.clone(),
            provider_fields: completion.provider_fields.clone(),
        }
    }
}

/// Parses the calls of known tools that a model wrote as text.
pub fn written_calls(text: &str, tools: &[Tool]) -> Vec<ToolCall> {
    let known = ToolCatalogue::from_schemas(tools.iter().map(|tool| (tool.name.as_str(), Some(&tool.parameters))));
    let reading = parse_calls(text, &known, &ReaderLimits::default());
    let call = |(at, call): (usize, ParsedCall)| ToolCall {
        id: format!("call_{at}"),
        name: call.name,
        arguments: Value::Object(call.arguments).to_string(),
        ..ToolCall::default()
    };
    reading.calls.into_iter().filter(|call| call.known).enumerate().map(call).collect()
}
