//! Values without quotes, in broken texts: `New York, NY`, `2 * pi`, `lambda x: x > 1`.

use super::{Open, Parser, Step, Stop, is_closer};
use crate::edit::EditKind;
use crate::node::{Node, NodeKind, Text};
use crate::span::TextSpan;

/// Longer values without quotes, or formulas, are no values. Bytes.
const LENGTH_MAX: usize = 2000;

impl Parser<'_> {
    /// Takes what stands at `pos` up to the next delimiter as one value.
    pub(super) fn bare(&mut self) -> Step {
        let start = self.s.pos;
        if !self.s.repair {
            return Err(Stop::Wrong(start));
        }
        let end = self.bare_end(start)?;
        let word = self.src[start..end].trim_end();
        if word.is_empty() {
            return self.drop_junk();
        }
        let span = TextSpan::new(start, start + word.len());
        let node = |kind| Node::new(kind, span.start, span.end);
        if let "undefined" | "nil" | "NULL" | "Null" = word {
            self.s.edits.respelled(EditKind::ConstantRespelled, span, word, "null");
            return self.push_node(node(NodeKind::Null));
        }
        if let "TRUE" | "FALSE" = word {
            let value = word == "TRUE";
            self.s.edits.respelled(EditKind::ConstantRespelled, span, word, if value { "true" } else { "false" });
            return self.push_node(node(NodeKind::Bool(value)));
        }
        if word == "..." || word == "…" {
            self.s.pos = span.end;
            return self.dropped(span);
        }
        let formula = word.contains(['(', '[', '*', '=']) || word.starts_with("lambda ");
        let kind = if formula { EditKind::ExpressionQuoted } else { EditKind::ValueQuoted };
        self.s.edits.guessed(kind, span, word, word);
        let text = word.strip_suffix(['"', '\'']).filter(|w| !w.contains(['"', '\''])).unwrap_or(word);
        let text = Text::Word(TextSpan::new(span.start, span.start + text.len()));
        self.push_node(node(NodeKind::Text(text)))
    }

    /// Where a value without quotes ends: at a comma that begins the next entry, at the bracket that closes what is
    /// open around it, or at the end of the line.
    fn bare_end(&mut self, start: usize) -> Result<usize, Stop> {
        let open = self.s.stack.last().map(|f| f.open);
        self.end_of(start, |parser, at| parser.bytes[at] == b'\n' || parser.comma_ends(open, at))
    }

    /// The end of what begins at `start`: the bracket that closes what is open around it, or a comma or the end of a line
    /// outside of its own brackets at which it ends.
    fn end_of(&mut self, start: usize, is_end: impl Fn(&Self, usize) -> bool) -> Result<usize, Stop> {
        let mut depth = 0_usize;
        let mut at = start;
        while let Some(&c) = self.bytes.get(at) {
            self.burn(1)?;
            if at - start > LENGTH_MAX {
                return Err(Stop::Broken);
            }
            match c {
                b'(' | b'[' | b'{' => depth += 1,
                _ if is_closer(c) && depth > 0 => depth -= 1,
                _ if is_closer(c) => return Ok(at),
                b',' | b'\n' if depth == 0 && is_end(self, at) => return Ok(at),
                b'"' | b'\'' => at = self.skip_quoted(at)?,
                _ => {}
            }
            at += 1;
        }
        Err(Stop::End)
    }

    fn comma_ends(&self, open: Option<Open>, comma: usize) -> bool {
        let at = self.blank_end(comma + 1);
        let name = self.name_end(at);
        let sign = self.bytes.get(self.blank_end(name)).copied();
        match open {
            Some(Open::Map) => {
                self.is_key_at(at)
                    || name > at && sign == Some(b':')
                    || self.bytes.get(at).is_none_or(|c| is_closer(*c) || *c == b'{')
            }
            Some(Open::Call) if self.s.stack.last().is_some_and(|f| f.key.is_none()) => true,
            Some(Open::Call) => {
                let word = name > at && !matches!(sign, Some(b'=' | b'('));
                !word
            }
            Some(Open::List(_)) | None => true,
        }
    }

    /// The end of a short quoted stretch that begins at `at`; `at` itself when none ends on this line.
    fn skip_quoted(&mut self, at: usize) -> Result<usize, Stop> {
        let q = self.bytes[at];
        let ahead = self.bytes[at + 1..].iter().take(200).position(|b| *b == q || *b == b'\n');
        self.burn(ahead.unwrap_or(200))?;
        Ok(match ahead {
            Some(n) if self.bytes[at + 1 + n] == q => at + 1 + n,
            _ => at,
        })
    }

    /// Reads the last value again as part of a formula: `2 * pi`, `f(x).y`, `'a' % b`.
    pub(super) fn formula(&mut self) -> Step {
        let at = self.s.pos;
        let open = match self.s.stack.last_mut() {
            Some(top) => {
                let Some((key, node)) = top.pop() else { return Err(Stop::Wrong(at)) };
                if let Some(key) = key {
                    top.key = Some((key, node.span));
                }
                self.s.pos = node.span.start;
                top.open
            }
            None => return Err(Stop::Wrong(at)),
        };
        let start = self.s.pos;
        let is_end = |parser: &Self, comma: usize| {
            parser.bytes[comma] == b',' && (open != Open::Map || parser.comma_ends(Some(open), comma))
        };
        let end = self.end_of(start, is_end)?;
        let word = self.src[start..end].trim_end();
        let span = TextSpan::new(start, start + word.len());
        self.s.edits.guessed(EditKind::ExpressionQuoted, span, word, word);
        self.push_node(Node::new(NodeKind::Text(Text::Slice(span)), span.start, span.end))
    }
}
