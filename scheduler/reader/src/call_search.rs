//! Finds calls: a name with its arguments behind it, `Action:` with its input, a tag.

use crate::edit::{EditKind, Edits};
use crate::limits::NAME;
use crate::node::{CallNode, Node, NodeKind, Text};
use crate::span::TextSpan;
use crate::tag;
use crate::value_search::{START, ValueSearch};

/// What Mistral's models write between name and arguments.
const ARGUMENTS_MARK: &[u8] = b"[ARGS]";
/// The longest name behind `Action:`. Bytes.
const NAME_MAX: usize = 256;

impl ValueSearch<'_> {
    /// A name: a call, or the name of one whose arguments follow as a table.
    pub(crate) fn name(&mut self, start: usize, end: usize) -> Option<usize> {
        self.variables.note(self.text, start, end, self.limits, self.budget);
        let word = &self.text[start..end];
        if word == "Action" && self.bytes.get(end) == Some(&b':') {
            return self.react(start, end + 1);
        }
        let mut next = end;
        while matches!(self.bytes.get(next), Some(b' ')) {
            next += 1;
        }
        let opens = self.bytes.get(next) == Some(&b'(');
        let table = table_behind(self.bytes, end);
        if !opens && table.is_none() {
            return None;
        }
        self.budget.spend(NAME);
        let plain = word.replace('\\', "");
        let call = matches!(self.bytes.get(end), Some(b'(' | b' '));
        let known = !self.catalogue.is_empty()
            && if call { self.catalogue.find_like(&plain) } else { self.catalogue.find(&plain) }.is_some();
        if opens {
            let defined = ["def ", "function ", "class "].iter().any(|d| self.text[..start].ends_with(d));
            if defined {
                return None;
            }
            if known || self.catalogue.is_empty() && next == end && self.begins_line(start) {
                return self.value(start);
            }
            return None;
        }
        // `name\n{…}`, `name: {…}`, also with a code fence in between.
        table.filter(|_| known).and_then(|at| self.call_with(start, &plain, at))
    }

    /// Whether `at` stands first on its line, or behind a `=`.
    fn begins_line(&self, at: usize) -> bool {
        let before = self.bytes[at.saturating_sub(64)..at].iter().rev();
        let first = before.copied().find(|b| !matches!(b, b' ' | b'\t' | b'`'));
        matches!(first, Some(b'\n' | b'=')) || first.is_none() && at <= 64
    }

    /// A call whose name was found, and whose arguments are the table at `at`.
    fn call_with(&mut self, start: usize, name: &str, at: usize) -> Option<usize> {
        let (node, mut edits) = self.parse(at)?;
        let NodeKind::Map(named) = node.kind else { return None };
        let call = CallNode { name: Text::Own(name.into()), positional: Vec::new(), named };
        let mut made = Node::new(NodeKind::Call(Box::new(call)), start, node.span.end);
        made.whole = node.whole;
        edits.respelled(EditKind::CallRead, TextSpan::new(start, at), &self.text[start..at], "");
        self.push_value(made, edits);
        Some(node.span.end)
    }

    /// `Action: name` and `Action Input: …`, as ReAct prompts ask for them.
    fn react(&mut self, start: usize, after: usize) -> Option<usize> {
        let line = self.bytes[after..].iter().take(NAME_MAX).position(|b| *b == b'\n');
        let line_end = line.map(|n| after + n)?;
        let name = self.text[after..line_end].trim().trim_matches(['`', '"', '\'', '*', '[', ']']);
        if name.is_empty() || name.contains([' ', '{', '(']) {
            return None;
        }
        let rest = self.text[line_end..].trim_start();
        let input = rest.strip_prefix("Action Input:").or_else(|| rest.strip_prefix("Action input:"))?;
        let input = input.trim_start().trim_start_matches('`').trim_start_matches("json").trim_start();
        let at = self.text.len() - input.len();
        if input.starts_with('{') {
            return self.call_with(start, name, at);
        }
        let end = input.find('\n').map(|n| at + n);
        let text = self.text[at..end.unwrap_or(self.text.len())].trim_end();
        if text.is_empty() {
            return None;
        }
        let argument = Node::new(NodeKind::Text(Text::Slice(TextSpan::new(at, at + text.len()))), at, at + text.len());
        let call = CallNode { name: Text::Own(name.into()), positional: vec![argument], named: Vec::new() };
        let mut node = Node::new(NodeKind::Call(Box::new(call)), start, at + text.len());
        node.whole = end.is_some();
        let mut edits = Edits::default();
        edits.respelled(EditKind::CallRead, TextSpan::new(start, at), &self.text[start..at], "");
        let end = node.span.end;
        self.push_value(node, edits);
        Some(end)
    }

    pub(crate) fn tag(&mut self, at: usize) -> Option<usize> {
        if let Some((name, table)) = tag::parse_marked(self.text, at)
            && let Some(end) = self.call_with(at, name, table)
        {
            return Some(end);
        }
        let call = tag::parse_tag(self.text, at)?;
        let end = call.node.span.end;
        self.budget.spend(end - at + START);
        let mut edits = Edits::default();
        edits.respelled(EditKind::CallRead, TextSpan::new(at, call.body), &self.text[at..call.body], "");
        self.push_value(call.node, edits);
        Some(end)
    }
}

/// Where the table begins that stands behind a name, with little in between.
fn table_behind(bytes: &[u8], end: usize) -> Option<usize> {
    // `[TOOL_CALLS]name[ARGS]{…}`
    let end = if bytes[end..].starts_with(ARGUMENTS_MARK) { end + ARGUMENTS_MARK.len() } else { end };
    let between = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b':' | b'`' | b'*' | b'=' | b'"' | b'\'');
    let at = end + bytes[end..].iter().take(9).take_while(|b| between(b)).count();
    (bytes.get(at) == Some(&b'{')).then_some(at)
}
