//! Response modes: the ways to request a format, and the way that each model was found to support.
//!
//! ```text
//! schema:  json_schema ─▶ forced tool call ─▶ json_object + schema in the prompt ─▶ text + schema in the prompt
//! tools:   tools ─▶ text + tools in the prompt
//! ```
//!
//! A rejection (400, 404, 405, 415, 422, 501) that is not about the length of the prompt falls back to the next mode.
//! The fallback is remembered only if the next mode then works, so an invalid request has no lasting effect. Two
//! consecutive unparseable completions also cause a fallback, because some servers accept schemas and ignore them.

use goalmill_common::config::Dialect;

use crate::request::ResponseFormat;
use crate::response_mode::ResponseMode;

/// The modes for a response format, best first; never empty.
///
/// Anthropic has no `json_object` and takes a schema as a tool; Ollama cannot force a tool.
pub fn modes_for(format: &ResponseFormat, dialect: Dialect) -> &'static [ResponseMode] {
    use ResponseMode::{ForcedTool, JsonObject, JsonSchema, Text, Tools};
    match (format, dialect) {
        (ResponseFormat::Text, _) => &[Text],
        (ResponseFormat::Tools { .. }, _) => &[Tools, Text],
        (ResponseFormat::Json { .. }, Dialect::Openai | Dialect::Responses) => {
            &[JsonSchema, ForcedTool, JsonObject, Text]
        }
        (ResponseFormat::Json { .. }, Dialect::Anthropic) => &[ForcedTool, Text],
        (ResponseFormat::Json { .. }, Dialect::Ollama) => &[JsonSchema, JsonObject, Text],
    }
}

/// A remembered fallback expires after this time, in milliseconds.
const MEMORY_MS: u64 = 3_600_000;
/// Consecutive unparseable completions that cause a fallback.
const UNPARSEABLE_MAX: u32 = 2;

/// The modes that one model supports, as observed. Pure: the caller passes the time.
#[derive(Clone, Debug, Default)]
pub struct FallbackModes {
    json: RememberedMode,
    tools: RememberedMode,
    pub quirks: ServerQuirks,
}

#[derive(Clone, Copy, Debug, Default)]
struct RememberedMode {
    /// The mode to start with, and when this expires.
    start: Option<(ResponseMode, u64)>,
    unparseable: u32,
}

/// Deviations of a server from the API that it imitates, learned from its rejections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerQuirks {
    /// Requires `max_completion_tokens` instead of `max_tokens`.
    pub completion_tokens: bool,
    /// Rejects `temperature`.
    pub no_temperature: bool,
    /// Rejects `stream_options`.
    pub no_stream_options: bool,
    /// Rejects `strict` beside a schema.
    pub no_strict: bool,
    /// Enforces no more than the strict subset of JSON Schema.
    pub strict_subset: bool,
    /// Tokens of the longest answer of the model.
    pub output_tokens_max: Option<u64>,
}

impl ServerQuirks {
    /// Adds the deviation that a rejection names; `None` when it names no new one.
    ///
    /// - `output_tokens`: of the longest answer that was asked for.
    pub fn learn_from_rejection(self, refusal: &str, output_tokens: u64) -> Option<Self> {
        let text = refusal.to_ascii_lowercase();
        let mut next = self;
        if ["max_tokens", "max_completion_tokens", "max_output_tokens"].iter().any(|word| text.contains(word)) {
            next.output_tokens_max = named_limit(&text, output_tokens).or(next.output_tokens_max);
        }
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
        if ["prefixitems", "'pattern'", "maxlength", "minlength", "grammar"].iter().any(|word| text.contains(word)) {
            next.strict_subset = true;
        }
        (next != self).then_some(next)
    }
}

/// The largest number in a text below the one that was asked for; small numbers are no limits.
fn named_limit(text: &str, asked: u64) -> Option<u64> {
    const LEAST: u64 = 256;
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    numbers.filter(|number| (LEAST..asked).contains(number)).max()
}

impl FallbackModes {
    /// The modes to try, in order.
    pub fn modes(&self, format: &ResponseFormat, dialect: Dialect, now_ms: u64) -> &'static [ResponseMode] {
        let all = modes_for(format, dialect);
        let start = self.memory(format).and_then(|memory| memory.start).filter(|(_, until)| now_ms < *until);
        let at = start.and_then(|(mode, _)| all.iter().position(|known| *known == mode));
        &all[at.unwrap_or(0)..]
    }

    /// Remembers a mode that worked after better ones were rejected.
    pub fn remember_mode(&mut self, format: &ResponseFormat, mode: ResponseMode, now_ms: u64) {
        if let Some(memory) = self.memory_mut(format) {
            *memory = RememberedMode { start: Some((mode, now_ms.saturating_add(MEMORY_MS))), unparseable: 0 };
        }
    }

    /// Records whether a completion in this mode could be parsed; falls back after several that could not.
    pub fn record_parse(&mut self, mode: ResponseMode, dialect: Dialect, parsed: bool, now_ms: u64) {
        let all: &[ResponseMode] = match mode {
            ResponseMode::Text => return,
            ResponseMode::Tools => &[ResponseMode::Tools, ResponseMode::Text],
            ResponseMode::JsonSchema | ResponseMode::ForcedTool | ResponseMode::JsonObject => json_modes(dialect),
        };
        let memory = if mode == ResponseMode::Tools { &mut self.tools } else { &mut self.json };
        if parsed {
            memory.unparseable = 0;
            return;
        }
        memory.unparseable += 1;
        let below = all.iter().position(|known| *known == mode).and_then(|at| all.get(at + 1));
        if let Some(below) = below.filter(|_| memory.unparseable >= UNPARSEABLE_MAX) {
            *memory = RememberedMode { start: Some((*below, now_ms.saturating_add(MEMORY_MS))), unparseable: 0 };
        }
    }

    fn memory(&self, format: &ResponseFormat) -> Option<&RememberedMode> {
        match format {
            ResponseFormat::Text => None,
            ResponseFormat::Json { .. } => Some(&self.json),
            ResponseFormat::Tools { .. } => Some(&self.tools),
        }
    }

    fn memory_mut(&mut self, format: &ResponseFormat) -> Option<&mut RememberedMode> {
        match format {
            ResponseFormat::Text => None,
            ResponseFormat::Json { .. } => Some(&mut self.json),
            ResponseFormat::Tools { .. } => Some(&mut self.tools),
        }
    }
}

