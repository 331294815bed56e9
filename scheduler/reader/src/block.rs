//! Indented lists and tables: the unambiguous part of YAML that models use for plans. Anchors, tags, tabs, several
//! documents and keys that are not names are not supported.

use crate::edit::{EditKind, Edits};
use crate::limits::{ReaderLimits, TOKEN, WorkBudget};
use crate::lines::ends_inside;
use crate::node::{Node, NodeKind, Text};
use crate::scalar::{self, Scalar};
use crate::span::TextSpan;

/// The longest key. Bytes.
const KEY_MAX: usize = 64;

/// What was read.
pub(crate) struct Block {
    pub(crate) node: Node,
    pub(crate) edits: Edits,
    /// Whether it goes on to the end of the text, so that nothing says that it is whole.
    pub(crate) open: bool,
    /// Whether it plainly ends in the middle.
    pub(crate) cut: bool,
}

/// Reads the block whose first line begins at `at`; else how far it was looked at.
pub(crate) fn parse_block(text: &str, at: usize, limits: &ReaderLimits, budget: &WorkBudget) -> Result<Block, usize> {
    let mut reader = BlockParser {
        text,
        line: None,
        next: at,
        depth: limits.depth().min(DEPTH_MAX),
        budget,
        edits: Edits::default(),
        base: 0,
        cut: false,
        ended: false,
    };
    reader.advance();
    let first = reader.line.ok_or(at)?;
    reader.base = first.indent;
    let read = reader.block(first.indent);
    let Some(node) = read.filter(|n| n.is_container()) else { return Err(reader.next) };
    let open = !reader.ended && reader.line.is_none() && budget.left() > 0;
    let last = text.rsplit('\n').next().unwrap_or_default();
    let cut = open && !text.ends_with('\n') && (reader.cut || lacks(&node, text) || ends_inside(last.trim()));
    let mut edits = reader.edits;
    edits.respelled(EditKind::BlockRead, node.span, node.span.slice(text), "");
    Ok(Block { node, edits, open, cut })
}

/// Says of the last of everything in a value that it is not whole.
pub(crate) fn cut_last(node: &mut Node) {
    node.whole = false;
    match &mut node.kind {
        NodeKind::List(items) => items.last_mut().map(cut_last),
        NodeKind::Map(pairs) => pairs.last_mut().map(|(_, value)| cut_last(value)),
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::Call(_) => None,
    };
}

/// Whether the last of several tables lacks a key that all before it have.
fn lacks(node: &Node, text: &str) -> bool {
    let last_value = match &node.kind {
        NodeKind::Map(pairs) => return pairs.last().is_some_and(|(_, value)| lacks(value, text)),
        NodeKind::List(items) => items.split_last(),
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::Call(_) => None,
    };
    let Some((last, [first, rest @ ..])) = last_value else { return false };
    let has = |item: &Node, key: &str| item.get(key, text).is_some();
    let keys = first.map().unwrap_or_default().iter().map(|(k, _)| k.slice(text));
    last.map().is_some() && keys.into_iter().any(|key| !has(last, key) && rest.iter().all(|item| has(item, key)))
        || lacks(last, text)
}

/// Deeper blocks are not read. Levels.
const DEPTH_MAX: usize = 32;

#[derive(Clone, Copy)]
struct BlockLine {
    indent: usize,
    /// Where its words begin and end, in bytes of the text.
    from: usize,
    to: usize,
}

struct BlockParser<'a> {
    text: &'a str,
    /// The line to be read; none at the end of the block.
    line: Option<BlockLine>,
    /// Where the line behind it begins.
    next: usize,
    depth: usize,
    budget: &'a WorkBudget,
    edits: Edits,
    base: usize,
    /// Whether the text ends where a value or a closing quote should be.
    cut: bool,
    /// Whether something that is not of the block stands behind it.
    ended: bool,
}

impl<'a> BlockParser<'a> {
    /// Takes the next line that is not blank.
    fn advance(&mut self) {
        self.line = None;
        while self.next < self.text.len() && self.budget.left() > 0 {
            let start = self.next;
            let rest = &self.text[start..];
            let raw = rest.split('\n').next().unwrap_or(rest);
            self.next = (start + raw.len() + 1).min(self.text.len());
            self.budget.spend(raw.len() + 4 * TOKEN);
            let words = raw.trim_start_matches(' ');
            let indent = raw.len() - words.len();
            let words = words.trim_end();
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            if words.starts_with("```") || words == "---" || words == "..." || indent < self.base {
                self.ended = true;
                return;
            }
            let from = start + indent;
            self.line = Some(BlockLine { indent, from, to: from + words.len() });
            return;
        }
    }

