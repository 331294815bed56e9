//! Edits: the differences between a text and its parsed value.

use serde::{Deserialize, Serialize};

use crate::span::TextSpan;

/// One difference between the text and the parsed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    pub kind: EditKind,
    /// Where, in bytes of the text; the first place when the edit stands for several.
    pub at: TextSpan,
    /// What was written there; long stretches are cut to 120 bytes, ending in `…`.
    pub was: String,
    /// The replacement; empty if the text was dropped.
    pub became: String,
    /// In how many places. Only edits that keep the meaning are counted together.
    pub places: u32,
}

/// The kinds of edit. Those up to [`EditKind::Named`] are another spelling of the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditKind {
    /// Text around the value was left out.
    ProseDropped,
    /// A code fence, or a tag around the value, was left out.
    FenceDropped,
    /// A string in other quotes than `"`.
    QuotesChanged,
    /// `True`, `None`, …
    ConstantRespelled,
    /// `1_000`, `0x1f`, `.5`, `+1`, …
    NumberRespelled,
    /// Neighbouring strings that Python joins.
    StringsJoined,
    /// An escape that JSON does not have, or a raw control character in a string.
    EscapeRespelled,
    /// `(1, 2)` or `{1, 2}`.
    ListRespelled,
    TrailingCommaDropped,
    /// A comment, or a blank that JSON does not have.
    CommentDropped,
    /// A key without quotes.
    KeyQuoted,
    /// `f(a=1)` as a name with arguments.
    CallRead,
    /// Several values as one list.
    ValuesListed,
    /// A list in prose (numbered, dashed) as a list of steps.
    LinesListed,
    /// A string that holds JSON or a call was read as what it holds.
    Unwrapped,
    /// Arguments by position got the names of the schema, in its order; or a call's only argument is the table of them.
    Named,

    /// A quote inside a string, taken as text.
    QuoteEscaped,
    /// A quote that was missing.
    QuoteAdded,
    CommaAdded,
    ColonAdded,
    BracketAdded,
    BracketDropped,
    BracketChanged,
    /// Text that fits nowhere was left out.
    TextDropped,
    /// A key without a value was left out.
    KeyDropped,
    /// A value without quotes was taken as text.
    ValueQuoted,
    /// An expression was taken as text; nothing was computed.
    ExpressionQuoted,
    /// A name stands for the value that was assigned to it, once, in the lines before.
    VariableRead,
    /// A key twice in one object; the last one counts, as in JSON.
    DuplicateDropped,
    /// A number that no JSON reader here can hold exactly.
    NumberRounded,
    /// A name was taken for one of the catalogue.
    NameMatched,
    /// A value was taken for the type the schema declares.
    TypeCoerced,
}

impl EditKind {
    /// Whether what was read says the same as what was written, in another notation. The others are guesses.
    #[must_use]
    pub fn keeps_meaning(self) -> bool {
        self <= Self::Named
    }
}

/// What an edit shows of the text. Bytes.
pub(crate) const SHOWN_MAX: usize = 120;

/// Edits as they come up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    pub(crate) list: Vec<Edit>,
    pub(crate) guesses: usize,
    /// Where in the list the one edit of a kind that keeps the meaning stands.
    places: Vec<(EditKind, usize)>,
}

impl Edits {
    /// Notes another spelling; all of a kind are one edit.
    pub(crate) fn respelled(&mut self, kind: EditKind, at: TextSpan, was: &str, became: &str) {
        match self.place(kind) {
            Some(known) => known.places = known.places.saturating_add(1),
            None => {
                self.places.push((kind, self.list.len()));
                self.push(kind, at, was, became);
            }
        }
    }

    /// Notes a guess.
    pub(crate) fn guessed(&mut self, kind: EditKind, at: TextSpan, was: &str, became: &str) {
        self.guesses += 1;
        self.push(kind, at, was, became);
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.guesses += others.guesses;
        for edit in others.list {
            if !edit.kind.keeps_meaning() {
                self.list.push(edit);
                continue;
            }
            match self.place(edit.kind) {
                Some(known) => known.places = known.places.saturating_add(edit.places),
                None => {
                    self.places.push((edit.kind, self.list.len()));
                    self.list.push(edit);
                }
            }
        }
    }

    fn place(&mut self, kind: EditKind) -> Option<&mut Edit> {
        let (_, n) = self.places.iter().find(|(k, _)| *k == kind)?;
        self.list.get_mut(*n)
    }

    fn push(&mut self, kind: EditKind, at: TextSpan, was: &str, became: &str) {
        self.list.push(Edit { kind, at, was: shown(was), became: shown(became), places: 1 });
    }
}

pub(crate) fn shown(text: &str) -> String {
    if text.len() <= SHOWN_MAX {
        return text.to_owned();
    }
    let mut end = SHOWN_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
