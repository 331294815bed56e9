//! Similarity of names in different spellings: what a model calls `Text Summarizer`, an agent may call `summarization`.

use std::collections::BTreeSet;

/// Longest name that is compared, in characters.
const CHARS_MAX: usize = 128;
/// Least likeness of a name that is shown as a hint.
const LIKENESS_MIN: f64 = 0.35;
/// Most names that are compared for a hint.
const NAMES_MAX: usize = 10_000;

/// The words of a name, lower case, one for each part of `snake_case`, `kebab-case`, `camelCase` or plain text.
pub fn words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().take(CHARS_MAX).collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (i, c) in chars.iter().copied().enumerate() {
        let before = if i > 0 { chars[i - 1] } else { ' ' };
        let next_is_lower = chars.get(i + 1).is_some_and(|next| next.is_lowercase());
        let begins = c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_lower));
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The normal form of a name: `Text-to-Speech`, `text_to_speech` and `TextToSpeech` are one.
pub fn normal(name: &str) -> String {
    words(name).concat()
}

/// The stem of a word: enough to see that `summarizer`, `summarize` and `summarization` have one.
///
/// The longest of a few English endings is cut when three letters or more stay.
pub fn stem(word: &str) -> String {
    const ENDINGS: &[&str] = &[
        "izations", "isations", "ization", "isation", "izing", "ising", "izers", "isers", "ations", "izer", "iser",
        "ized", "ised", "izes", "ises", "ation", "ators", "ator", "ating", "ated", "ates", "ions", "ing", "ize", "ise",
        "ate", "ion", "ors", "ers", "ies", "ment", "or", "er", "ed", "es", "ry", "ar", "y", "e", "s",
    ];
    if !word.is_ascii() {
        return word.to_owned();
    }
    for ending in ENDINGS {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() >= 3
        {
            // `mapped`, `planner`
            let bytes = stem.as_bytes();
            let doubled = bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
            return stem[..stem.len() - usize::from(doubled)].to_owned();
        }
    }
    word.to_owned()
}

/// How alike two names are, 0 to 1; 1 means the same normal form.
///
/// The mean of two Dice coefficients, over stems and over pairs of neighbouring letters: the first sees that words
/// were added or turned around, the second that they were misspelled.
///
/// Source: L. R. Dice, "Measures of the amount of ecologic association between species", Ecology 26, 1945.
pub fn alike(a: &str, b: &str) -> f64 {
    let (a, b) = (words(a), words(b));
    let (joined_a, joined_b) = (a.concat(), b.concat());
    if joined_a.is_empty() || joined_b.is_empty() {
        return 0.0;
    }
    if joined_a == joined_b {
        return 1.0;
    }
    let stems = |words: &[String]| words.iter().map(|word| stem(word)).collect::<BTreeSet<_>>();
    let by_words = dice(&stems(&a), &stems(&b));
    let by_letters = dice(&pairs(&joined_a), &pairs(&joined_b));
    // Only the same normal form is certainly the same name.
    (0.5 * by_words + 0.5 * by_letters).min(0.99)
}

/// Whether two names differ by one wrong letter: one replaced, left out, added, or swapped with its neighbour.
///
/// The letter stands inside a word of `SLIP_WORD_MIN` letters or more: `approve_a` and `approve_b`, `step_1` and
/// `step_2` are different names, `serch_hotel` is a slip of `search_hotel`.
pub fn is_slip(a: &str, b: &str) -> bool {
    let (a, b) = (words(a), words(b));
    let is_long = |word: &str| word.chars().count() >= SLIP_WORD_MIN;
    if a.len() == b.len() {
        let mut other = a.iter().zip(&b).filter(|(a, b)| a != b);
        return match (other.next(), other.next()) {
            (Some((a, b)), None) => is_long(a) && is_long(b) && is_letter_apart(a, b),
            (Some(_), Some(_)) | (None, _) => false,
        };
    }
    // A letter in the place of a separator.
    let (a, b) = (a.concat(), b.concat());
    a.chars().count().min(b.chars().count()) >= 2 * SLIP_WORD_MIN && is_letter_apart(&a, &b)
}

/// The one of `names` that differs from `name` by one wrong letter; none when there are several.
pub fn only_slip<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let mut found = names.into_iter().filter(|known| is_slip(known, name));
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Up to three of `among` that look like `given`, best first: hints for people, never a choice.
pub fn nearest<'a>(given: &str, among: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> = among
        .take(NAMES_MAX)
        .map(|name| (alike(given, name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.truncate(3);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// The number in `step_2`, `step-2` or `Step 2`: the id of a step that is called `2`.
pub fn number_of_step(name: &str) -> Option<&str> {
    let (word, number) = name.split_at_checked("step".len())?;
    let number = number.trim_start_matches(['_', '-', ' ']);
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    (word.eq_ignore_ascii_case("step") && is_number).then_some(number)
}

/// Shortest word in which one letter is a slip.
const SLIP_WORD_MIN: usize = 4;

fn is_letter_apart(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let start = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    let are_letters = a.iter().chain(b).all(|c| c.is_alphabetic());
    let is_one = match (a, b) {
        ([_], [_] | []) | ([], [_]) => true,
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    };
    is_one && are_letters
}

fn pairs(text: &str) -> BTreeSet<(char, char)> {
    text.chars().zip(text.chars().skip(1)).collect()
}

fn dice<T: Ord>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    2.0 * a.intersection(b).count() as f64 / (a.len() + b.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_have_one_normal_form() {
        for spelling in ["Text-to-Speech", "text_to_speech", "TextToSpeech", "text to speech", "Text_To_SPEECH"] {
            assert_eq!(normal(spelling), "texttospeech", "{spelling}");
        }
        assert_eq!(words("HTTPServer2 parseJSON"), ["http", "server2", "parse", "json"]);
    }

    #[test]
    fn forms_of_one_verb_have_one_stem() {
        for word in ["summarizer", "summarize", "summarization", "summarizing"] {
            assert_eq!(stem(word), "summar", "{word}");
        }
        assert_eq!(stem("translation"), stem("translator"));
        assert_eq!(stem("planner"), stem("planning"));
        assert_ne!(stem("text"), stem("test"));
    }

    #[test]
    fn one_wrong_letter_in_a_word_is_a_slip_and_another_number_or_letter_of_its_own_is_not() {
        for (a, b) in [
            ("serch_hotel", "search_hotel"),
            ("fetchh", "fetch"),
            ("fecth", "fetch"),
            ("bookxflight", "book_flight"),
            ("stpe-1", "step-1"),
        ] {
            assert!(is_slip(a, b) && is_slip(b, a), "{a} {b}");
        }
        for (a, b) in [
            ("approve_a", "approve_b"),
            ("step_1", "step_2"),
            ("step1", "step11"),
            ("node-0", "node-1"),
            ("a", "b"),
            ("get", "set"),
            ("fetch", "fetch"),
            ("book_flight", "book_hotel"),
        ] {
            assert!(!is_slip(a, b), "{a} {b}");
        }
        assert_eq!(only_slip("serch", ["search", "merge"]), Some("search"));
        assert_eq!(only_slip("lxft", ["left", "lift"]), None);
    }

    #[test]
    fn likeness_orders_names_as_people_would() {
        let given = "Text Summarizer";
        assert!(alike(given, "summarization") > alike(given, "translation"));
        assert!((alike("image_search", "ImageSearch") - 1.0).abs() < f64::EPSILON);
        assert!(alike("book_flight", "send_mail") < 0.3);
        assert!(alike("", "x").abs() < f64::EPSILON);
    }
}
