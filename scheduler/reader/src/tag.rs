//! Calls in tags and between the tokens of models:
//!
//! - `<function=f><parameter=a>1</parameter></function>`, `<invoke name="f"><parameter name="a">1</parameter></invoke>`
//! - Llama 3.1: `<function=f>{"a": 1}</function>`
//! - GLM: `<tool_call>f <arg_key>a</arg_key> <arg_value>1</arg_value> </tool_call>`
//! - DeepSeek: `<｜tool▁call▁begin｜>function<｜tool▁sep｜>f {"a": 1}<｜tool▁call▁end｜>`, also without `function`; Kimi's
//!   models with words of their own
//! - harmony: `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>`

use crate::node::{CallNode, Node, NodeKind, Text};
use crate::span::TextSpan;

/// The longest opening tag, or the longest text between two tokens. Bytes.
const NAME_MAX: usize = 256;
/// Tokens before a call, and between its name and its arguments.
const SECTIONS: [(&str, &str); 2] =
    [("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"), ("<|tool_call_begin|>", "<|tool_call_argument_begin|>")];
/// Words of the head of a message in harmony.
const HEAD_WORDS: [&str; 8] = ["start", "assistant", "channel", "commentary", "analysis", "constrain", "json", "code"];

/// A call in tags.
pub(crate) struct Tagged {
    pub(crate) node: Node,
    /// Where its arguments begin.
    pub(crate) body: usize,
}

/// Reads the call whose opening tag stands at `at`.
pub(crate) fn parse_tag(text: &str, at: usize) -> Option<Tagged> {
    parse_parameters(text, at).or_else(|| parse_pairs(text, at))
}

/// Reads the head of a call whose arguments are a table: its name, and where the table begins.
pub(crate) fn parse_marked(text: &str, at: usize) -> Option<(&str, usize)> {
    let rest = &text[at..];
    let (name, table) = function_head(text, at).or_else(|| section_head(rest)).or_else(|| channel_head(rest))?;
    table.starts_with('{').then_some((name, text.len() - table.len()))
}

/// `<function=f>`, and what follows.
fn function_head(text: &str, at: usize) -> Option<(&str, &str)> {
    let (name, body, _) = opening(text, at, &["function"])?;
    Some((name.slice(text), text[body..].trim_start()))
}

/// What stands between two tokens of a model, and what follows.
fn section_head(rest: &str) -> Option<(&str, &str)> {
    let (begin, separator) = SECTIONS.iter().find(|(begin, _)| rest.starts_with(begin))?;
    let (before, behind) = split_near(&rest[begin.len()..], separator)?;
    let behind = behind.trim_start();
    if behind.starts_with('{') {
        // `functions.f:0`: the number of the call.
        let (name, number) = before.rsplit_once(':').unwrap_or((before, ""));
        let name = if number.bytes().all(|byte| byte.is_ascii_digit()) { name } else { before };
        return Some((name.trim(), behind));
    }
    let (name, table) = split_near(behind, "\n")?;
    let table = table.trim_start();
    let table = table.strip_prefix("```json").or_else(|| table.strip_prefix("```")).unwrap_or(table);
    Some((name.trim(), table.trim_start()))
}

/// The receiver in the head of a message, and the message.
fn channel_head(rest: &str) -> Option<(&str, &str)> {
    if !rest.starts_with("<|start|>assistant") && !rest.starts_with("<|channel|>") {
        return None;
    }
    let (head, message) = split_near(rest, "<|message|>")?;
    let mut name = None;
    for word in head.split(['<', '|', '>', ' ', '\n']).filter(|word| !word.is_empty()) {
        match word.strip_prefix("to=") {
            Some(to) => name = Some(to),
            None if HEAD_WORDS.contains(&word) => {}
            None => return None,
        }
    }
    Some((name?, message.trim_start()))
}

/// What stands before and behind a mark that is near.
fn split_near<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let near = text.char_indices().map(|(n, _)| n).take_while(|n| *n <= NAME_MAX).last()?;
    let limit = text[near..].char_indices().nth(mark.len()).map_or(text.len(), |(n, _)| near + n);
    let n = text[..limit].find(mark)?;
    Some((&text[..n], &text[n + mark.len()..]))
}

