//! Scores every agent for a step, combining several similarity measures.

use std::cell::OnceCell;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use goalmill_common::agent::Agent;

use crate::agent_text::AgentText;
use crate::bm25::Bm25;
use crate::embedding_table::EmbeddingTable;
use crate::late_interaction::LateInteraction;
use crate::ngram::{self, Ngrams};
use crate::static_embedder::StaticEmbedder;
use crate::subwords::Subwords;
use crate::text_analysis::{content_words, sentences, stems};
use crate::vectors::{dot, normalize, quantize};

/// Characters of a step that are used.
const TEXT_CHARS_MAX: usize = 1_000;
/// Candidates that are reranked.
const RERANKED_MAX: usize = 24;
/// Sentences of a step that are compared separately.
const SENTENCES_MAX: usize = 8;
/// Weight of the static embedding.
const EMBEDDING_WEIGHT: f32 = 8.0;
/// Share of that weight for the best sentence, as far as it is more similar than the whole step.
const SENTENCE_SHARE: f32 = 0.6;
/// Weight of the MaxSim of the step's words.
const MAXSIM_STEP_WEIGHT: f32 = 3.5;
/// Weight of the MaxSim of the agent's words.
const MAXSIM_AGENT_WEIGHT: f32 = 3.0;

/// A step, tokenized once for all scorers.
#[derive(Debug)]
pub(super) struct StepQuery {
    text: String,
    stems: Vec<String>,
    ngrams: Vec<(u64, f32)>,
    content_words: OnceCell<ContentWords>,
    subwords: OnceCell<Subwords>,
    /// By the static model.
    vector: OnceCell<Vec<i16>>,
    /// From the embedding endpoint, if it has responded in time.
    remote: Option<Arc<Vec<i16>>>,
}

/// The content words of a step.
#[derive(Debug)]
struct ContentWords {
    words: Vec<String>,
    /// The word range of each sentence, if there are several.
    sentences: Vec<Range<usize>>,
}

impl ContentWords {
    fn new(text: &str) -> Self {
        let mut words: Vec<String> = Vec::new();
        let mut parts: Vec<Range<usize>> = Vec::new();
        for sentence in sentences(text) {
            let from = words.len();
            words.extend(content_words(sentence));
            parts.extend((words.len() > from).then_some(from..words.len()));
        }
        parts.truncate(if parts.len() > 1 { SENTENCES_MAX } else { 0 });
        Self { words, sentences: parts }
    }
}

impl StepQuery {
    pub(super) fn new(text: &str, remote: Option<Arc<Vec<i16>>>) -> Self {
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        let (stems, ngrams) = (stems(&text), ngram::weighted_ngrams(&text));
        let (content_words, subwords, vector) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { text, stems, ngrams, content_words, subwords, vector, remote }
    }

    fn content_words(&self) -> &ContentWords {
        self.content_words.get_or_init(|| ContentWords::new(&self.text))
    }

    fn subwords(&self, embedder: &StaticEmbedder) -> &Subwords {
        self.subwords.get_or_init(|| embedder.tokenize(&self.content_words().words))
    }

    fn vector(&self, embedder: &StaticEmbedder) -> &[i16] {
        self.vector.get_or_init(|| embedder.embed(self.subwords(embedder).all()))
    }
}

/// A similarity measure.
pub(super) trait Scorer: Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Weight in the total score.
    fn weight(&self) -> f32;

    /// Similarity of each agent to the step, 0 to 1; `None` if the measure does not apply.
    fn similarities(&self, query: &StepQuery) -> Option<Vec<f32>>;
}

/// BM25 over stems.
#[derive(Debug)]
struct Bm25Scorer(Bm25);

impl Scorer for Bm25Scorer {
    fn name(&self) -> &'static str {
        "bm25"
    }

    fn weight(&self) -> f32 {
        1.5
    }

    fn similarities(&self, query: &StepQuery) -> Option<Vec<f32>> {
        Some(self.0.shares(&query.stems))
    }
}

/// TF-IDF over character n-grams.
#[derive(Debug)]
struct NgramScorer(Ngrams);

impl Scorer for NgramScorer {
    fn name(&self) -> &'static str {
        "char_ngrams"
    }

    fn weight(&self) -> f32 {
        2.8
    }

    fn similarities(&self, query: &StepQuery) -> Option<Vec<f32>> {
        Some(self.0.cosines(&query.ngrams))
    }
}

/// Cosine of static embeddings.
#[derive(Debug)]
struct StaticScorer(Arc<StaticEmbedder>);

impl Scorer for StaticScorer {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn weight(&self) -> f32 {
        EMBEDDING_WEIGHT
    }

    fn similarities(&self, query: &StepQuery) -> Option<Vec<f32>> {
        query.subwords(&self.0).are_mostly_known().then(|| self.0.similarities(query.vector(&self.0)))
    }
}

/// Cosine of vectors from the embedding endpoint, fetched after the registry changed.
#[derive(Debug, Default)]
pub(super) struct RemoteScorer(OnceLock<Vec<Vec<i16>>>);

impl RemoteScorer {
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Sets the agents' vectors, once per registry.
    pub(super) fn set(&self, vectors: Vec<Vec<i16>>) {
        // A concurrent caller fetched the same vectors.
        drop(self.0.set(vectors));
    }
}

impl Scorer for RemoteScorer {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn weight(&self) -> f32 {
        8.0
    }

    fn similarities(&self, query: &StepQuery) -> Option<Vec<f32>> {
        let step = query.remote.as_ref()?;
        let cosine = |agent: &Vec<i16>| if agent.len() == step.len() { dot(agent, step).max(0.0) } else { 0.0 };
        let agents = self.0.get()?;
        Some(agents.iter().map(cosine).collect())
    }
}

