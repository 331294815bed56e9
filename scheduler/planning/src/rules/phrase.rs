//! Phrases in rules: words in a row, `travel*` for a beginning, `...` for up to five words between.

use serde::Deserialize;

/// Most words that `...` stands for.
const GAP_MAX: usize = 5;

/// A phrase to look for in a goal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Phrase(Vec<PhrasePart>);

impl std::fmt::Display for Phrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |part: &PhrasePart| match part {
            PhrasePart::Word(word) => word.clone(),
            PhrasePart::Beginning(word) => format!("{word}*"),
            PhrasePart::Gap => "*".to_owned(),
        };
        f.write_str(&self.0.iter().map(word).collect::<Vec<_>>().join(" "))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PhrasePart {
    Word(String),
    Beginning(String),
    Gap,
}

impl TryFrom<String> for Phrase {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts: Vec<PhrasePart> = text
            .split_whitespace()
            .map(|part| match (part, part.strip_suffix('*')) {
                ("...", _) => PhrasePart::Gap,
                (_, Some(beginning)) => PhrasePart::Beginning(beginning.to_lowercase()),
                (word, None) => PhrasePart::Word(word.to_lowercase()),
            })
            .collect();
        let word = |part: &PhrasePart| match part {
            PhrasePart::Word(word) | PhrasePart::Beginning(word) => {
                !word.is_empty() && word.chars().all(char::is_alphanumeric)
            }
            PhrasePart::Gap => true,
        };
        let ends_in_gap =
            matches!((parts.first(), parts.last()), (Some(PhrasePart::Gap) | None, _) | (_, Some(PhrasePart::Gap)));
        if ends_in_gap || !parts.iter().all(word) {
            return Err(format!("`{text}` is no phrase; use words, `word*` for a beginning and `...` between words"));
        }
        Ok(Self(parts))
    }
}

/// The words of a text in lower case, without signs: what phrases are looked for in.
pub(crate) fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl Phrase {
    /// Whether the words begin with the phrase.
    pub(super) fn begins(&self, words: &[String]) -> bool {
        matches(&self.0, words)
    }

    /// Whether the words hold the phrase.
    pub(super) fn is_in(&self, words: &[String]) -> bool {
        (0..words.len()).any(|at| matches(&self.0, &words[at..]))
    }
}

fn matches(parts: &[PhrasePart], words: &[String]) -> bool {
    match parts.split_first() {
        None => true,
        Some((PhrasePart::Gap, rest)) => (0..=GAP_MAX.min(words.len())).any(|skip| matches(rest, &words[skip..])),
        Some((PhrasePart::Word(word), rest)) => words.first().is_some_and(|w| w == word) && matches(rest, &words[1..]),
        Some((PhrasePart::Beginning(begin), rest)) => {
            words.first().is_some_and(|w| w.starts_with(begin.as_str())) && matches(rest, &words[1..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_whole() {
        for (phrase, text, expected) in [
            ("trip to", "a Trip to Paris", true),
            ("trip to", "a trip, to Paris", true),
            ("trip to", "a trip into Paris", false),
            ("travel*", "Travelling light", true),
            ("travel*", "unravel", false),
            ("plan ... trip", "plan me a nice long trip", true),
            ("plan ... trip", "plan one two three four five six trip", false),
            ("a ... b ... c", "a x b y b z c", true),
            ("trip", "", false),
            ("trip", "tripod", false),
        ] {
            let phrase = Phrase::try_from(phrase.to_owned()).expect("the phrase is well formed");
            assert_eq!(phrase.is_in(&words(text)), expected, "{phrase:?} in {text}");
        }
    }

    #[test]
    fn what_is_no_phrase_is_refused() {
        for text in ["", " ", "...", "trip ...", "*", "a-b", "tr*p"] {
            assert!(Phrase::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
