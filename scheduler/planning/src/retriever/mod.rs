//! Retrievers: passages that may help with a goal, each with its source.

use async_trait::async_trait;

pub mod documents;
mod passages;
mod sources;

pub use documents::DocumentRetriever;

/// A passage for a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// Where it comes from: `travel.md#2`, `https://example.org/a#1`, `plan p0-01kb…`.
    pub source: String,
    pub text: String,
    /// How well it fits the question, 0 to 1.
    pub likeness: f64,
    /// The retriever that found it.
    pub retriever: &'static str,
}

/// Finds passages for a question.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// The word for it in provenance.
    fn name(&self) -> &'static str;

    /// The passages that fit best, best first.
    ///
    /// - `most`: how many at most.
    async fn retrieve(&self, question: &str, most: usize) -> Vec<Passage>;
}