    fn words(&self, line: BlockLine) -> &'a str {
        &self.text[line.from..line.to]
    }

    /// What stands at this indentation: a list or a table.
    fn block(&mut self, indent: usize) -> Option<Node> {
        self.depth = self.depth.checked_sub(1)?;
        let first = self.line?;
        let node = if is_item(self.words(first)) { self.list(indent) } else { self.table(indent) };
        self.depth += 1;
        node
    }

    fn list(&mut self, indent: usize) -> Option<Node> {
        let start = self.line?.from;
        let mut items = Vec::new();
        while let Some(line) = self.line.filter(|l| l.indent >= indent) {
            if !items.is_empty() && !is_item(self.words(line)) && self.is_cut_key() {
                break;
            }
            if line.indent > indent {
                return None;
            }
            if !is_item(self.words(line)) {
                if indent == self.base {
                    self.leave();
                }
                break;
            }
            let blank = 1 + self.text[line.from + 1..line.to].bytes().take_while(|b| *b == b' ').count();
            let item = BlockLine { indent: line.indent + blank, from: line.from + blank, to: line.to };
            items.push(self.item(item, indent)?);
        }
        let end = items.last()?.span.end;
        Some(Node::new(NodeKind::List(items), start, end))
    }

    /// What stands behind a dash.
    fn item(&mut self, item: BlockLine, indent: usize) -> Option<Node> {
        if item.from >= item.to {
            self.advance();
            return match self.line {
                Some(next) if next.indent > indent => self.block(next.indent),
                Some(_) => None,
                None => self.missing(item.to),
            };
        }
        let words = self.words(item);
        if is_item(words) || key(words).is_some() {
            self.line = Some(item);
            return self.block(item.indent);
        }
        self.scalar(item, indent)
    }

    fn table(&mut self, indent: usize) -> Option<Node> {
        let start = self.line?.from;
        let mut pairs: Vec<(Text, Node)> = Vec::new();
        while let Some(line) = self.line.filter(|l| l.indent >= indent) {
            let words = self.words(line);
            let Some((name, behind)) = key(words).filter(|_| line.indent == indent) else {
                if !pairs.is_empty() && self.is_cut_key() {
                    break;
                }
                if line.indent == self.base && indent == self.base && !pairs.is_empty() {
                    self.leave();
                    break;
                }
                if is_item(words) && line.indent == indent {
                    break;
                }
                return None;
            };
            let name = Text::Slice(TextSpan::new(line.from + name.start, line.from + name.end));
            let value = self.value(BlockLine { from: line.from + behind, ..line }, indent)?;
            pairs.push((name, value));
        }
        let end = pairs.last()?.1.span.end;
        Some(Node::new(NodeKind::Map(pairs), start, end))
    }

    /// What is not of the block begins here.
    fn leave(&mut self) {
        self.line = None;
        self.ended = true;
    }

    /// Whether the line is the last of the text, and a word that may be a key without its colon. It is left out then.
    fn is_cut_key(&mut self) -> bool {
        let name =
            |line: BlockLine| self.words(line).bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.\"'".contains(&b));
        let cut = self.next >= self.text.len() && !self.text.ends_with('\n') && self.line.is_some_and(name);
        if cut {
            self.cut = true;
            self.line = None;
        }
        cut
    }

    /// What stands behind a key: on its line, or below it.
    fn value(&mut self, line: BlockLine, indent: usize) -> Option<Node> {
        let words = self.words(line);
        if words.is_empty() || words.starts_with('#') {
            self.advance();
            return match self.line {
                Some(next) if next.indent > indent => self.block_or_text(next),
                Some(next) if next.indent == indent && is_item(self.words(next)) => self.list(indent),
                Some(_) => Some(Node::new(NodeKind::Null, line.from, line.from)),
                None => self.missing(line.from),
            };
        }
        if words.starts_with(['|', '>']) {
            return self.literal(line, indent);
        }
        self.scalar(line, indent)
    }

    /// Below a key: a list, a table, or text on lines of its own.
    fn block_or_text(&mut self, line: BlockLine) -> Option<Node> {
        let words = self.words(line);
        if is_item(words) || key(words).is_some() {
            self.block(line.indent)
        } else {
            self.scalar(line, line.indent - 1)
        }
    }

    /// A key or a dash with nothing behind it before the end.
    fn missing(&mut self, at: usize) -> Option<Node> {
        self.cut = !self.ended;
        Some(Node::new(NodeKind::Null, at, at))
    }

    /// A value on one line, or plain words that go on below it.
    fn scalar(&mut self, line: BlockLine, indent: usize) -> Option<Node> {
        let found = scalar::parse_scalar(
            self.text,
            TextSpan::new(line.from, line.to),
            self.next >= self.text.len(),
            &mut self.edits,
        )?;
        self.advance();
        match found {
            Scalar::Value(node) => match self.line {
                Some(next) if next.indent > indent => None,
                _ => Some(node),
            },
            Scalar::Plain(span) => {
                let mut whole = span.slice(self.text).to_owned();
                let mut end = span.end;
                while let Some(next) = self.line.filter(|l| l.indent > indent) {
                    let words = self.words(next);
                    if is_item(words) || words.contains(": ") || words.ends_with(':') || words.contains(" #") {
                        return None;
                    }
                    whole = format!("{whole} {words}");
                    self.budget.spend(whole.len());
                    end = next.to;
                    self.advance();
                }
                if end == span.end {
                    return scalar::plain(self.text, span, &mut self.edits);
                }
                Some(Node::new(NodeKind::Text(Text::Own(whole)), span.start, end))
            }
            Scalar::Cut => {
                self.cut = true;
                Some(Node::new(NodeKind::Null, line.to, line.to))
            }
        }
    }

    /// `|` and `>`: text on lines of its own, line by line or as one.
    fn literal(&mut self, line: BlockLine, indent: usize) -> Option<Node> {
        let words = self.words(line);
        let folds = words.starts_with('>');
        let strips = match &words[1..] {
            "" => false,
            "-" => true,
            _ => return None,
        };
        let mut lines: Vec<&str> = Vec::new();
        let mut inner = None;
        let mut end = line.to;
        while self.next < self.text.len() {
            let rest = &self.text[self.next..];
            let raw = rest.split('\n').next().unwrap_or(rest).trim_end_matches('\r');
            let words = raw.trim_start_matches(' ');
            let own = raw.len() - words.len();
            if !words.trim().is_empty() {
                let inner = *inner.get_or_insert(own);
                if own <= indent {
                    break;
                }
                if own < inner || folds && own > inner {
                    return None;
                }
                end = self.next + raw.len();
            }
            self.budget.spend(raw.len() + TOKEN);
            lines.push(raw.get(inner.unwrap_or(own).min(raw.len())..).unwrap_or_default());
            self.next = (self.next + rest.find('\n').map_or(rest.len(), |n| n + 1)).min(self.text.len());
        }
        while lines.last().is_some_and(|l| l.trim().is_empty()) {
            lines.pop();
        }
        if folds && lines.iter().any(|l| l.trim().is_empty()) {
            return None;
        }
        self.cut |= lines.is_empty();
        let mut text = lines.join(if folds { " " } else { "\n" });
        if !strips && !lines.is_empty() {
            text.push('\n');
        }
        self.advance();
        Some(Node::new(NodeKind::Text(Text::Own(text)), line.from, end))
    }
}

fn is_item(words: &str) -> bool {
    words == "-" || words.starts_with("- ")
}

/// A key and where the value begins behind its colon: a name, plain or in quotes.
pub(crate) fn key(words: &str) -> Option<(TextSpan, usize)> {
    let quote = words.chars().next().filter(|c| matches!(c, '"' | '\''));
    let start = usize::from(quote.is_some());
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let length = words.bytes().skip(start).take(KEY_MAX).take_while(is_name).count();
    let end = start + length;
    let behind = words[end..].strip_prefix(match quote {
        Some('"') => "\":",
        Some(_) => "':",
        None => ":",
    })?;
    if length == 0 || words.as_bytes()[start] == b'-' || !(behind.is_empty() || behind.starts_with(' ')) {
        return None;
    }
    Some((TextSpan::new(start, end), words.len() - behind.trim_start().len()))
}
