//! Reads text as words: in lower case, with their common endings off, and letter by letter in scripts without spaces.

use std::sync::LazyLock;

use goalmill_common::hash::HashSet;

/// How much a plain word tells.
const PLAIN_TELLS: f32 = 0.7;

/// `flightSearch_agent` → `flight search`: what every agent is called says nothing.
pub(crate) fn words_of(name: &str) -> String {
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

/// Whether a letter is of a script that puts no spaces between words.
pub(super) fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// The words that tell texts apart, as stems; of scripts without spaces each letter, and each pair of letters.
pub(super) fn stems(text: &str) -> Vec<String> {
    let mut stems = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    for c in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let alone = stands_alone(c);
        if c.is_alphanumeric() && !alone {
            word.push(c);
            before = None;
            continue;
        }
        if !word.is_empty() {
            if STOPS.binary_search(&word.as_str()).is_err() {
                stems.push(stem(&word));
            }
            word.clear();
        }
        if alone {
            stems.push(c.to_string());
            if let Some(first) = before {
                stems.push([first, c].iter().collect());
            }
        }
        before = alone.then_some(c);
    }
    stems
}

/// The words that carry meaning; of scripts without spaces each run of letters.
pub(super) fn spelled(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut spelled = Vec::new();
    for part in lower.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
        let mut from = 0;
        let mut was_alone = None;
        for (at, c) in part.char_indices() {
            let alone = stands_alone(c);
            if was_alone.is_some_and(|was| was != alone) {
                spelled.push(part[from..at].to_owned());
                from = at;
            }
            was_alone = Some(alone);
        }
        spelled.push(part[from..].to_owned());
    }
    spelled.retain(|word| STOPS.binary_search(&word.as_str()).is_err());
    spelled
}

/// The words that carry meaning, as they are spelled; of scripts without spaces each letter.
pub(super) fn contents(text: &str) -> Vec<String> {
    let mut contents = Vec::new();
    let mut word = String::new();
    for c in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let alone = stands_alone(c);
        if c.is_alphanumeric() && !alone {
            word.push(c);
            continue;
        }
        if !word.is_empty() && STOPS.binary_search(&word.as_str()).is_err() {
            contents.push(std::mem::take(&mut word));
        }
        word.clear();
        if alone {
            contents.push(c.to_string());
        }
    }
    contents
}

/// The sentences of a text: up to a mark that ends one, and white space or the end behind it.
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

/// A word without the commonest English endings, so that `booking`, `booked` and `books` meet in `book`.
///
/// Lighter than Porter's: only inflection, as derivation (`-ation`, `-ment`) often changes what is meant.
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
            return unfinished(root);
        }
    }
    if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") && !word.ends_with("is") {
        return unfinished(&word[..word.len() - 1]);
    }
    unfinished(word)
}

/// `book` of `booke`, `plan` of `plann`: what stays of a word whose ending is off is the same from all its forms.
fn unfinished(root: &str) -> String {
    let bytes = root.as_bytes();
    let doubled = bytes.len() > 3
        && bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
        && !b"aeiousl".contains(&bytes[bytes.len() - 1]);
    let silent = bytes.len() > 3 && bytes[bytes.len() - 1] == b'e';
    root[..bytes.len() - usize::from(doubled || silent)].to_owned()
}

/// Words that are in every sentence, sorted.
const STOPS: &[&str] = &[
    "a", "about", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "give", "had", "has", "have", "help", "her", "hi", "him", "his", "how", "i",
    "if", "in", "into", "is", "it", "its", "just", "let", "like", "may", "me", "my", "need", "of", "on", "or", "our",
    "please", "she", "should", "so", "some", "tell", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "to", "us", "using", "want", "was", "we", "were", "what", "when", "where", "which", "who", "will", "with",
    "would", "you", "your",
];

/// Words of which any request and any description may be full, sorted: they tell, but less than their rarity says.
const PLAIN: &str = "\
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

static PLAIN_STEMS: LazyLock<HashSet<String>> = LazyLock::new(|| PLAIN.split_whitespace().map(stem).collect());

/// How much a word in lower case, or its stem, tells beside others as rare, 0 to 1.
///
/// A registry is too small to show how common a word is outside of it: `find` is rare where only one agent says it.
pub(super) fn telling(word: &str) -> f32 {
    if PLAIN_STEMS.contains(&stem(word)) { PLAIN_TELLS } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_words() {
        assert_eq!(words_of("flight_agent"), "flight");
        assert_eq!(words_of("flightSearch-v2"), "flight Search v2");
        assert_eq!(words_of("getHTTPStatus"), "get HTTP Status");
        assert_eq!(words_of("agent"), "agent");
        assert_eq!(words_of(""), "");
    }

    #[test]
    fn the_forms_of_a_word_meet_in_its_stem() {
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
    fn scripts_without_spaces_are_read_letter_by_letter() {
        assert_eq!(stems("查找 the flight酒店"), ["查", "找", "查找", "flight", "酒", "店", "酒店"]);
        assert_eq!(contents("查找 the Flights"), ["查", "找", "flights"]);
    }

    #[test]
    fn sentences_end_at_marks_with_a_space_behind() {
        assert_eq!(sentences("I am in Rome. Book 2.5 stars!  "), ["I am in Rome", " Book 2.5 stars"]);
        assert_eq!(sentences("查找酒店。预订机票"), ["查找酒店", "预订机票"]);
        assert!(sentences(" ... ").is_empty());
    }

    #[test]
    fn plain_words_tell_less_in_all_their_forms() {
        for plain in ["find", "finding", "recommendations", "provided", "informations"] {
            assert!(telling(plain) < 1.0, "`{plain}` tells as much as any word");
        }
        assert!(["hotel", "weather", "", "酒"].iter().all(|word| telling(word) == 1.0));
    }

    #[test]
    fn the_lists_of_words_are_sorted() {
        assert!(STOPS.is_sorted() && PLAIN.split_whitespace().is_sorted());
    }
}
