//! Text analysis: splits identifiers, extracts words, removes stop words and stems.

use std::sync::LazyLock;

use goalmill_common::hash::HashSet;

/// Weight of a generic word.
const GENERIC_WEIGHT: f32 = 0.7;

/// `flightSearch_agent` → `flight Search`: splits an identifier into words and removes the suffix `agent`.
pub(crate) fn split_identifier(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    let mut letters = name.chars().peekable();
    while let Some(c) = letters.next() {
        if c.is_alphanumeric() {
            // `getHTTPStatus` is three words: the last capital of a run opens the next one.
            let opens = c.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase());
            if c.is_uppercase() && was_lower || opens && !text.is_empty() && !text.ends_with(' ') {
                text.push(' ');
            }
            text.push(c);
        } else {
            text.push(' ');
        }
        was_lower = c.is_lowercase();
    }
    let trimmed = text.trim();
    trimmed.strip_suffix(" agent").unwrap_or(trimmed).to_owned()
}

/// Whether a letter belongs to a script without spaces between words.
pub(super) fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// The stems of a text without stop words; in scripts without spaces, each letter and each pair of letters.
pub(super) fn stems(text: &str) -> Vec<String> {
    let mut stems = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    for c in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let unspaced = is_unspaced_script(c);
        if c.is_alphanumeric() && !unspaced {
            word.push(c);
            before = None;
            continue;
        }
        if !word.is_empty() {
            if STOP_WORDS.binary_search(&word.as_str()).is_err() {
                stems.push(stem(&word));
            }
            word.clear();
        }
        if unspaced {
            stems.push(c.to_string());
            if let Some(first) = before {
                stems.push([first, c].iter().collect());
            }
        }
        before = unspaced.then_some(c);
    }
    stems
}

/// The words of a text without stop words; in scripts without spaces, each run of letters.
pub(super) fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut words = Vec::new();
    for part in lower.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
        let mut from = 0;
        let mut was_unspaced = None;
        for (at, c) in part.char_indices() {
            let unspaced = is_unspaced_script(c);
            if was_unspaced.is_some_and(|was| was != unspaced) {
                words.push(part[from..at].to_owned());
                from = at;
            }
            was_unspaced = Some(unspaced);
        }
        words.push(part[from..].to_owned());
    }
    words.retain(|word| STOP_WORDS.binary_search(&word.as_str()).is_err());
    words
}

/// The words of a text without stop words; in scripts without spaces, each letter.
pub(super) fn content_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let unspaced = is_unspaced_script(c);
        if c.is_alphanumeric() && !unspaced {
            word.push(c);
            continue;
        }
        if !word.is_empty() && STOP_WORDS.binary_search(&word.as_str()).is_err() {
            words.push(std::mem::take(&mut word));
        }
        word.clear();
        if unspaced {
            words.push(c.to_string());
        }
    }
    words
}

/// The sentences of a text; a sentence ends at a punctuation mark that is followed by white space or the end.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        let ends = match c {
            '。' | '！' | '？' | '；' | '\n' => true,
            '.' | '!' | '?' | ';' => letters.peek().is_none_or(|(_, next)| next.is_whitespace()),
            _ => false,
        };
        if ends {
            sentences.push(&text[from..at]);
            from = at + c.len_utf8();
        }
    }
    sentences.push(&text[from..]);
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// Removes common English endings, so that `booking`, `booked` and `books` become `book`.
///
/// Lighter than Porter's stemmer: inflection only, because derivation (`-ation`, `-ment`) often changes the meaning.
/// Source: D. Harman, "How effective is suffixing?", Journal of the American Society for Information Science 42(1), 1991.
fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    if let Some(root) = word.strip_suffix("ies") {
        return if root.len() > 1 { format!("{root}y") } else { word.to_owned() };
    }
    for ending in ["sses", "xes", "ches", "shes", "zes"] {
        if word.len() > ending.len() + 1 && word.ends_with(ending) {
            return word[..word.len() - 2].to_owned();
        }
    }
    for ending in ["ing", "ed"] {
        if let Some(root) = word.strip_suffix(ending)
            && root.len() >= 3
            && root.bytes().any(|b| b"aeiouy".contains(&b))
        {
            return normalize_root(root);
        }
    }
    if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") && !word.ends_with("is") {
        return normalize_root(&word[..word.len() - 1]);
    }
    normalize_root(word)
}