fn json_modes(dialect: Dialect) -> &'static [ResponseMode] {
    modes_for(&ResponseFormat::Json { name: String::new(), schema: serde_json::Value::Null.into() }, dialect)
}

/// Whether a rejection may concern the response format rather than the content of the prompt.
pub fn is_format_rejection(status: u16, reason: &str) -> bool {
    const OF_CONTENT: &[&str] = &[
        "context length", "context_length", "context window", "too long", "too many tokens", "content policy",
        "content_filter", "not found", "does not exist",
    ];
    let reason = reason.to_ascii_lowercase();
    matches!(status, 400 | 404 | 405 | 415 | 422 | 501) && !OF_CONTENT.iter().any(|phrase| reason.contains(phrase))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::ToolChoice;

    fn format() -> ResponseFormat {
        ResponseFormat::Json { name: "plan".into(), schema: json!({}).into() }
    }

    #[test]
    fn a_working_mode_is_remembered_per_format_until_it_expires() {
        let mut modes = FallbackModes::default();
        assert_eq!(modes.modes(&format(), Dialect::Openai, 0)[0], ResponseMode::JsonSchema);
        modes.remember_mode(&format(), ResponseMode::JsonObject, 0);
        assert_eq!(modes.modes(&format(), Dialect::Openai, 1), [ResponseMode::JsonObject, ResponseMode::Text]);
        let tools = ResponseFormat::Tools { tools: Vec::new(), choice: ToolChoice::Auto };
        assert_eq!(modes.modes(&tools, Dialect::Openai, 1), [ResponseMode::Tools, ResponseMode::Text]);
        assert_eq!(modes.modes(&format(), Dialect::Openai, MEMORY_MS)[0], ResponseMode::JsonSchema);
    }

    #[test]
    fn unparseable_completions_cause_a_fallback() {
        let mut modes = FallbackModes::default();
        modes.record_parse(ResponseMode::JsonSchema, Dialect::Openai, false, 0);
        modes.record_parse(ResponseMode::JsonSchema, Dialect::Openai, true, 0);
        modes.record_parse(ResponseMode::JsonSchema, Dialect::Openai, false, 0);
        assert_eq!(modes.modes(&format(), Dialect::Openai, 1)[0], ResponseMode::JsonSchema);
        modes.record_parse(ResponseMode::JsonSchema, Dialect::Openai, false, 0);
        assert_eq!(modes.modes(&format(), Dialect::Openai, 1)[0], ResponseMode::ForcedTool);
        (0..9).for_each(|_| modes.record_parse(ResponseMode::Text, Dialect::Openai, false, 0));
        assert_eq!(modes.modes(&format(), Dialect::Openai, 1)[0], ResponseMode::ForcedTool);
    }

    #[test]
    fn rejections_of_the_prompt_are_distinguished_from_those_of_the_format() {
        assert!(is_format_rejection(400, "This response_format type is unavailable now"));
        assert!(is_format_rejection(422, "[{'loc': ['body', 'tool_choice']}]"));
        assert!(!is_format_rejection(400, "This model's maximum context length is 8192 tokens"));
        assert!(!is_format_rejection(401, "response_format"));
    }

    #[test]
    fn quirks_are_learned_from_rejections_once() {
        let refusal = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
        let learned = ServerQuirks::default().learn_from_rejection(refusal, 4_096).expect("it names something");
        assert!(learned.completion_tokens && learned.output_tokens_max.is_none());
        assert_eq!(learned.learn_from_rejection(refusal, 4_096), None);
        assert_eq!(ServerQuirks::default().learn_from_rejection("no", 4_096), None);
        for refusal in [
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens.",
            "max_tokens: 32000 > 16384, which is the maximum allowed number of output tokens",
            "Invalid max_tokens value, the valid range of max_tokens is [1, 16384]",
        ] {
            let learned = ServerQuirks::default().learn_from_rejection(refusal, 32_000).expect(refusal);
            assert_eq!(learned.output_tokens_max, Some(16_384), "{refusal}");
            assert_eq!(learned.learn_from_rejection(refusal, 16_384), None, "{refusal}");
        }
    }
}
