//! How the form of an answer is asked for, and what each model was found to take.
//!
//! ```text
//! a schema:  json_schema ─▶ forced tool call ─▶ json_object + schema in the prompt ─▶ text + schema in the prompt
//! tools:     tools ─▶ text + tools in the prompt
//! ```
//!
//! A refusal (400, 404, 405, 415, 422, 501) that is not about the length of the prompt steps down; the step is
//! remembered only when the lower rung then works, so that a request which is wrong by itself teaches nothing. A
//! rung whose answers cannot be read twice in a row is left as well: servers take schemas and ignore them.

use goalmill_common::config::Dialect;
use serde::{Deserialize, Serialize};

use crate::ask::Want;

/// How the form of an answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The server holds the model to the schema.
    JsonSchema,
    /// The schema is that of a tool which must be called.
    ForcedTool,
    /// The server promises some JSON object; the prompt holds the schema.
    JsonObject,
    /// Tools, as the server has them.
    Tools,
    /// Nothing but the prompt.
    Text,
}

impl Rung {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::ForcedTool => "forced_tool",
            Self::JsonObject => "json_object",
            Self::Tools => "tools",
            Self::Text => "text",
        }
    }
}

/// The rungs for what is wanted, from the top; never empty.
///
/// Anthropic has no `json_object`, and a tool is its way to a schema; Ollama cannot force a tool.
pub fn rungs(want: &Want, dialect: Dialect) -> &'static [Rung] {
    use Rung::{ForcedTool, JsonObject, JsonSchema, Text, Tools};
    match (want, dialect) {
        (Want::Text, _) => &[Text],
        (Want::Tools { .. }, _) => &[Tools, Text],
        (Want::Json { .. }, Dialect::Openai) => &[JsonSchema, ForcedTool, JsonObject, Text],
        (Want::Json { .. }, Dialect::Anthropic) => &[ForcedTool, Text],
        (Want::Json { .. }, Dialect::Ollama) => &[JsonSchema, JsonObject, Text],
    }
}

/// What is remembered is tried again from the top after this long: servers learn. Milliseconds.
const MEMORY_MS: u64 = 3_600_000;
/// Unreadable answers in a row that make a rung be left.
const UNREADABLE_MAX: u32 = 2;

/// What one model was found to take. Pure: the caller has the clock.
#[derive(Clone, Debug, Default)]
pub struct Ladder {
    json: Memory,
    tools: Memory,
    pub habits: Habits,
}

#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// The rung to begin with, and until when.
    start: Option<(Rung, u64)>,
    unreadable: u32,
}

/// Ways in which a server differs from what it imitates; found out by refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Wants `max_completion_tokens` in place of `max_tokens`.
    pub completion_tokens: bool,
    /// Takes no temperature.
    pub no_temperature: bool,
    /// Takes no `stream_options`.
    pub no_stream_options: bool,
    /// Takes no `strict` beside a schema.
    pub no_strict: bool,
}

impl Habits {
    /// What else to do after a refusal with this text; `None` when it names nothing that can be left out.
    pub fn after(self, refusal: &str) -> Option<Self> {
        let text = refusal.to_ascii_lowercase();
        let mut next = self;
        if text.contains("max_completion_tokens") {
            next.completion_tokens = true;
        }
        if text.contains("temperature") {
            next.no_temperature = true;
        }
        if text.contains("stream_options") {
            next.no_stream_options = true;
        }
        if text.contains("'strict'") || text.contains("`strict`") || text.contains("\"strict\"") {
            next.no_strict = true;
        }
        (next != self).then_some(next)
    }
}

