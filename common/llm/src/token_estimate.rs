//! Estimates token counts, for reservations and for servers that report no usage.

use crate::message::Message;
use crate::request::{CompletionRequest, ResponseFormat};
use crate::usage::TokenUsage;

/// ASCII bytes per token. English prose has about four, JSON and code about three; the lower value overestimates,
/// which is the safe side.
const ASCII_BYTES: u64 = 3;
/// Tokens of a message besides its text.
const MESSAGE_OVERHEAD: u64 = 4;

/// Tokens of a text: a third of its ASCII bytes, and one for each other character.
pub fn estimate_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(ASCII_BYTES) + others
}

/// Tokens of the whole prompt: messages, schema and tools. A schema counts in its form for prompts, which is also what a
/// server falls back to; a grammar takes no tokens.
pub fn estimate_prompt_tokens(request: &CompletionRequest) -> u64 {
    let calls = |message: &Message| match message {
        Message::Assistant { tool_calls, .. } => tool_calls
            .iter()
            .map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments) + MESSAGE_OVERHEAD)
            .sum(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => 0,
    };
    let messages: u64 = request.messages.iter().map(|m| estimate_tokens(m.text()) + calls(m) + MESSAGE_OVERHEAD).sum();
    let format = match &request.format {
        ResponseFormat::Text => 0,
        ResponseFormat::Json { schema, .. } => estimate_tokens(&schema.prompt().to_string()),
        ResponseFormat::Tools { tools, .. } => {
            let one = |tool: &crate::request::Tool| {
                estimate_tokens(&tool.name)
                    + estimate_tokens(&tool.description)
                    + estimate_tokens(&tool.parameters.to_string())
                    + MESSAGE_OVERHEAD
            };
            tools.iter().map(one).sum()
        }
    };
    messages + format
}

/// Maximum usage of a call.
pub fn max_usage(request: &CompletionRequest, output_tokens_max: u64) -> TokenUsage {
    TokenUsage { input_tokens: estimate_prompt_tokens(request), output_tokens: output_tokens_max, estimated: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_exceed_the_counts_of_tokenizers() {
        assert!(estimate_tokens("Plan a 3-day trip to Paris in May with a $2000 budget") >= 16);
        assert_eq!(estimate_tokens("巴黎三日游"), 5);
        assert_eq!(estimate_tokens(""), 0);
        let request = CompletionRequest::new(vec![Message::user("abc"), Message::system("")], ResponseFormat::Text);
        assert_eq!(estimate_prompt_tokens(&request), 1 + MESSAGE_OVERHEAD + MESSAGE_OVERHEAD);
    }
}
