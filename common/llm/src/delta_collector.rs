//! Assembles a completion from deltas. No tool call is lost, however servers index its fragments.

use serde_json::{Map, Value};

use crate::completion::FinishReason;
use crate::completion_delta::{CompletionDelta, ServerError, ToolCallFragment};
use crate::message::{ToolCall, merge_field};
use crate::token_estimate::estimate_tokens;
use crate::usage::ReportedUsage;

/// The part of a completion that was received so far.
#[derive(Clone, Debug, Default)]
pub struct DeltaCollector {
    pub text: String,
    pub thinking: String,
    pub refusal: String,
    pub finish: Option<FinishReason>,
    pub usage: ReportedUsage,
    pub served_by: String,
    pub error: Option<ServerError>,
    /// What the server wants back with the tool calls.
    pub provider_fields: Map<String, Value>,
    calls: Vec<(Option<u64>, ToolCall)>,
}

impl DeltaCollector {
    pub fn push(&mut self, delta: &CompletionDelta) {
        match delta {
            CompletionDelta::Text(text) => self.text.push_str(text),
            CompletionDelta::Thinking(text) => self.thinking.push_str(text),
            CompletionDelta::Refusal(text) => self.refusal.push_str(text),
            CompletionDelta::ToolCall(fragment) => self.push_fragment(fragment),
            CompletionDelta::ProviderField(field, value) => merge_field(&mut self.provider_fields, field, value),
            CompletionDelta::Usage(reported) => {
                let known = self.usage;
                self.usage = ReportedUsage {
                    input_tokens: reported.input_tokens.or(known.input_tokens),
                    output_tokens: reported.output_tokens.or(known.output_tokens),
                    cached_tokens: reported.cached_tokens.or(known.cached_tokens),
                    stored_tokens: reported.stored_tokens.or(known.stored_tokens),
                };
            }
            CompletionDelta::ServedBy(model) => self.served_by.clone_from(model),
            CompletionDelta::Finish(finish) => self.finish = Some(finish.clone()),
            CompletionDelta::Error(error) => self.error = Some(error.clone()),
            CompletionDelta::Started { .. } | CompletionDelta::Ended(_) => {}
        }
    }

    /// Whether any content was received.
    pub fn has_content(&self) -> bool {
        !(self.text.is_empty() && self.thinking.is_empty() && self.refusal.is_empty() && self.calls.is_empty())
    }

    /// The calls in the order of their first fragments; a call without an id gets one of its position.
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        let named = |(at, (_, call)): (usize, &(Option<u64>, ToolCall))| {
            let id = if call.id.is_empty() { format!("call-{at}") } else { call.id.clone() };
            ToolCall { id, ..call.clone() }
        };
        self.calls.iter().enumerate().map(named).collect()
    }

    fn push_fragment(&mut self, fragment: &ToolCallFragment) {
        let at = self.call_of(fragment).unwrap_or_else(|| {
            self.calls.push((fragment.index, ToolCall::default()));
            self.calls.len() - 1
        });
        let call = &mut self.calls[at].1;
        if call.id.is_empty() {
            call.id.clone_from(&fragment.id);
        }
        if call.name.is_empty() {
            call.name.clone_from(&fragment.name);
        }
        call.arguments.push_str(&fragment.arguments);
        for (field, value) in &fragment.provider_fields {
            merge_field(&mut call.provider_fields, field, value);
        }
    }

    /// The position of the call that the fragment continues; `None` when it starts a new one.
    ///
    /// Most servers index calls and send each name once. Some send index 0 for all calls and distinguish them by id;
    /// some send neither, and then a name starts a call.
    fn call_of(&self, fragment: &ToolCallFragment) -> Option<usize> {
        let is_other = |call: &ToolCall| !fragment.id.is_empty() && !call.id.is_empty() && call.id != fragment.id;
        match fragment.index {
            Some(index) => self
                .calls
                .iter()
                .rposition(|(known, _)| *known == Some(index))
                .filter(|at| fragment.name.is_empty() || !is_other(&self.calls[*at].1)),
            None if !fragment.id.is_empty() => self.calls.iter().rposition(|(_, call)| call.id == fragment.id),
            None if fragment.name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        }
    }
}

/// Estimated tokens of a delta.
pub fn delta_tokens(delta: &CompletionDelta) -> u64 {
    match delta {
        CompletionDelta::Text(text) | CompletionDelta::Thinking(text) | CompletionDelta::Refusal(text) => {
            estimate_tokens(text)
        }
        CompletionDelta::ToolCall(fragment) => estimate_tokens(&fragment.name) + estimate_tokens(&fragment.arguments),
        CompletionDelta::Started { .. }
        | CompletionDelta::ProviderField(..)
        | CompletionDelta::Usage(_)
        | CompletionDelta::ServedBy(_)
        | CompletionDelta::Finish(_)
        | CompletionDelta::Error(_)
        | CompletionDelta::Ended(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(fragments: &[(Option<u64>, &str, &str, &str)]) -> Vec<(String, String, String)> {
        let mut all = DeltaCollector::default();
        for (index, id, name, arguments) in fragments.iter().copied() {
            let fragment = ToolCallFragment {
                index,
                id: id.into(),
                name: name.into(),
                arguments: arguments.into(),
                ..ToolCallFragment::default()
            };
            all.push(&CompletionDelta::ToolCall(fragment));
        }
        all.tool_calls().into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.into(), name.into(), arguments.into())
    }

    #[test]
    fn fragments_are_joined_to_their_call() {
        let two = [call("a", "f", "{\"x\":1}"), call("b", "g", "{}")];
        let counted = [
            (Some(0), "a", "f", ""),
            (Some(1), "b", "g", "{"),
            (Some(0), "", "", "{\"x\":"),
            (Some(1), "", "", "}"),
            (Some(0), "", "", "1}"),
        ];
        assert_eq!(collected(&counted), two);
        let repeated = [(Some(0), "a", "f", "{\"x\":"), (Some(0), "a", "f", "1}"), (Some(1), "b", "g", "{}")];
        assert_eq!(collected(&repeated), two);
        let all_zero = [(Some(0), "a", "f", "{\"x\":1"), (Some(0), "", "", "}"), (Some(0), "b", "g", "{}")];
        assert_eq!(collected(&all_zero), two);
        let by_id = [(None, "a", "f", "{\"x\":"), (None, "a", "", "1}"), (None, "b", "g", "{}")];
        assert_eq!(collected(&by_id), two);
    }

    #[test]
    fn without_index_and_id_a_name_starts_a_call() {
        let pieces = [(None, "", "f", "{"), (None, "", "", "}"), (None, "", "f", "{}"), (None, "", "g", "")];
        assert_eq!(collected(&pieces), [call("call-0", "f", "{}"), call("call-1", "f", "{}"), call("call-2", "g", "")]);
    }

    #[test]
    fn a_call_without_a_first_fragment_is_kept() {
        assert_eq!(collected(&[(None, "", "", "{\"a\":1}")]), [call("call-0", "", "{\"a\":1}")]);
    }
}
