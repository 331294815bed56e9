//! Cuts documents into passages, and ranks passages with the router's scorers: embeddings, BM25 and runs of letters.

use goalmill_common::agent::Agent;
use goalmill_common::config::RouterSettings;
use goalmill_router::Router;

use super::Passage;

/// Passages of an index at most.
const PASSAGES_MAX: usize = 5_000;
/// A passage below this share of the best likeness is left out.
const SHARE_MIN: f64 = 0.5;
/// Least likeness of a passage, 0 to 1.
const LIKENESS_MIN: f64 = 0.12;

/// A document as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// Path in the folder, or address.
    pub source: String,
    pub text: String,
}

/// An index over the passages of all documents.
pub struct PassageIndex {
    passages: Vec<(String, String)>,
    router: Router,
}

impl PassageIndex {
    /// - `chars_max`: characters of one passage.
    pub fn new(documents: &[SourceText], chars_max: usize) -> Self {
        let mut passages = Vec::new();
        for document in documents {
            let parts = split(&document.text, chars_max).into_iter().enumerate();
            passages.extend(parts.map(|(n, text)| (format!("{}#{}", document.source, n + 1), text)));
            if passages.len() >= PASSAGES_MAX {
                tracing::warn!("only the first {PASSAGES_MAX} passages of the documents are used");
                passages.truncate(PASSAGES_MAX);
                break;
            }
        }
        let router = Router::new(RouterSettings::default());
        // A passage is indexed as an agent that is described by it.
        let card = |(n, (_, text)): (usize, &(String, String))| Agent {
            description: text.clone(),
            ..Agent::named(n.to_string().into())
        };
        router.update_agents(passages.iter().enumerate().map(card).collect());
        Self { passages, router }
    }

    pub fn len(&self) -> usize {
        self.passages.len()
    }

    /// The passages that fit best, best first.
    pub fn rank(&self, question: &str, most: usize) -> Vec<Passage> {
        let mut ranked: Vec<(f64, usize)> = self
            .router
            .route(question)
            .iter()
            .filter_map(|found| Some((found.similarity, found.agent_type.as_str().parse().ok()?)))
            .filter(|(_, at)| *at < self.passages.len())
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let least = ranked.first().map_or(0.0, |(best, _)| best * SHARE_MIN).max(LIKENESS_MIN);
        let near = ranked.into_iter().take_while(|(likeness, _)| *likeness >= least).take(most);
        near.map(|(likeness, at)| {
            let (source, text) = &self.passages[at];
            Passage { source: source.clone(), text: text.clone(), likeness, retriever: "documents" }
        })
        .collect()
    }
}

/// Cuts a text into passages: whole paragraphs as far as they fit, long ones at blanks.
fn split(text: &str, chars_max: usize) -> Vec<String> {
    let mut passages = Vec::new();
    let mut passage = String::new();
    let mut chars = 0;
    for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        for piece in pieces(paragraph, chars_max) {
            let length = piece.chars().count();
            if chars > 0 && chars + length + 1 > chars_max {
                passages.push(std::mem::take(&mut passage));
                chars = 0;
            }
            if chars > 0 {
                passage.push('\n');
                chars += 1;
            }
            passage.push_str(piece);
            chars += length;
        }
    }
    if chars > 0 {
        passages.push(passage);
    }
    passages
}

/// Pieces of at most `chars_max` characters, cut behind the last blank that fits.
fn pieces(paragraph: &str, chars_max: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = paragraph;
    while let Some((end, _)) = rest.char_indices().nth(chars_max.max(1)) {
        let cut = rest[..end].rfind(char::is_whitespace).filter(|at| *at > 0).unwrap_or(end);
        let (piece, tail) = rest.split_at(cut);
        found.push(piece.trim_end());
        rest = tail.trim_start();
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_keep_paragraphs_together_and_are_bounded() {
        let text = format!("# Rome\n\nQuiet hotels.\n\n{}\n\nLast.", "long ".repeat(50).trim_end());
        let passages = split(&text, 60);
        assert_eq!(passages[0], "# Rome\nQuiet hotels.");
        assert!(passages.iter().all(|passage| passage.chars().count() <= 60), "{passages:?}");
        assert_eq!(passages.iter().flat_map(|p| p.split_whitespace()).filter(|word| *word == "long").count(), 50);
        assert_eq!(split(&"ä".repeat(10), 4), ["ääää", "ääää", "ää"]);
        assert_eq!(split(" \n\n ", 10), [""; 0]);
    }

    #[test]
    fn the_passage_about_the_question_ranks_first_with_its_source() {
        let document = |source: &str, text: &str| SourceText { source: source.into(), text: text.into() };
        let index = PassageIndex::new(
            &[
                document("bread.md", "Bake bread in a hot oven for an hour."),
                document("rome.md", "Hotels in Rome near the station are quiet.\n\nThe museum opens at nine."),
                document("tax.md", "Invoices are archived for ten years."),
            ],
            60,
        );
        assert_eq!(index.len(), 4);
        let found = index.rank("Book a quiet hotel in Rome", 2);
        assert_eq!(found[0].source, "rome.md#1", "{found:?}");
        assert!(found[0].likeness > 0.0 && found.len() <= 2);
        assert_eq!(index.rank("zzzz qqqq", 2), []);
    }
}