/// Removes a silent `e` or a doubled consonant (`booke` → `book`, `plann` → `plan`), so that all forms are equal.
fn normalize_root(root: &str) -> String {
    let bytes = root.as_bytes();
    let doubled = bytes.len() > 3
        && bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
        && !b"aeiousl".contains(&bytes[bytes.len() - 1]);
    let silent = bytes.len() > 3 && bytes[bytes.len() - 1] == b'e';
    root[..bytes.len() - usize::from(doubled || silent)].to_owned()
}

/// Stop words, sorted.
const STOP_WORDS: &[&str] = &[
    "a", "about", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "give", "had", "has", "have", "help", "her", "hi", "him", "his", "how", "i",
    "if", "in", "into", "is", "it", "its", "just", "let", "like", "may", "me", "my", "need", "of", "on", "or", "our",
    "please", "she", "should", "so", "some", "tell", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "to", "us", "using", "want", "was", "we", "were", "what", "when", "where", "which", "who", "will", "with",
    "would", "you", "your",
];

/// Words that are frequent in any request and description, sorted. They have a lower weight.
const GENERIC_WORDS: &str = "\
    ability able access additional advice allow already another anyone around ask assist assistance assistant \
    available based best better both bring check come complete content currently day detail different discover \
    display easily easy enable ensure every everything exactly example explore fetch few find first further \
    general generate get getting go going good great guide handle hello here hey idea improve include info \
    information interested interesting keep kind know latest learn list look lot made make many more most much new \
    now obtain offer one ones online only option other out over own particular perform plan possible present \
    proceed process provide quick quickly read receive recent recommend recommendation regarding related require \
    result retrieve return right run search see seek select service set share show simple something specific start \
    still suggest suggestion support sure system take thing think time today together tool top try turn two type \
    understand up update use useful user various very via view way well while wish without wonder work world year \
    yes";

static GENERIC_STEMS: LazyLock<HashSet<String>> =
    LazyLock::new(|| GENERIC_WORDS.split_whitespace().map(stem).collect());

/// Weight of a lower-case word or stem, 0 to 1.
///
/// A registry is too small to measure how common a word is: `find` is rare if only one agent uses it.
pub(super) fn word_weight(word: &str) -> f32 {
    if GENERIC_STEMS.contains(&stem(word)) { GENERIC_WEIGHT } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(split_identifier("flight_agent"), "flight");
        assert_eq!(split_identifier("flightSearch-v2"), "flight Search v2");
        assert_eq!(split_identifier("getHTTPStatus"), "get HTTP Status");
        assert_eq!(split_identifier("agent"), "agent");
        assert_eq!(split_identifier(""), "");
    }

    #[test]
    fn the_forms_of_a_word_have_one_stem() {
        for forms in [
            &["book", "books", "booked", "booking"][..],
            &["plan", "plans", "planned", "planning"],
            &["query", "queries"],
            &["search", "searches", "searching"],
            &["cancel", "cancelled", "cancelling"],
            &["change", "changes", "changed", "changing"],
        ] {
            let stems: std::collections::BTreeSet<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.len() == 1 || forms[0] == "cancel" && stems.len() == 2, "{forms:?} became {stems:?}");
        }
        assert_eq!(stem("status"), "status");
        assert_eq!(stem("bus"), "bus");
        assert_eq!(stem("string"), "string");
    }

    #[test]
    fn scripts_without_spaces_are_split_into_letters() {
        assert_eq!(stems("查找 the flight酒店"), ["查", "找", "查找", "flight", "酒", "店", "酒店"]);
        assert_eq!(content_words("查找 the Flights"), ["查", "找", "flights"]);
    }

    #[test]
    fn sentences_end_at_punctuation_before_a_space() {
        assert_eq!(sentences("I am in Rome. Book 2.5 stars!  "), ["I am in Rome", " Book 2.5 stars"]);
        assert_eq!(sentences("查找酒店。预订机票"), ["查找酒店", "预订机票"]);
        assert!(sentences(" ... ").is_empty());
    }

    #[test]
    fn generic_words_weigh_less_in_all_their_forms() {
        for plain in ["find", "finding", "recommendations", "provided", "informations"] {
            assert!(word_weight(plain) < 1.0, "`{plain}` has full weight");
        }
        assert!(["hotel", "weather", "", "酒"].iter().all(|word| word_weight(word) == 1.0));
    }

    #[test]
    fn the_lists_of_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted() && GENERIC_WORDS.split_whitespace().is_sorted());
    }
}
