//! Finds the quote that ends a string. In broken texts this depends on the context of the quote.

use super::quote::{KEY_MAX, Quote, QuotePosition};
use super::{Open, Parser, Stop, is_closer};
use crate::edit::EditKind;
use crate::span::TextSpan;

/// Where a string ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// With the quote here.
    At(usize),
    /// Before this byte; its quote is missing.
    Before(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookahead {
    /// What follows belongs to the notation.
    Strong,
    /// It may.
    Weak,
    /// The quote is text.
    No,
}

/// Closing brackets that fit none that is open, before no more are followed.
const STRANGERS_MAX: usize = 8;

impl Parser<'_> {
    /// The quote that ends the string, by what follows each.
    pub(super) fn repaired_end(&mut self, quote: Quote, place: QuotePosition, body: usize) -> Result<Close, Stop> {
        let mut at = body;
        let mut weak = None;
        let mut inner = Vec::new();
        while let Some(stop) = quote.next(self.bytes, at) {
            self.burn(stop - at + 1)?;
            self.s.work += KEY_MAX / 2 + self.s.stack.len();
            if self.bytes[stop] == b'\\' {
                at = stop + 2;
                continue;
            }
            let after = stop + quote.close_len(self.bytes, stop);
            match self.look_ahead(place, after)? {
                Lookahead::Strong => {
                    let other = |w: &usize| {
                        self.holds_key(*w, stop) || place == QuotePosition::Key && self.bytes[*w..stop].contains(&b',')
                    };
                    let end = weak.filter(other).unwrap_or(stop);
                    self.note_inner(&inner, end);
                    return Ok(Close::At(end));
                }
                Lookahead::Weak => {
                    weak = weak.or(Some(stop));
                    inner.push(stop);
                }
                Lookahead::No => {
                    if place == QuotePosition::Argument && self.bytes[..stop].ends_with(b"=") {
                        self.burn(stop - body)?;
                    }
                    if let Some(before) = self.missing_quote(place, body, stop) {
                        self.note_inner(&inner, before);
                        self.s.edits.guessed(EditKind::QuoteAdded, TextSpan::new(before, before), "", "\"");
                        return Ok(Close::Before(before));
                    }
                    inner.push(stop);
                }
            }
            at = after;
        }
        match weak {
            Some(end) => {
                self.note_inner(&inner, end);
                Ok(Close::At(end))
            }
            None => self.last_quote(place, &inner).ok_or(Stop::End),
        }
    }

    /// In a text that continues to the end in one string, the last quote after which only brackets or little junk and
    /// brackets stand: `'…text.'>}}]`.
    fn last_quote(&mut self, place: QuotePosition, inner: &[usize]) -> Option<Close> {
        if place == QuotePosition::Key {
            return None;
        }
        let last = *inner.last()?;
        let after = self.src[last..].chars().next().map_or(last, |c| last + c.len_utf8());
        let rest = self.src[after..].trim_end();
        let brackets = rest.trim_end_matches(['}', ']', ')', ' ', '\n']);
        if brackets.len() < rest.len()
            && brackets.len() <= 4
            && !rest.is_empty()
            && !brackets.contains(char::is_alphanumeric)
        {
            self.note_inner(inner, last);
            return Some(Close::At(last));
        }
        None
    }

    /// Notes the quotes inside a string, as far as it matters: one guess too many, and the value is not read.
    fn note_inner(&mut self, inner: &[usize], end: usize) {
        let most = (self.s.guesses_max + 1).saturating_sub(self.s.edits.guesses);
        for at in inner.iter().filter(|i| **i < end).take(most) {
            let was = self.src[*at..].chars().next().map(String::from).unwrap_or_default();
            self.s.edits.guessed(
                EditKind::QuoteEscaped,
                TextSpan::new(*at, *at + was.len()),
                &was,
                &format!("\\{was}"),
            );
        }
    }

    pub(super) fn burn(&mut self, bytes: usize) -> Result<(), Stop> {
        self.s.fuel = self.s.fuel.checked_sub(bytes).ok_or(Stop::Broken)?;
        Ok(())
    }

    /// Whether a key with its sign stands between two quotes, so that the second belongs to another string, or opens it.
    fn holds_key(&self, weak: usize, strong: usize) -> bool {
        let between = &self.bytes[weak + 1..=strong];
        let keys = |w: &[u8]| matches!(w, [b'"' | b'\'', b':'] | [b'=', b'"' | b'\'']);
        between.windows(2).any(keys) || between.contains(&b'\n')
    }

    fn look_ahead(&mut self, place: QuotePosition, after: usize) -> Result<Lookahead, Stop> {
        let at = self.blank_end(after);
        self.burn(at - after + 1)?;
        let Some(&c) = self.bytes.get(at) else {
            return Ok(if place == QuotePosition::Key { Lookahead::Weak } else { Lookahead::Strong });
        };
        let newline = self.bytes[after..at].contains(&b'\n');
        if self.bytes[at..].starts_with(b"```") {
            return Ok(Lookahead::Strong);
        }
        if place != QuotePosition::Key && c == b'+' && self.quote_at(self.blank_end(at + 1)).is_some() {
            return Ok(Lookahead::Strong);
        }
        Ok(match place {
            QuotePosition::Key => match c {
                b':' => Lookahead::Strong,
                b'=' | b'}' | b',' | b'{' | b'[' | b'"' | b'\'' | b'0'..=b'9' => Lookahead::Weak,
                _ => Lookahead::No,
            },
            QuotePosition::Value => match c {
                b',' => self.look_after_comma(place, at + 1),
                _ if is_closer(c) => self.look_along_closers(at),
                b'"' | b'\'' if self.is_key_at(at) => Lookahead::Strong,
                b'/' | b'#' if newline || matches!(self.bytes.get(at + 1), Some(b'/' | b' ')) => Lookahead::Weak,
                _ => Lookahead::No,
            },
            QuotePosition::Item | QuotePosition::Argument => match c {
                b',' => self.look_after_comma(place, at + 1),
                _ if is_closer(c) => self.look_along_closers(at),
                b'"' | b'\'' | b'{' | b'[' if newline => Lookahead::Strong,
                b'(' if place == QuotePosition::Item => Lookahead::Weak,
                _ => Lookahead::No,
            },
        })
    }

    fn look_after_comma(&self, place: QuotePosition, after: usize) -> Lookahead {
        let at = self.blank_end(after);
        let Some(&c) = self.bytes.get(at) else { return Lookahead::Strong };
        let quoted = self.quote_at(at).is_some();
        let name = self.name_end(at);
        let sign = self.bytes.get(self.blank_end(name)).copied();
        match place {
            QuotePosition::Key => Lookahead::No,
            QuotePosition::Value => {
                if quoted && self.is_key_at(at) || is_closer(c) || name > at && sign == Some(b':') {
                    return Lookahead::Strong;
                }
                if c == b'{' && self.s.stack.iter().any(|f| matches!(f.open, Open::List(_))) {
                    return Lookahead::Strong;
                }
                if quoted { Lookahead::Weak } else { Lookahead::No }
            }
            QuotePosition::Item => {
                if quoted || is_closer(c) || matches!(c, b'{' | b'[' | b'(') || sign == Some(b'(') && name > at {
                    return Lookahead::Strong;
                }
                if c.is_ascii_digit() || c == b'-' { Lookahead::Weak } else { Lookahead::No }
            }
            QuotePosition::Argument => {
                if name > at && sign == Some(b'=') || is_closer(c) {
                    return Lookahead::Strong;
                }
                if quoted || matches!(c, b'{' | b'[') || c.is_ascii_digit() { Lookahead::Weak } else { Lookahead::No }
            }
        }
    }

    /// Follows closing brackets along the open ones, and looks at what stands behind them.
    fn look_along_closers(&self, from: usize) -> Lookahead {
        let mut at = from;
        let mut open = self.s.stack.as_slice();
        let mut fits = true;
        let mut strangers = 0;
        while let (Some(&c), Some((top, rest))) = (self.bytes.get(at), open.split_last()) {
            if !is_closer(c) {
                break;
            }
            if strangers > STRANGERS_MAX {
                return Lookahead::Weak;
            }
            if top.closer() == c {
                open = rest;
            } else {
                fits = false;
                strangers += 1;
                match open.iter().rposition(|f| f.closer() == c) {
                    Some(n) => open = &open[..n],
                    None if at == from => return Lookahead::No,
                    None => {}
                }
            }
            at = self.blank_end(at + 1);
        }
        let good = if fits { Lookahead::Strong } else { Lookahead::Weak };
        match self.bytes.get(at) {
            None | Some(b',' | b'`' | b';') => good,
            Some(_) if open.is_empty() => {
                if self.bytes[from..at].contains(&b'\n') || is_closer(self.bytes[at]) {
                    good
                } else {
                    Lookahead::Weak
                }
            }
            Some(_) => Lookahead::Weak,
        }
    }

    /// A quote that opens the next string although the last one never closed: `'Washington D.C., 'Atlanta'`.
    fn missing_quote(&self, place: QuotePosition, body: usize, stop: usize) -> Option<usize> {
        let before = self.bytes[body..stop].strip_suffix(b" ").unwrap_or(&self.bytes[body..stop]);
        let comma = before.len().checked_sub(1).filter(|n| before[*n] == b',').map(|n| body + n);
        match place {
            QuotePosition::Value => comma.filter(|_| self.is_key_at(stop)),
            QuotePosition::Item => {
                let comma = comma?;
                let q = self.bytes[stop];
                let end = stop + 1 + self.bytes[stop + 1..].iter().take(KEY_MAX).position(|b| *b == q)?;
                let next = self.bytes.get(self.blank_end(end + 1))?;
                let follows = self.bytes.get(stop + 1).is_some_and(|c| !c.is_ascii_whitespace());
                (follows && matches!(next, b']' | b')')).then_some(comma)
            }
            QuotePosition::Argument => {
                // An argument that opens here says that the one before it has ended.
                let name = self.bytes[body..stop].strip_suffix(b"=")?;
                name.last().filter(|c| c.is_ascii_alphanumeric() || **c == b'_')?;
                (body..stop)
                    .find(|n| self.bytes[*n] == b',' && self.opens_argument(*n + 1))
                    .map(|n| if n > body && self.bytes[n - 1] == b')' { n - 1 } else { n })
            }
            QuotePosition::Key => None,
        }
    }

    /// Whether `name=` or `name(` stands at `at`.
    fn opens_argument(&self, at: usize) -> bool {
        let at = self.blank_end(at);
        let name = self.name_end(at);
        name > at && matches!(self.bytes.get(name), Some(b'=' | b'('))
    }
}
