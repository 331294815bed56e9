//! Puts the pieces of an answer together. No tool call is lost, however its pieces are marked.

use crate::answer::{CallFragment, Delta, Finish, ServerError};
use crate::message::ToolCall;
use crate::tokens;
use crate::usage::SaidUsage;

/// What has come of an answer so far.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    pub text: String,
    pub thinking: String,
    pub refusal: String,
    pub finish: Option<Finish>,
    pub usage: SaidUsage,
    pub served_by: String,
    pub error: Option<ServerError>,
    calls: Vec<(Option<u64>, ToolCall)>,
}

impl Collected {
    pub fn take(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.text.push_str(text),
            Delta::Thinking(text) => self.thinking.push_str(text),
            Delta::Refusal(text) => self.refusal.push_str(text),
            Delta::Call(fragment) => self.call(fragment),
            Delta::Usage(said) => {
                self.usage.input_tokens = said.input_tokens.or(self.usage.input_tokens);
                self.usage.output_tokens = said.output_tokens.or(self.usage.output_tokens);
            }
            Delta::ServedBy(model) => self.served_by.clone_from(model),
            Delta::Finish(finish) => self.finish = Some(finish.clone()),
            Delta::Error(error) => self.error = Some(error.clone()),
            Delta::Begun { .. } | Delta::Ended(_) => {}
        }
    }

    /// Whether any part of the answer itself has come.
    pub fn has_content(&self) -> bool {
        !(self.text.is_empty() && self.thinking.is_empty() && self.refusal.is_empty() && self.calls.is_empty())
    }

    /// The calls in the order in which they were begun; those without an id get one of their place.
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        let named = |(at, (_, call)): (usize, &(Option<u64>, ToolCall))| {
            let id = if call.id.is_empty() { format!("call-{at}") } else { call.id.clone() };
            ToolCall { id, ..call.clone() }
        };
        self.calls.iter().enumerate().map(named).collect()
    }

    fn call(&mut self, fragment: &CallFragment) {
        let at = self.place_of(fragment).unwrap_or_else(|| {
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
    }

    /// The call that the fragment goes on with; `None` when it begins another one.
    ///
    /// Most servers count calls and name each only once; some give all calls the index 0 and tell them apart by their
    /// ids; some give neither, and then a name begins a call.
    fn place_of(&self, fragment: &CallFragment) -> Option<usize> {
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

/// Tokens that a piece adds to the answer, estimated.
pub fn tokens_in(delta: &Delta) -> u64 {
    match delta {
        Delta::Text(text) | Delta::Thinking(text) | Delta::Refusal(text) => tokens::of_text(text),
        Delta::Call(fragment) => tokens::of_text(&fragment.name) + tokens::of_text(&fragment.arguments),
        Delta::Begun { .. }
        | Delta::Usage(_)
        | Delta::ServedBy(_)
        | Delta::Finish(_)
        | Delta::Error(_)
        | Delta::Ended(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(fragments: &[(Option<u64>, &str, &str, &str)]) -> Vec<(String, String, String)> {
        let mut all = Collected::default();
        for (index, id, name, arguments) in fragments.iter().copied() {
            let fragment = CallFragment { index, id: id.into(), name: name.into(), arguments: arguments.into() };
            all.take(&Delta::Call(fragment));
        }
        all.tool_calls().into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.into(), name.into(), arguments.into())
    }

    #[test]
    fn pieces_of_calls_find_their_call() {
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
    fn without_index_and_id_a_name_begins_a_call() {
        let pieces = [(None, "", "f", "{"), (None, "", "", "}"), (None, "", "f", "{}"), (None, "", "g", "")];
        assert_eq!(collected(&pieces), [call("call-0", "f", "{}"), call("call-1", "f", "{}"), call("call-2", "g", "")]);
    }

    #[test]
    fn a_call_that_begins_in_its_middle_is_kept() {
        assert_eq!(collected(&[(None, "", "", "{\"a\":1}")]), [call("call-0", "", "{\"a\":1}")]);
    }
}
