//! Quotes: what opens a string, and what may close it.

use super::{Open, Parser};

/// What a string is enclosed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quote {
    Plain(u8),
    Triple(u8),
    /// `“…”` and its relatives.
    Double,
    /// `‘…’`.
    Single,
}

/// What a string is, as far as its neighbours go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotePosition {
    Key,
    /// The value of a key.
    Value,
    /// In a list.
    Item,
    /// In a call.
    Argument,
}

/// How far a key may reach from its quote, when it is looked for ahead. Bytes.
pub(super) const KEY_MAX: usize = 100;

impl Quote {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Plain(_) => 1,
            Self::Triple(_) | Self::Double | Self::Single => 3,
        }
    }

    pub(super) fn close_len(self, bytes: &[u8], at: usize) -> usize {
        match self {
            Self::Plain(_) => 1,
            Self::Triple(_) => 3,
            Self::Double | Self::Single => {
                if bytes[at] < 0x80 {
                    1
                } else {
                    3
                }
            }
        }
    }

    pub(super) fn is_triple(self) -> bool {
        matches!(self, Self::Triple(_))
    }

    pub(super) fn is_json(self) -> bool {
        self == Self::Plain(b'"')
    }

    pub(super) fn is_python(self) -> bool {
        matches!(self, Self::Plain(b'\'') | Self::Triple(_))
    }

    /// The next closing quote or backslash at or after `at`.
    pub(super) fn next(self, bytes: &[u8], at: usize) -> Option<usize> {
        let rest = bytes.get(at..)?;
        let found = match self {
            Self::Plain(q) => rest.iter().position(|b| *b == q || *b == b'\\'),
            Self::Triple(q) => {
                let mut n = 0;
                loop {
                    let i = n + rest[n..].iter().position(|b| *b == q || *b == b'\\')?;
                    if rest[i] == b'\\' || rest[i..].starts_with(&[q, q, q]) {
                        break Some(i);
                    }
                    n = i + 1;
                }
            }
            Self::Double | Self::Single => {
                let ascii = if self == Self::Double { b'"' } else { b'\'' };
                let last = if self == Self::Double { 0x9c..=0x9f } else { 0x98..=0x9b };
                (0..rest.len()).find(|i| match &rest[*i..] {
                    [0xe2, 0x80, l, ..] => last.contains(l),
                    [b, ..] => *b == b'\\' || *b == ascii,
                    [] => false,
                })
            }
        };
        found.map(|n| at + n)
    }
}

impl Parser<'_> {
    /// The quote that opens a string at `at`.
    pub(super) fn quote_at(&self, at: usize) -> Option<Quote> {
        let rest = self.bytes.get(at..)?;
        match rest {
            [q @ (b'"' | b'\''), b, c, ..] if b == q && c == q => Some(Quote::Triple(*q)),
            [q @ (b'"' | b'\''), ..] => Some(Quote::Plain(*q)),
            [b'`', next, ..] if self.s.repair && *next != b'`' => Some(Quote::Plain(b'`')),
            [0xe2, 0x80, 0x9c..=0x9f, ..] => Some(Quote::Double),
            [0xe2, 0x80, 0x98..=0x9b, ..] => Some(Quote::Single),
            _ => None,
        }
    }

    pub(super) fn place_of_value(&self) -> QuotePosition {
        match self.s.stack.last().map(|f| f.open) {
            Some(Open::Map) => QuotePosition::Value,
            Some(Open::Call) => QuotePosition::Argument,
            Some(Open::List(_)) | None => QuotePosition::Item,
        }
    }

    /// Whether a quoted key and its colon stand at `at`.
    pub(super) fn is_key_at(&self, at: usize) -> bool {
        let Some(&q) = self.bytes.get(at).filter(|q| matches!(q, b'"' | b'\'')) else { return false };
        let rest = &self.bytes[at + 1..];
        let Some(end) = rest.iter().take(KEY_MAX).position(|b| *b == q || *b == b'\n') else { return false };
        rest[end] == q && end > 0 && self.bytes.get(self.blank_end(at + 1 + end + 1)) == Some(&b':')
    }

    /// The first byte from `at` on that is not blank.
    pub(super) fn blank_end(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
    }
}
