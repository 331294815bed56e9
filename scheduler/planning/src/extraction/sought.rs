//! Recognises what a goal looks for: a place behind it is where it is.

use super::words::{Text, WordKind};

/// `find a plumber in Leeds`, `rent a hall in Kiel`: what is looked for is at the place, unless it is a part of a text.
pub(super) fn is_sought(text: &Text, at: usize) -> bool {
    let words = (1..=SOUGHT_WORDS_MAX).map_while(|back| at.checked_sub(back).map(|index| (index, text.lower(index))));
    // A hyphen inside a word ends no clause.
    let clause = words.take_while(|(index, _)| text.words[*index].kind != WordKind::Sign || text.words[*index].glued);
    for (index, word) in clause {
        if TEXT_PARTS.contains(&word) {
            return false;
        }
        let looks = ["find", "hire", "rent", "book", "reserve", "recommend", "need", "seek"].contains(&word);
        let lists = word == "of" && matches!(text.before(index, 1), "list" | "directory" | "overview" | "map");
        let looks_for = word == "for" && matches!(text.before(index, 1), "look" | "looking" | "search");
        if looks || lists || looks_for {
            return true;
        }
    }
    false
}

/// Words between the verb and the place, at most.
const SOUGHT_WORDS_MAX: usize = 16;

/// What is found in a text, a program or a table, not at a place.
const TEXT_PARTS: &[&str] = &[
    "article", "articles", "paper", "papers", "recipe", "recipes", "chapter", "chapters", "word", "words", "typo",
    "typos", "error", "errors", "mistake", "mistakes", "bug", "bugs", "quote", "quotes", "passage", "mention",
    "mentions", "reference", "references", "entry", "entries", "row", "rows", "column", "columns", "cell", "gap",
    "gaps", "pattern", "patterns", "trend", "trends", "setting", "settings", "function", "functions",
];
