//! Tells a text that is nothing but calls from a text that only mentions calls. Only the first kind may be run.

use crate::calls::parse_calls;
use crate::catalogue::ToolCatalogue;
use crate::limits::ReaderLimits;
use crate::reading::ParsedCall;
use crate::span::TextSpan;

/// Tags around what a model thinks before it answers.
const THOUGHTS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];
/// Tags around calls.
const TAGS: [&str; 13] = [
    "tool_call", "tool_calls", "toolcall", "function_call", "function_calls", "functioncall", "function", "tool_use",
    "tool_code", "tools", "invoke", "s", "start_of_turn",
];
/// What DeepSeek's models write at the beginning of the name of each tag.
const TAG_PREFIX: &str = "｜DSML｜";
/// The head and the end of what a model thinks in harmony.
const ANALYSIS: [&str; 2] = ["<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>analysis<|message|>"];
const ANALYSIS_END: &str = "<|end|>";
/// Markers before calls.
const MARKERS: [&str; 4] = ["[TOOL_CALLS]", "[/TOOL_CALLS]", "[TOOL_CALL]", "[/TOOL_CALL]"];
/// Words of tokens around what others said: a person, the prompt, a tool.
const OF_OTHERS: [&str; 7] = ["user", "system", "output", "result", "response", "observation", "ipython"];
/// Keys of a JSON object that holds nothing but a list of calls.
const LIST_KEYS: [&str; 5] =
    ["\"tool_calls\"", "\"tool_call\"", "\"function_calls\"", "\"function_call\"", "\"calls\""];
/// The longest tag or first line of a fence. Bytes.
const MARKUP_MAX: usize = 64;

/// The calls of known actions in a text that a model wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum WrittenCalls {
    /// The text has no call.
    None,
    /// The whole text consists of these calls. Thoughts in tags, code fences, tags around calls and special tokens of
    /// models do not count.
    Only(Vec<ParsedCall>),
    /// The text has these calls and something else: the model may quote them, so they must not be run.
    Among(Vec<ParsedCall>),
}

/// Parses the calls of known actions, and whether the text has anything else.
#[must_use]
pub fn parse_written_calls(text: &str, catalogue: &ToolCatalogue, limits: &ReaderLimits) -> WrittenCalls {
    let text = without_opened_thoughts(text);
    let plain = text.contains(TAG_PREFIX).then(|| text.replace(TAG_PREFIX, ""));
    let text = plain.as_deref().unwrap_or(text);
    let mut calls = parse_calls(text, catalogue, limits).calls;
    calls.retain(|call| call.known);
    if calls.is_empty() {
        return WrittenCalls::None;
    }
    let is_only = calls.iter().all(|call| call.is_alone) && rest_is_markup(text, &calls);
    if is_only { WrittenCalls::Only(calls) } else { WrittenCalls::Among(calls) }
}

/// Returns what follows the thoughts of a model. Thoughts without an end are all there is: nothing follows them.
#[must_use]
pub fn without_thoughts(text: &str) -> &str {
    let text = without_opened_thoughts(text);
    // Some templates write the opening tag into the prompt.
    let closed = THOUGHTS.iter().find_map(|tag| text.rsplit_once(&format!("</{tag}>")));
    closed.map_or(text, |(_, behind)| behind)
}

/// The same, but for thoughts that nothing opens: a text that a model quotes may close them.
fn without_opened_thoughts(text: &str) -> &str {
    let mut text = text;
    loop {
        let begun = text.trim_start();
        let analysis = ANALYSIS.iter().find_map(|head| Some((begun.strip_prefix(head)?, ANALYSIS_END.to_owned())));
        let tagged =
            || THOUGHTS.iter().find_map(|tag| Some((begun.strip_prefix(&format!("<{tag}>"))?, format!("</{tag}>"))));
        let Some((thoughts, end)) = analysis.or_else(tagged) else { return text };
        let Some((_, behind)) = thoughts.split_once(&end) else { return "" };
        text = behind;
    }
}

/// Whether the text outside of the calls says nothing.
fn rest_is_markup(text: &str, calls: &[ParsedCall]) -> bool {
    let mut from = 0;
    for call in calls {
        // Calls that overlap are two readings of one text.
        if call.span.start < from || !is_markup(TextSpan::new(from, call.span.start).slice(text)) {
            return false;
        }
        from = call.span.end;
    }
    is_markup(&text[from..])
}

fn is_markup(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return true;
        }
        let Some(after) = after_markup(rest) else { return false };
        rest = after;
    }
}

/// Returns what follows the piece of markup at the beginning of a text.
fn after_markup(text: &str) -> Option<&str> {
    if let Some(fence) = text.strip_prefix("```") {
        let line = fence.find(['\n', '<']).unwrap_or(fence.len());
        let is_info = |info: &str| info.len() <= MARKUP_MAX && info.chars().all(|c| c.is_alphanumeric() || c == '_');
        return is_info(fence[..line].trim()).then(|| &fence[line..]);
    }
    if let Some(tag) = text.strip_prefix('<') {
        let end = tag.find('>').filter(|end| *end <= MARKUP_MAX)?;
        let name = tag[..end].trim_matches('/').trim();
        let is_token = name.len() > 2
            && name.starts_with(['|', '｜'])
            && name.ends_with(['|', '｜'])
            && !OF_OTHERS.iter().any(|word| name.contains(word));
        let is_tag = TAGS.iter().any(|known| known.eq_ignore_ascii_case(name));
        return (is_token || is_tag).then(|| &tag[end + 1..]);
    }
    if let Some(after) = MARKERS.iter().find_map(|marker| text.strip_prefix(marker)) {
        return Some(after);
    }
    if let Some(after) = LIST_KEYS.iter().find_map(|key| text.strip_prefix(key)) {
        return after.trim_start().strip_prefix(':');
    }
    text.strip_prefix(['[', ']', '{', '}', ',', ';', '`'])
}