impl Ladder {
    /// The rungs to try, the first one first.
    pub fn rungs(&self, want: &Want, dialect: Dialect, now_ms: u64) -> &'static [Rung] {
        let all = rungs(want, dialect);
        let start = self.memory(want).and_then(|memory| memory.start).filter(|(_, until)| now_ms < *until);
        let at = start.and_then(|(rung, _)| all.iter().position(|known| *known == rung));
        &all[at.unwrap_or(0)..]
    }

    /// A rung worked after those above it were refused.
    pub fn settle_on(&mut self, want: &Want, rung: Rung, now_ms: u64) {
        if let Some(memory) = self.memory_mut(want) {
            *memory = Memory { start: Some((rung, now_ms.saturating_add(MEMORY_MS))), unreadable: 0 };
        }
    }

    /// An answer was got on this rung, and could be read or not.
    pub fn read(&mut self, rung: Rung, dialect: Dialect, readable: bool, now_ms: u64) {
        let all: &[Rung] = match rung {
            Rung::Text => return,
            Rung::Tools => &[Rung::Tools, Rung::Text],
            Rung::JsonSchema | Rung::ForcedTool | Rung::JsonObject => json_rungs(dialect),
        };
        let memory = if rung == Rung::Tools { &mut self.tools } else { &mut self.json };
        if readable {
            memory.unreadable = 0;
            return;
        }
        memory.unreadable += 1;
        let below = all.iter().position(|known| *known == rung).and_then(|at| all.get(at + 1));
        if let Some(below) = below.filter(|_| memory.unreadable >= UNREADABLE_MAX) {
            *memory = Memory { start: Some((*below, now_ms.saturating_add(MEMORY_MS))), unreadable: 0 };
        }
    }

    fn memory(&self, want: &Want) -> Option<&Memory> {
        match want {
            Want::Text => None,
            Want::Json { .. } => Some(&self.json),
            Want::Tools { .. } => Some(&self.tools),
        }
    }

    fn memory_mut(&mut self, want: &Want) -> Option<&mut Memory> {
        match want {
            Want::Text => None,
            Want::Json { .. } => Some(&mut self.json),
            Want::Tools { .. } => Some(&mut self.tools),
        }
    }
}

fn json_rungs(dialect: Dialect) -> &'static [Rung] {
    rungs(&Want::Json { name: String::new(), schema: serde_json::Value::Null }, dialect)
}

/// Whether a refusal may be about how the answer was asked for, and not about what is asked.
pub fn may_be_about_form(status: u16, reason: &str) -> bool {
    const OF_CONTENT: &[&str] = &[
        "context length",
        "context_length",
        "context window",
        "too long",
        "too many tokens",
        "content policy",
        "content_filter",
        "not found",
        "does not exist",
    ];
    let reason = reason.to_ascii_lowercase();
    matches!(status, 400 | 404 | 405 | 415 | 422 | 501) && !OF_CONTENT.iter().any(|phrase| reason.contains(phrase))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ask::ToolChoice;

    fn want() -> Want {
        Want::Json { name: "plan".into(), schema: json!({}) }
    }

    #[test]
    fn what_worked_is_remembered_for_its_kind_of_answer_and_a_while() {
        let mut ladder = Ladder::default();
        assert_eq!(ladder.rungs(&want(), Dialect::Openai, 0)[0], Rung::JsonSchema);
        ladder.settle_on(&want(), Rung::JsonObject, 0);
        assert_eq!(ladder.rungs(&want(), Dialect::Openai, 1), [Rung::JsonObject, Rung::Text]);
        let tools = Want::Tools { tools: Vec::new(), choice: ToolChoice::Auto };
        assert_eq!(ladder.rungs(&tools, Dialect::Openai, 1), [Rung::Tools, Rung::Text]);
        assert_eq!(ladder.rungs(&want(), Dialect::Openai, MEMORY_MS)[0], Rung::JsonSchema);
    }

    #[test]
    fn a_rung_whose_answers_cannot_be_read_is_left() {
        let mut ladder = Ladder::default();
        ladder.read(Rung::JsonSchema, Dialect::Openai, false, 0);
        ladder.read(Rung::JsonSchema, Dialect::Openai, true, 0);
        ladder.read(Rung::JsonSchema, Dialect::Openai, false, 0);
        assert_eq!(ladder.rungs(&want(), Dialect::Openai, 1)[0], Rung::JsonSchema);
        ladder.read(Rung::JsonSchema, Dialect::Openai, false, 0);
        assert_eq!(ladder.rungs(&want(), Dialect::Openai, 1)[0], Rung::ForcedTool);
        (0..9).for_each(|_| ladder.read(Rung::Text, Dialect::Openai, false, 0));
        assert_eq!(ladder.rungs(&want(), Dialect::Openai, 1)[0], Rung::ForcedTool);
    }

    #[test]
    fn refusals_about_the_prompt_are_told_from_those_about_the_form() {
        assert!(may_be_about_form(400, "This response_format type is unavailable now"));
        assert!(may_be_about_form(422, "[{'loc': ['body', 'tool_choice']}]"));
        assert!(!may_be_about_form(400, "This model's maximum context length is 8192 tokens"));
        assert!(!may_be_about_form(401, "response_format"));
    }

    #[test]
    fn habits_are_learned_from_refusals_once() {
        let refusal = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
        let learned = Habits::default().after(refusal).expect("it names something");
        assert!(learned.completion_tokens);
        assert_eq!(learned.after(refusal), None);
        assert_eq!(Habits::default().after("no"), None);
    }
}