/// `<tool_call>f`, then keys and values in tags.
fn parse_pairs(text: &str, at: usize) -> Option<Tagged> {
    const CLOSING: &str = "</tool_call>";
    let rest = text[at..].strip_prefix("<tool_call>")?;
    let body = text.len() - rest.len();
    let length = rest.bytes().take(NAME_MAX).position(|b| matches!(b, b'\n' | b'<'))?;
    let name = rest[..length].trim();
    if name.is_empty() || name.contains(['{', '(', '[', '"', '`', ' ']) {
        return None;
    }
    let start = body + rest[..length].find(name)?;
    let name = Text::Slice(TextSpan::new(start, start + name.len()));
    let (mut named, mut pos) = (Vec::new(), body + length);
    let inside = |pos: usize, open: &str, close: &str| {
        let from = pos + text[pos..].len() - text[pos..].trim_start().len();
        let from = from + text[from..].strip_prefix(open).map(|_| open.len())?;
        let to = from + text[from..].find(close)?;
        Some((TextSpan::new(from, to), to + close.len()))
    };
    loop {
        let next = text[pos..].trim_start();
        if next.starts_with(CLOSING) {
            let end = text.len() - next.len() + CLOSING.len();
            let call = CallNode { name, positional: Vec::new(), named };
            return Some(Tagged { node: Node::new(NodeKind::Call(Box::new(call)), at, end), body });
        }
        if named.is_empty() && !next.starts_with("<arg_key>") {
            return None;
        }
        let pair = inside(pos, "<arg_key>", "</arg_key>")
            .and_then(|(key, behind)| Some((key, inside(behind, "<arg_value>", "</arg_value>")?)));
        let Some((key, (value, behind))) = pair else { break };
        named.push((Text::Slice(key), Node::new(NodeKind::Text(Text::Slice(value)), value.start, value.end)));
        pos = behind;
    }
    let call = CallNode { name, positional: Vec::new(), named };
    let mut node = Node::new(NodeKind::Call(Box::new(call)), at, text.len());
    node.whole = false;
    Some(Tagged { node, body })
}

/// `<function=f>` and its relatives, with parameters in tags.
fn parse_parameters(text: &str, at: usize) -> Option<Tagged> {
    let (name, body, kind) = opening(text, at, &["function", "invoke", "tool"])?;
    let first = text[body..].trim_start();
    if !first.starts_with("<parameter") && !first.starts_with("</") {
        return None;
    }
    let closing = format!("</{kind}>");
    let close = text[body..].find(&closing).map(|n| body + n);
    let inside = TextSpan::new(body, close.unwrap_or(text.len()));
    let mut named = Vec::new();
    let mut pos = body;
    let mut whole = close.is_some();
    while let Some(n) = text[pos..inside.end].find("<parameter") {
        let start = pos + n;
        let Some((key, value, _)) = opening(text, start, &["parameter"]) else { break };
        let Some(end) = text[value..inside.end].find("</parameter>").map(|n| value + n) else {
            whole = false;
            break;
        };
        let stretch = TextSpan::new(value, end).slice(text);
        let trimmed = stretch.strip_prefix('\n').unwrap_or(stretch);
        let from = end - trimmed.len();
        let to = from + trimmed.strip_suffix('\n').unwrap_or(trimmed).len();
        named.push((Text::Slice(key), Node::new(NodeKind::Text(Text::Slice(TextSpan::new(from, to))), from, to)));
        pos = end + "</parameter>".len();
    }
    let end = close.map_or(text.len(), |c| c + closing.len());
    let call = CallNode { name: Text::Slice(name), positional: Vec::new(), named };
    let mut node = Node::new(NodeKind::Call(Box::new(call)), at, end);
    node.whole = whole;
    Some(Tagged { node, body })
}

/// `<kind=name>` or `<kind name="name">`: where the name stands, and where the tag ends.
fn opening<'k>(text: &str, at: usize, kinds: &[&'k str]) -> Option<(TextSpan, usize, &'k str)> {
    let rest = text[at..].strip_prefix('<')?;
    let kind = kinds.iter().find(|k| rest.starts_with(**k))?;
    let rest = &rest[kind.len()..];
    let line = rest.bytes().take(NAME_MAX).position(|b| matches!(b, b'>' | b'\n'))?;
    if !rest[line..].starts_with('>') {
        return None;
    }
    let inside = &rest[..line];
    let name = match inside.strip_prefix('=') {
        Some(name) => name,
        None => inside.trim_start().strip_prefix("name")?.trim_start().strip_prefix('=')?,
    };
    // `name="a" string="true"`: what stands behind the name says how it is written.
    let name = name.trim();
    let name = name.strip_prefix('"').and_then(|rest| rest.split_once('"')).map_or(name, |(quoted, _)| quoted);
    let name = name.trim_matches(['"', '\'']);
    if name.is_empty() || name.contains(['"', '<', ' ']) {
        return None;
    }
    let start = text.len() - rest.len() + inside.rfind(name)?;
    let body = text.len() - rest.len() + line + 1;
    Some((TextSpan::new(start, start + name.len()), body, kind))
}