/// Normalizes and quantizes a vector of the endpoint.
pub(super) fn quantize_remote(mut vector: Vec<f32>) -> Vec<i16> {
    normalize(&mut vector);
    quantize(&vector)
}

/// Indexes over the texts of all agents.
#[derive(Debug, Default)]
pub(super) struct AgentIndex {
    agents: usize,
    scorers: Vec<Box<dyn Scorer>>,
    reranker: Option<Reranker>,
    pub(super) remote: RemoteScorer,
}

/// Reranks the best candidates by late interaction.
#[derive(Debug)]
struct Reranker {
    embedder: Arc<StaticEmbedder>,
    late_interaction: LateInteraction,
}

/// Scores of all agents for a step.
#[derive(Debug)]
pub(super) struct AgentScores {
    /// Score of each agent, 0 to 1.
    pub(super) total: Vec<f32>,
    /// Similarity of each agent by scorer.
    pub(super) factors: Vec<(&'static str, Vec<f32>)>,
}

impl AgentIndex {
    pub(super) fn new(agents: &[Agent], table: Option<&Arc<EmbeddingTable>>) -> Self {
        let descriptions: Vec<AgentText> = agents.iter().map(AgentText::from_agent).collect();
        let parts = || descriptions.iter().map(AgentText::parts);
        let mut scorers: Vec<Box<dyn Scorer>> =
            vec![Box::new(Bm25Scorer(Bm25::new(parts()))), Box::new(NgramScorer(Ngrams::new(parts())))];
        let reranker = table.map(|table| {
            let words: Vec<Vec<String>> = descriptions.iter().map(AgentText::words).collect();
            let embedder = Arc::new(StaticEmbedder::new(table.clone(), &words));
            scorers.push(Box::new(StaticScorer(embedder.clone())));
            Reranker { embedder, late_interaction: LateInteraction::new(table.clone(), &words) }
        });
        Self { agents: agents.len(), scorers, reranker, remote: RemoteScorer::default() }
    }

    pub(super) fn score(&self, query: &StepQuery) -> AgentScores {
        let mut total = vec![0.0_f32; self.agents];
        let mut weights = 0.0;
        let mut factors = Vec::new();
        let remote: [&dyn Scorer; 1] = [&self.remote];
        for scorer in self.scorers.iter().map(AsRef::as_ref).chain(remote) {
            let Some(similarities) = scorer.similarities(query) else { continue };
            weights += scorer.weight();
            for (sum, similarity) in total.iter_mut().zip(&similarities) {
                *sum += scorer.weight() * similarity;
            }
            factors.push((scorer.name(), similarities));
        }
        let is_known = factors.iter().any(|(name, _)| *name == "embedding");
        if let Some(reranker) = self.reranker.as_ref().filter(|_| is_known) {
            let best = shortlist(&total);
            let sentences = &query.content_words().sentences;
            if !sentences.is_empty() {
                let subwords = query.subwords(&reranker.embedder);
                let parts = sentences.iter().map(|words| subwords.word_range(words));
                let gains = reranker.embedder.sentence_gain(query.vector(&reranker.embedder), parts, &best);
                let embedding = factors.iter_mut().find(|(name, _)| *name == "embedding");
                let mut similarities = embedding.map(|(_, values)| values);
                for (at, gain) in best.iter().zip(gains) {
                    total[*at] += EMBEDDING_WEIGHT * SENTENCE_SHARE * gain;
                    if let Some(values) = &mut similarities {
                        values[*at] = (values[*at] + SENTENCE_SHARE * gain).min(1.0);
                    }
                }
            }
            let maxsim = reranker.maxsim(query, &total, best);
            let (step, agent) = maxsim.into_iter().unzip::<f32, f32, Vec<f32>, Vec<f32>>();
            for ((sum, step), agent) in total.iter_mut().zip(&step).zip(&agent) {
                *sum += MAXSIM_STEP_WEIGHT * step + MAXSIM_AGENT_WEIGHT * agent;
            }
            weights += MAXSIM_STEP_WEIGHT + MAXSIM_AGENT_WEIGHT;
            factors.extend([("maxsim_step", step), ("maxsim_agent", agent)]);
        }
        total.iter_mut().for_each(|sum| *sum = (*sum / weights.max(1.0)).clamp(0.0, 1.0));
        AgentScores { total, factors }
    }
}

impl Reranker {
    /// MaxSim in both directions. Agents that are not reranked get the lowest values of those that are.
    fn maxsim(&self, query: &StepQuery, total: &[f32], best: Vec<usize>) -> Vec<(f32, f32)> {
        let reranked = self.late_interaction.maxsim(&query.content_words().words, &best);
        let least = |least: (f32, f32), maxsim: &(f32, f32)| (least.0.min(maxsim.0), least.1.min(maxsim.1));
        let rest = if best.len() < total.len() { reranked.iter().fold((1.0, 1.0), least) } else { (0.0, 0.0) };
        // An agent without any similarity stays at zero.
        let mut maxsim: Vec<(f32, f32)> = total.iter().map(|t| if *t > 0.0 { rest } else { (0.0, 0.0) }).collect();
        for (at, reranked) in best.into_iter().zip(reranked) {
            maxsim[at] = reranked;
        }
        maxsim
    }
}

/// The candidates with the highest total.
fn shortlist(total: &[f32]) -> Vec<usize> {
    let mut best: Vec<usize> = (0..total.len()).collect();
    let by_total = |a: &usize, b: &usize| total[*b].total_cmp(&total[*a]).then(a.cmp(b));
    if best.len() > RERANKED_MAX {
        best.select_nth_unstable_by(RERANKED_MAX - 1, by_total);
        best.truncate(RERANKED_MAX);
    }
    best
}
