//! How much a text and an agent have in common, by words and by runs of letters.

use goalmill_common::agent::Agent;

use super::bm25::Bm25;
use super::ngram::Ngrams;

/// Share of the runs of letters in the similarity; the words have the rest.
const NGRAM_SHARE: f64 = 0.7;

/// An index over the words of all agents.
#[derive(Debug, Default)]
pub(super) struct Lexical {
    words: Bm25,
    ngrams: Ngrams,
}

/// What an agent says about itself, its name and actions in words.
pub(super) fn describe(agent: &Agent) -> String {
    let mut text = words_of(agent.agent_type.as_str());
    let mut add = |part: &str| {
        text.push_str(" . ");
        text.push_str(part);
    };
    add(&agent.description);
    for capability in &agent.capabilities {
        add(capability);
    }
    for action in &agent.actions {
        add(&words_of(&action.name));
        add(&action.description);
    }
    text
}

/// `flightSearch_agent` → `flight search`: what every agent is called says nothing.
pub(super) fn words_of(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            text.push(' ');
        } else {
            if c.is_uppercase() && was_lower {
                text.push(' ');
            }
            text.push(c);
        }
        was_lower = c.is_lowercase();
    }
    let trimmed = text.trim_end();
    trimmed.strip_suffix(" agent").unwrap_or(trimmed).to_owned()
}

impl Lexical {
    pub(super) fn new(texts: &[String]) -> Self {
        Self { words: Bm25::new(texts), ngrams: Ngrams::new(texts) }
    }

    /// The agents that have something in common with `text`, by index, with the similarity, 0 to 1.
    pub(super) fn similarities(&self, text: &str) -> Vec<(usize, f64)> {
        let words = self.words.shares(text);
        let ngrams = self.ngrams.cosines(text);
        let both = words.into_iter().zip(ngrams);
        both.map(|(words, ngrams)| (1.0 - NGRAM_SHARE) * f64::from(words) + NGRAM_SHARE * f64::from(ngrams))
            .enumerate()
            .filter(|(_, similarity)| *similarity > 0.0)
            .map(|(at, similarity)| (at, similarity.min(1.0)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_words() {
        assert_eq!(words_of("flight_agent"), "flight");
        assert_eq!(words_of("flightSearch-v2"), "flight Search v2");
        assert_eq!(words_of("agent"), "agent");
        assert_eq!(words_of(""), "");
    }

    #[test]
    fn similarities_lie_between_nothing_and_one() {
        let texts = ["find flights".to_owned(), "find hotels".to_owned(), String::new()];
        let index = Lexical::new(&texts);
        let same = index.similarities("find flights");
        assert_eq!(same[0].0, 0);
        assert!(same[0].1 > 0.7 && same[0].1 <= 1.0, "{same:?}");
        assert!(same.iter().all(|(at, _)| *at != 2));
        assert_eq!(index.similarities(""), []);
        assert_eq!(index.similarities("§"), []);
    }
}
