//! Infers a step's input and output types from its neighbours.

use std::collections::BTreeSet;

use goalmill_plan::validate::names::normal;
use goalmill_plan::validate::{ActionEntry, kinds_meet};

use super::context::{Graph, RepairContext, StepReference, collect};

/// Kinds of data around a step; each set is one neighbour's.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    /// What each input may be.
    pub reach: Vec<Vec<String>>,
    /// What each reader takes.
    pub wanted: Vec<Vec<String>>,
}

impl Kinds {
    /// Whether an ability takes all that reaches the step and gives something that each reader takes; what is not
    /// declared excludes nothing.
    pub(super) fn allow(&self, action_entry: &ActionEntry) -> bool {
        let takes = |kinds: &Vec<String>| action_entry.takes.is_empty() || kinds_meet(kinds, &action_entry.takes);
        let gives = |kinds: &Vec<String>| action_entry.gives.is_empty() || kinds_meet(&action_entry.gives, kinds);
        self.reach.iter().all(takes) && self.wanted.iter().all(gives)
    }

    /// Whether something is known on both sides.
    pub(super) fn are_complete(&self) -> bool {
        !self.reach.is_empty() && !self.wanted.is_empty()
    }
}

/// What leads from step to step.
pub(super) struct Neighbours {
    graph: Graph,
    seen: Vec<StepReference>,
}

impl Neighbours {
    pub(super) fn of(work: &RepairContext<'_>) -> Self {
        Self { graph: work.graph(), seen: work.seen() }
    }
}

/// Collects what references, links and the literal inputs tell.
pub(super) fn kinds(work: &RepairContext<'_>, around: &Neighbours, step: usize) -> Kinds {
    let Neighbours { graph: Graph { numbers, sources }, seen } = around;
    let mut from = BTreeSet::new();
    let mut to = BTreeSet::new();
    for look in seen {
        let Some(target) = numbers.get(&look.target).copied() else { continue };
        if look.step == step && work.may_see(step, target) {
            from.insert(target);
        }
        if target == step && work.may_see(look.step, step) {
            to.insert(look.step);
        }
    }
    let reads = |reader: usize| seen.iter().any(|look| look.step == reader);
    if from.is_empty() && !reads(step) {
        from.extend(sources[step].iter().filter(|_| literal_kinds(work, step).is_empty()));
    }
    // A link without a reference says that something flows, unless the reader has references that say otherwise.
    to.extend((0..sources.len()).filter(|reader| sources[*reader].contains(&step) && !reads(*reader)));
    let mut kinds = Kinds::default();
    kinds.reach.extend(
        from.into_iter().filter_map(|s| work.action_entry(s)).map(|a| a.gives.clone()).filter(|g| !g.is_empty()),
    );
    kinds.reach.extend(literal_kinds(work, step));
    kinds
        .wanted
        .extend(to.into_iter().filter_map(|s| work.action_entry(s)).map(|a| a.takes.clone()).filter(|t| !t.is_empty()));
    kinds
}

/// Kinds of the literal inputs that name a file or a place in the net.
fn literal_kinds(work: &RepairContext<'_>, step: usize) -> Vec<Vec<String>> {
    let mut texts = Vec::new();
    if let Some(inputs) = work.field(step, "inputs") {
        collect(inputs, "", &mut texts);
    }
    texts.into_iter().filter_map(|(_, text)| literal_kind(text)).map(|kind| vec![kind.to_owned()]).collect()
}

/// The kind of a file by its ending; of an address without one, `url`.
fn literal_kind(text: &str) -> Option<&'static str> {
    const ENDINGS: &[(&str, &[&str])] = &[
        ("image", &["jpg", "jpeg", "png", "gif", "bmp", "webp", "tif", "tiff"]),
        ("audio", &["wav", "mp3", "flac", "ogg", "m4a", "aac"]),
        ("video", &["mp4", "avi", "mov", "mkv", "webm"]),
        ("text", &["txt", "md", "csv", "json"]),
    ];
    let text = text.trim().trim_matches(['\'', '"']);
    if text.contains(char::is_whitespace) || text.contains("{{") {
        return None;
    }
    if text.starts_with("http://") || text.starts_with("https://") {
        return Some("url");
    }
    let ending = normal(text.rsplit_once('.')?.1);
    ENDINGS.iter().find(|(_, endings)| endings.contains(&ending.as_str())).map(|(kind, _)| *kind)
}

/// Whether what one step gives can be what another takes; `None` when either is not declared.
pub(super) fn flows(work: &RepairContext<'_>, from: usize, to: usize) -> Option<bool> {
    let (giver, taker) = (work.action_entry(from)?, work.action_entry(to)?);
    if giver.gives.is_empty() || taker.takes.is_empty() {
        return None;
    }
    Some(kinds_meet(&giver.gives, &taker.takes))
}
