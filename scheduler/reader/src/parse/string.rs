//! Strings: where they end, and what they hold.

use super::ending::Close;
use super::quote::{Quote, QuotePosition};
use super::{Parser, Stop};
use crate::edit::EditKind;
use crate::escape::{EscapeDialect, decode};
use crate::node::Text;
use crate::span::TextSpan;

impl Parser<'_> {
    /// The string at `pos` and where it ends. `pos` stays.
    pub(super) fn string(&mut self, quote: Quote, place: QuotePosition) -> Result<(Text, usize), Stop> {
        self.string_with(quote, place, false)
    }

    pub(super) fn string_with(&mut self, quote: Quote, place: QuotePosition, raw: bool) -> Result<(Text, usize), Stop> {
        let start = self.s.pos;
        let body = start + quote.len();
        let end = if self.s.repair && !quote.is_triple() {
            self.repaired_end(quote, place, body)?
        } else {
            self.plain_end(quote, body)?
        };
        let (stop, after) = match end {
            Close::At(stop) => (stop, stop + quote.close_len(self.bytes, stop)),
            Close::Before(stop) => (stop, stop),
        };
        if !quote.is_json() {
            self.python_quote(quote, TextSpan::new(start, body));
        }
        let text = self.held(body, stop, raw);
        self.s.scanned = 0;
        Ok((text, after))
    }

    fn python_quote(&mut self, quote: Quote, at: TextSpan) {
        if quote.is_python() {
            self.python(EditKind::QuotesChanged, at, "\"");
        } else {
            self.s.edits.respelled(EditKind::QuotesChanged, at, at.slice(self.src), "\"");
        }
    }

    /// The first closing quote that is not escaped.
    fn plain_end(&mut self, quote: Quote, body: usize) -> Result<Close, Stop> {
        let mut at = body.max(self.s.scanned);
        loop {
            match quote.next(self.bytes, at) {
                Some(stop) if self.bytes[stop] == b'\\' => {
                    if stop + 1 >= self.bytes.len() {
                        self.s.scanned = stop;
                        return Err(Stop::End);
                    }
                    at = stop + 2;
                }
                Some(stop) => return Ok(Close::At(stop)),
                None => {
                    // Quotes of several bytes may be cut at the end of a text that continues.
                    self.s.scanned = self.bytes.len().saturating_sub(2).max(body);
                    while !self.src.is_char_boundary(self.s.scanned) {
                        self.s.scanned -= 1;
                    }
                    if self.bytes[body..self.s.scanned].ends_with(b"\\") {
                        self.s.scanned -= 1;
                        // An even run of backslashes would be split; go back to its start.
                        while self.s.scanned > body && self.bytes[self.s.scanned - 1] == b'\\' {
                            self.s.scanned -= 1;
                        }
                    }
                    return Err(Stop::End);
                }
            }
        }
    }

    /// What the string holds: a stretch of the source when nothing in it is escaped.
    fn held(&mut self, start: usize, end: usize, raw: bool) -> Text {
        let slice = &self.src[start..end];
        let (mut escaped, mut control) = (false, false);
        for b in slice.bytes() {
            escaped |= b == b'\\';
            control |= b < 0x20;
        }
        if control {
            self.s.edits.respelled(EditKind::EscapeRespelled, TextSpan::new(start, end), slice, "");
        }
        if !escaped || raw {
            return Text::Slice(TextSpan::new(start, end));
        }
        let before = self.s.met;
        self.s.met.foreign = false;
        let text = decode(slice, self.s.dialect, &mut self.s.met);
        let lost = text.contains(char::REPLACEMENT_CHARACTER);
        if self.s.met.foreign && (self.s.dialect == EscapeDialect::Json || lost) {
            self.s.edits.respelled(EditKind::EscapeRespelled, TextSpan::new(start, end), slice, &text);
        }
        self.s.met.foreign |= before.foreign;
        Text::Own(text)
    }
}
