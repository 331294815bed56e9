//! How well a step and each agent fit together, from several points of view at once.

use std::cell::OnceCell;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use goalmill_common::agent::Agent;

use crate::bm25::Bm25;
use crate::describe::Description;
use crate::late::Late;
use crate::ngram::{self, Ngrams};
use crate::pieces::Pieces;
use crate::statics::Statics;
use crate::table::Table;
use crate::wide::{dot, scale, whole, wide};
use crate::words::{contents, sentences, stems};

/// Characters of a step that are looked at.
const TEXT_CHARS_MAX: usize = 1_000;
/// Candidates that get a second look.
const SECOND_LOOK: usize = 24;
/// Sentences of a step that are looked at one by one.
const SENTENCES_MAX: usize = 8;
/// Weight of the static model.
const MEANING: f32 = 8.0;
/// Share of it that the nearest sentence alone has, where it is nearer than the whole step.
const SENTENCE: f32 = 0.6;
/// Weights of the second look: the step's words met by the agent's, and the agent's by the step's.
const STEP_MET: f32 = 3.5;
const AGENT_MET: f32 = 3.0;

/// A step, read once for all embedders.
#[derive(Debug)]
pub(super) struct Query {
    text: String,
    stems: Vec<String>,
    runs: Vec<(u64, f32)>,
    /// Its words, their pieces and its vector by the static model, once that was asked.
    contents: OnceCell<Contents>,
    pieces: OnceCell<Pieces>,
    vector: OnceCell<Vec<i16>>,
    /// Its vector from the remote embedder, if that one has answered in time.
    remote: Option<Arc<Vec<i16>>>,
}

/// The words of a step.
#[derive(Debug)]
struct Contents {
    words: Vec<String>,
    /// Which of them each sentence has, when there are several.
    sentences: Vec<Range<usize>>,
}

impl Contents {
    fn of(text: &str) -> Self {
        let mut words: Vec<String> = Vec::new();
        let mut parts: Vec<Range<usize>> = Vec::new();
        for sentence in sentences(text) {
            let from = words.len();
            words.extend(contents(sentence));
            parts.extend((words.len() > from).then_some(from..words.len()));
        }
        parts.truncate(if parts.len() > 1 { SENTENCES_MAX } else { 0 });
        Self { words, sentences: parts }
    }
}

impl Query {
    pub(super) fn new(text: &str, remote: Option<Arc<Vec<i16>>>) -> Self {
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        let (stems, runs) = (stems(&text), ngram::weighed(&text));
        let (contents, pieces, vector) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { text, stems, runs, contents, pieces, vector, remote }
    }

    fn contents(&self) -> &Contents {
        self.contents.get_or_init(|| Contents::of(&self.text))
    }

    fn pieces(&self, statics: &Statics) -> &Pieces {
        self.pieces.get_or_init(|| statics.cut(&self.contents().words))
    }

    fn vector(&self, statics: &Statics) -> &[i16] {
        self.vector.get_or_init(|| statics.read(self.pieces(statics).all()))
    }
}

/// One point of view.
pub(super) trait Embedder: Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// How much it counts among the others.
    fn weight(&self) -> f32;

    /// For each agent the similarity to the step, 0 to 1; nothing if it cannot tell, and the others go on without it.
    fn similarities(&self, query: &Query) -> Option<Vec<f32>>;
}

/// Lexical: words.
#[derive(Debug)]
struct Words(Bm25);

impl Embedder for Words {
    fn name(&self) -> &'static str {
        "bm25"
    }

    fn weight(&self) -> f32 {
        1.5
    }

    fn similarities(&self, query: &Query) -> Option<Vec<f32>> {
        Some(self.0.shares(&query.stems))
    }
}

/// Lexical: runs of letters.
#[derive(Debug)]
struct Letters(Ngrams);

impl Embedder for Letters {
    fn name(&self) -> &'static str {
        "char_ngrams"
    }

    fn weight(&self) -> f32 {
        2.8
    }

    fn similarities(&self, query: &Query) -> Option<Vec<f32>> {
        Some(self.0.cosines(&query.runs))
    }
}

/// Local: the static model.
#[derive(Debug)]
struct Meaning(Arc<Statics>);

impl Embedder for Meaning {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn weight(&self) -> f32 {
        MEANING
    }

    fn similarities(&self, query: &Query) -> Option<Vec<f32>> {
        query.pieces(&self.0).are_known().then(|| self.0.similarities(query.vector(&self.0)))
    }
}

/// Remote: vectors that came from an endpoint after the registry changed.
#[derive(Debug, Default)]
pub(super) struct Remote(OnceLock<Vec<Vec<i16>>>);

impl Remote {
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Takes the agents' vectors, once for each registry.
    pub(super) fn set(&self, vectors: Vec<Vec<i16>>) {
        // Whoever came first computed the same vectors.
        drop(self.0.set(vectors));
    }
}

impl Embedder for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn weight(&self) -> f32 {
        8.0
    }

    fn similarities(&self, query: &Query) -> Option<Vec<f32>> {
        let step = query.remote.as_ref()?;
        let cosine = |agent: &Vec<i16>| if agent.len() == step.len() { dot(agent, step).max(0.0) } else { 0.0 };
        let agents = self.0.get()?;
        Some(wide(|| agents.iter().map(cosine).collect()))
    }
}

