//! A reply of the model, as far as the loop uses it.

use goalmill_llm::{Completion, ProviderFields, ResponseFormat, ResponseMode, Tool, ToolCall};
use goalmill_reader::{ParsedCall, ReaderLimits, ToolCatalogue, WrittenCalls, parse_written_calls};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FINAL_ANSWER;

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
    /// The text has calls of tools beside other words, so they are not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) mentions_calls: bool,
    /// Name of the model in the settings.
    pub(super) model: String,
    /// What the server wants back with the calls.
    #[serde(default, skip_serializing_if = "ProviderFields::is_empty")]
    pub(super) provider_fields: ProviderFields,
}

impl ModelReply {
    pub(super) fn from_completion(completion: &Completion, format: &ResponseFormat) -> Self {
        let mut mentions_calls = false;
        let (text, tool_calls) = match format {
            // Some models write calls as text although the server has tools.
            ResponseFormat::Tools { tools, .. } if completion.tool_calls.is_empty() => {
                let written = read_calls(&completion.text, tools);
                mentions_calls = matches!(written, WrittenCalls::Among(_));
                (completion.text.clone(), tool_calls(written))
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
            mentions_calls,
            model: completion.model.clone(),
            provider_fields: completion.provider_fields.clone(),
        }
    }
}

/// Returns the calls of known tools in a text that consists of nothing else. What a text quotes is no call.
pub fn written_calls(text: &str, tools: &[Tool]) -> Vec<ToolCall> {
    tool_calls(read_calls(text, tools))
}

fn read_calls(text: &str, tools: &[Tool]) -> WrittenCalls {
    let known = ToolCatalogue::from_schemas(tools.iter().map(|tool| (tool.name.as_str(), Some(&tool.parameters))));
    parse_written_calls(text, &known, &ReaderLimits::default())
}

/// The calls that may be run. An answer among other words is an answer all the same: nothing is run for it.
fn tool_calls(written: WrittenCalls) -> Vec<ToolCall> {
    let calls = match written {
        WrittenCalls::None => Vec::new(),
        WrittenCalls::Only(calls) => calls,
        WrittenCalls::Among(calls) if calls.iter().all(|call| call.name == FINAL_ANSWER) => calls,
        WrittenCalls::Among(_) => Vec::new(),
    };
    let call = |(at, call): (usize, ParsedCall)| ToolCall {
        id: format!("call_{at}"),
        name: call.name,
        arguments: Value::Object(call.arguments).to_string(),
        ..ToolCall::default()
    };
    calls.into_iter().enumerate().map(call).collect()
}
