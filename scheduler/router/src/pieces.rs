//! A text as the pieces that a static model has vectors for, cut once.

use std::ops::Range;

use crate::table::Table;
use crate::words::telling;

/// The pieces of words, in order.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Each with how much its word tells.
    pieces: Vec<(u32, f32)>,
    /// For each word, where its pieces end.
    ends: Vec<usize>,
}

impl Pieces {
    pub(super) fn of(table: &Table, words: &[String]) -> Self {
        let (mut pieces, mut ends) = (Vec::new(), Vec::with_capacity(words.len()));
        for word in words {
            let telling = telling(word);
            pieces.extend(table.cut(word).into_iter().map(|piece| (piece, telling)));
            ends.push(pieces.len());
        }
        Self { pieces, ends }
    }

    pub(super) fn all(&self) -> &[(u32, f32)] {
        &self.pieces
    }

    /// The pieces of these words, counted from 0.
    pub(super) fn of_words(&self, words: &Range<usize>) -> &[(u32, f32)] {
        let end = |words: usize| words.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.pieces[end(words.start)..end(words.end)]
    }

    /// Whether the model knows at least half of the words: of a text in a language it was not made for, what little it
    /// knows says nothing.
    pub(super) fn are_known(&self) -> bool {
        let known = (0..self.ends.len()).filter(|word| !self.of_words(&(*word..word + 1)).is_empty()).count();
        known * 2 >= self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::tiny;
    use super::*;

    fn pieces(words: &[&str]) -> Pieces {
        Pieces::of(&tiny(), &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn each_word_has_its_pieces() {
        let pieces = pieces(&["hotel", "zzz", "car"]);
        assert_eq!(pieces.all(), [(1, 1.0), (4, 1.0)]);
        assert_eq!(pieces.of_words(&(0..2)), [(1, 1.0)]);
        assert_eq!(pieces.of_words(&(1..3)), [(4, 1.0)]);
        assert_eq!(pieces.of_words(&(1..2)), []);
    }

    #[test]
    fn a_text_in_another_language_is_not_known() {
        assert!(pieces(&["hotel", "zzz"]).are_known() && pieces(&[]).are_known());
        assert!(!pieces(&["酒", "店", "hotel"]).are_known());
    }
}
