//! Retrievers: passages that may help with a goal, each with its source.

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
    /// The retriever that found it, as provenance names it: `documents`, `plans`.
    pub retriever: &'static str,
}