/// A vector from an endpoint, as the index keeps it.
pub(super) fn remote_vector(mut vector: Vec<f32>) -> Vec<i16> {
    scale(&mut vector);
    whole(&vector)
}

/// Everything that is known of the agents' words.
#[derive(Debug, Default)]
pub(super) struct Index {
    agents: usize,
    embedders: Vec<Box<dyn Embedder>>,
    second: Option<SecondLook>,
    pub(super) remote: Remote,
}

/// What looks again at the best.
#[derive(Debug)]
struct SecondLook {
    statics: Arc<Statics>,
    late: Late,
}

/// How well each agent fits a step.
#[derive(Debug)]
pub(super) struct Likeness {
    /// For each agent, 0 to 1.
    pub(super) total: Vec<f32>,
    /// What the total is made of: by embedder, for each agent.
    pub(super) factors: Vec<(&'static str, Vec<f32>)>,
}

impl Index {
    pub(super) fn new(agents: &[Agent], table: Option<&Arc<Table>>) -> Self {
        let descriptions: Vec<Description> = agents.iter().map(Description::of).collect();
        let parts = || descriptions.iter().map(Description::parts);
        let mut embedders: Vec<Box<dyn Embedder>> =
            vec![Box::new(Words(Bm25::new(parts()))), Box::new(Letters(Ngrams::new(parts())))];
        let second = table.map(|table| {
            let words: Vec<Vec<String>> = descriptions.iter().map(Description::words).collect();
            let statics = Arc::new(Statics::new(table.clone(), &words));
            embedders.push(Box::new(Meaning(statics.clone())));
            SecondLook { statics, late: Late::new(table.clone(), &words) }
        });
        Self { agents: agents.len(), embedders, second, remote: Remote::default() }
    }

    pub(super) fn likeness(&self, query: &Query) -> Likeness {
        let mut total = vec![0.0_f32; self.agents];
        let mut weights = 0.0;
        let mut factors = Vec::new();
        let remote: [&dyn Embedder; 1] = [&self.remote];
        for embedder in self.embedders.iter().map(AsRef::as_ref).chain(remote) {
            let Some(similarities) = embedder.similarities(query) else { continue };
            weights += embedder.weight();
            for (sum, similarity) in total.iter_mut().zip(&similarities) {
                *sum += embedder.weight() * similarity;
            }
            factors.push((embedder.name(), similarities));
        }
        let is_known = factors.iter().any(|(name, _)| *name == "embedding");
        if let Some(second) = self.second.as_ref().filter(|_| is_known) {
            let best = shortlist(&total);
            let sentences = &query.contents().sentences;
            if !sentences.is_empty() {
                let pieces = query.pieces(&second.statics);
                let parts = sentences.iter().map(|words| pieces.of_words(words));
                let nearer = second.statics.nearer(query.vector(&second.statics), parts, &best);
                let meaning = factors.iter_mut().find(|(name, _)| *name == "embedding");
                let mut told = meaning.map(|(_, values)| values);
                for (at, nearer) in best.iter().zip(nearer) {
                    total[*at] += MEANING * SENTENCE * nearer;
                    if let Some(values) = &mut told {
                        values[*at] = (values[*at] + SENTENCE * nearer).min(1.0);
                    }
                }
            }
            let met = second.met(query, &total, best);
            let (step, agent) = met.into_iter().unzip::<f32, f32, Vec<f32>, Vec<f32>>();
            for ((sum, step), agent) in total.iter_mut().zip(&step).zip(&agent) {
                *sum += STEP_MET * step + AGENT_MET * agent;
            }
            weights += STEP_MET + AGENT_MET;
            factors.extend([("maxsim_step", step), ("maxsim_agent", agent)]);
        }
        total.iter_mut().for_each(|sum| *sum = (*sum / weights.max(1.0)).clamp(0.0, 1.0));
        Likeness { total, factors }
    }
}

impl SecondLook {
    /// How well words meet; the rest counts as the worst of those that are looked at again: it stays behind them.
    fn met(&self, query: &Query, total: &[f32], best: Vec<usize>) -> Vec<(f32, f32)> {
        let seen = self.late.meet(&query.contents().words, &best);
        let least = |least: (f32, f32), met: &(f32, f32)| (least.0.min(met.0), least.1.min(met.1));
        let rest = if best.len() < total.len() { seen.iter().fold((1.0, 1.0), least) } else { (0.0, 0.0) };
        // What has nothing in common with the step stays at nothing.
        let mut met: Vec<(f32, f32)> = total.iter().map(|t| if *t > 0.0 { rest } else { (0.0, 0.0) }).collect();
        for (at, seen) in best.into_iter().zip(seen) {
            met[at] = seen;
        }
        met
    }
}

/// The best by what is known so far.
fn shortlist(total: &[f32]) -> Vec<usize> {
    let mut best: Vec<usize> = (0..total.len()).collect();
    let by_total = |a: &usize, b: &usize| total[*b].total_cmp(&total[*a]).then(a.cmp(b));
    if best.len() > SECOND_LOOK {
        best.select_nth_unstable_by(SECOND_LOOK - 1, by_total);
        best.truncate(SECOND_LOOK);
    }
    best
}
