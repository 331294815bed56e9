//! How many tokens a text has, when nobody says: for reserving money before a call, and for servers that keep silent.

use crate::ask::{Ask, Want};
use crate::message::Message;
use crate::usage::Usage;

/// Bytes of ASCII in a token. English prose has about four, JSON and code about three; fewer estimates too much, which
/// is the side to err on.
const ASCII_BYTES: u64 = 3;
/// What a message costs besides its text.
const FRAME: u64 = 4;

/// Tokens of a text: a third of its ASCII bytes, and one for each other character.
pub fn of_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(ASCII_BYTES) + others
}

/// Tokens of everything that is sent for the question.
pub fn of_ask(ask: &Ask) -> u64 {
    let calls = |message: &Message| match message {
        Message::Assistant { tool_calls, .. } => {
            tool_calls.iter().map(|call| of_text(&call.name) + of_text(&call.arguments) + FRAME).sum()
        }
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => 0,
    };
    let messages: u64 = ask.messages.iter().map(|m| of_text(m.text()) + calls(m) + FRAME).sum();
    let form = match &ask.want {
        Want::Text => 0,
        Want::Json { schema, .. } => of_text(&schema.to_string()),
        Want::Tools { tools, .. } => {
            let one = |tool: &crate::ask::Tool| {
                of_text(&tool.name) + of_text(&tool.description) + of_text(&tool.parameters.to_string()) + FRAME
            };
            tools.iter().map(one).sum()
        }
    };
    messages + form
}

/// The most that a call may take.
pub fn most(ask: &Ask, output_tokens_max: u64) -> Usage {
    Usage { input_tokens: of_ask(ask), output_tokens: output_tokens_max, estimated: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_lie_above_what_tokenizers_give() {
        assert!(of_text("Plan a 3-day trip to Paris in May with a $2000 budget") >= 16);
        assert_eq!(of_text("巴黎三日游"), 5);
        assert_eq!(of_text(""), 0);
        let ask = Ask::new(vec![Message::user("abc"), Message::system("")], Want::Text);
        assert_eq!(of_ask(&ask), 1 + FRAME + FRAME);
    }
}
