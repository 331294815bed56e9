//! Replaces unknown names of agents and actions by names of the catalogue.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use goalmill_plan::validate::names::{alike, normal, only_slip, stem, words};
use goalmill_plan::validate::{ActionEntry, Catalogue};
use serde_json::Value;

use super::context::RepairContext;
use super::type_inference::{self, Kinds, Neighbours};

/// What an action may be recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Its name, and what agents say of their actions.
    Name,
    /// Also the kinds of data around it.
    Neighbours,
}

/// Least score of a name that is taken for another.
const SCORE_MIN: f64 = 0.54;
/// How far the best must be before the second.
const MARGIN: f64 = 0.08;
/// Both, where nothing but the name tells.
const ALONE_MIN: f64 = 0.62;
const ALONE_MARGIN: f64 = 0.12;
/// Least share of the words of a name, by weight, that an action must speak of.
const COVERED_MIN: f64 = 0.6;
/// Least score of the only action whose kinds of data fit.
const ONLY_MIN: f64 = 0.12;

/// Replaces agent types that nobody has.
pub(super) fn agents(work: &mut RepairContext<'_>) {
    let Some(catalogue) = work.catalogue() else { return };
    for step in 0..work.steps.len() {
        let (agent, action) = (work.agent(step), work.action(step));
        let offers =
            |agent: &str| catalogue.agent(agent).is_some_and(|agent_entry| agent_entry.actions.contains_key(&action));
        let others: Vec<&str> =
            catalogue.action_entries().filter(|(_, name, _)| *name == action).map(|(a, _, _)| a).collect();
        if agent == "auto" {
            agent_in_action(work, catalogue, step, &action);
            continue;
        }
        let known = catalogue.agent(&agent);
        if let ([only], false) = (others.as_slice(), action.is_empty() || offers(&agent))
            && known.is_none_or(|agent_entry| !agent_entry.actions.is_empty())
        {
            let why = format!("only `{only}` offers `{action}`");
            work.set(step, "agent_type", (*only).into(), "AGENT_BY_ACTION", why);
            continue;
        }
        if known.is_some() {
            continue;
        }
        let named: Vec<&str> = catalogue
            .action_entries()
            .filter(|(_, name, _)| normal(name) == normal(&agent))
            .map(|(a, _, _)| a)
            .collect();
        let same: Vec<&str> =
            catalogue.agents().map(|(name, _)| name).filter(|n| normal(n) == normal(&agent)).collect();
        if let [only] = same.as_slice() {
            work.set(
                step,
                "agent_type",
                (*only).into(),
                "AGENT_NORMAL_FORM",
                "the same name, spelled otherwise".into(),
            );
        } else if let (Some(only), []) = (only_slip(&agent, catalogue.agents().map(|(name, _)| name)), same.as_slice())
        {
            work.set(step, "agent_type", only.into(), "AGENT_SIMILAR", "one letter of its name is wrong".into());
        } else if let ([only], true) = (named.as_slice(), action.is_empty()) {
            let name = catalogue.action_entries().find(|(a, name, _)| a == only && normal(name) == normal(&agent));
            let name = name.map(|(_, name, _)| name.to_owned()).unwrap_or_default();
            work.set(
                step,
                "agent_type",
                (*only).into(),
                "AGENT_BY_ACTION",
                format!("`{agent}` is an action of `{only}`"),
            );
            work.set(step, "action", name.into(), "ACTION_FROM_AGENT", format!("`{agent}` is an action of `{only}`"));
        } else if let Some((name, score)) =
            clear(catalogue.agents().map(|(name, _)| (name, alike(&agent, name))), 0.7, 0.12)
        {
            let why = format!("the only agent type with a name like it ({score:.2})");
            work.set(step, "agent_type", name.into(), "AGENT_SIMILAR", why);
        }
    }
}

/// An action that nobody offers and that is the name of an agent type says who does the step.
fn agent_in_action(work: &mut RepairContext<'_>, catalogue: &Catalogue, step: usize, action: &str) {
    if action.is_empty() || !work.has(step, "action") || !catalogue.find("auto", action).is_empty() {
        return;
    }
    let same = catalogue.agents().map(|(name, _)| name).filter(|n| normal(n) == normal(action));
    let Some(name) = catalogue.agent(action).map(|_| action).or_else(|| only(same)) else { return };
    let offered = catalogue.agent(name).and_then(|agent| only(agent.actions.keys()).cloned()).unwrap_or_default();
    let why = || format!("`{action}` is no action, and `{name}` is an agent type");
    work.set(step, "agent_type", name.into(), "AGENT_FROM_ACTION", why());
    work.set(step, "action", offered.into(), "AGENT_FROM_ACTION", why());
}

/// Replaces actions that their agent does not offer.
pub(super) fn actions(work: &mut RepairContext<'_>, evidence: Evidence) {
    let Some(catalogue) = work.catalogue() else { return };
    // Other names for actions leave what leads from step to step as it is.
    let (lexicon, around) = (OnceCell::new(), OnceCell::new());
    for step in 0..work.steps.len() {
        let (agent, action) = (work.agent(step), work.action(step));
        let is_open = catalogue.agent(&agent).is_some_and(|agent_entry| agent_entry.actions.is_empty());
        let is_lost = agent != "auto" && catalogue.agent(&agent).is_none();
        if action.is_empty() || is_open || is_lost || !catalogue.find(&agent, &action).is_empty() {
            continue;
        }
        let candidates: BTreeMap<&str, &ActionEntry> = catalogue
            .action_entries()
            .filter(|(owner, _, _)| catalogue.agent(&agent).is_none() || *owner == agent)
            .map(|(_, name, action_entry)| (name, action_entry))
            .collect();
        let kinds = type_inference::kinds(work, around.get_or_init(|| Neighbours::of(work)), step);
        let description = work.text(step, "description");
        let inputs =
            work.field(step, "inputs").and_then(Value::as_object).map(|m| m.keys().cloned().collect::<Vec<_>>());
        let query = Query { action: &action, description: &description, inputs, kinds, catalogue, lexicon: &lexicon };
        let found = query
            .by_name(&candidates)
            .or_else(|| if evidence == Evidence::Neighbours { query.by_neighbours(&candidates) } else { None });
        if let Some((name, code, why)) = found {
            let field = if work.has(step, "action") { "action" } else { "task" };
            work.set(step, field, name.into(), code, why);
        } else if evidence == Evidence::Neighbours && agent == "auto" {
            action_is_text(work, step, &action, &description);
        }
    }
}

/// An action of several words that nobody offers is the text of a step that has none.
fn action_is_text(work: &mut RepairContext<'_>, step: usize, action: &str, description: &str) {
    if action.split_whitespace().count() < 3 || !description.is_empty() || !work.has(step, "action") {
        return;
    }
    let why = "no action is called so, and the step has no other text";
    work.set(step, "description", action.into(), "TEXT_IS_DESCRIPTION", why.to_owned());
    work.set(step, "action", String::new().into(), "ACTION_DROPPED", why.to_owned());
}

struct Query<'a> {
    action: &'a str,
    description: &'a str,
    /// Names of the inputs.
    inputs: Option<Vec<String>>,
    kinds: Kinds,
    catalogue: &'a Catalogue,
    lexicon: &'a OnceCell<Lexicon>,
}

type Found<'n> = Option<(&'n str, &'static str, String)>;

impl Query<'_> {
    /// The same name in another spelling, or another name for it that its own description gives.
    fn by_name<'n>(&self, candidates: &BTreeMap<&'n str, &ActionEntry>) -> Found<'n> {
        let same = |given: &str| only(candidates.keys().copied().filter(|name| normal(name) == normal(given)));
        if let Some(name) = same(self.action) {
            return Some((name, "ACTION_NORMAL_FORM", "the same name, spelled otherwise".into()));
        }
        if let Some(name) = only_slip(self.action, candidates.keys().copied()) {
            return Some((name, "ACTION_SIMILAR", "one letter of its name is wrong".into()));
        }
        let parts = parts(self.action);
        let named: BTreeSet<&str> = parts.iter().filter_map(|part| same(part)).collect();
        if let (Some(name), 1) = (named.first(), named.len()) {
            return Some((name, "ACTION_NORMAL_FORM", format!("`{name}` is one of the names in it")));
        }
        if named.len() > 1 {
            let fitting = only(named.into_iter().filter(|name| self.kinds.allow(candidates[name])));
            let why = "the one of the names in it whose kinds of data fit".to_owned();
            return fitting.map(|name| (name, "ACTION_BY_KINDS", why));
        }
        for given in std::iter::once(self.action).chain(parts.iter().map(String::as_str)) {
            let told = candidates.iter().filter(|(_, action_entry)| Lexicon::tells(&action_entry.description, given));
            if let Some((name, _)) = only(told) {
                return Some((name, "ACTION_ALIAS", format!("its description speaks of `{given}`")));
            }
        }
        let said = said_kinds(self.action)?;
        let fitting = candidates.iter().filter(|(_, a)| {
            a.takes.len() == 1 && is_kind(&a.takes[0], said.0) && a.gives.iter().any(|kind| is_kind(kind, said.1))
        });
        let (name, _) = only(fitting)?;
        Some((name, "ACTION_BY_KINDS", format!("the only action from {} to {}", said.0, said.1)))
    }

    /// The best name among those whose kinds of data fit, or the only one that fits.
    fn by_neighbours<'n>(&self, candidates: &BTreeMap<&'n str, &ActionEntry>) -> Found<'n> {
        let begins =
            candidates.iter().filter(|(_, action_entry)| Lexicon::begins(&action_entry.description, self.action));
        if let Some((name, action_entry)) = only(begins) {
            // Elsewhere the name means something that nobody offers.
            let why = || format!("`{}` is what its description begins with", self.action);
            return self.fits(action_entry).then(|| (*name, "ACTION_ALIAS", why()));
        }
        if words(self.action).iter().all(|word| kind_of(word).is_some() || word == "to") {
            // A name of kinds and nothing else says no more than what goes in and what comes out.
            let said = candidates.iter().filter(|(_, action_entry)| self.is_said_by(action_entry));
            let (name, _) = only(said.filter(|_| said_kinds(self.action).is_some()))?;
            return Some((name, "ACTION_BY_KINDS", "the only action between the kinds of data in its name".into()));
        }
        let scored = |name: &&'n str| (*name, self.score(name, candidates[name]));
        let fitting: Vec<&str> = candidates.iter().filter(|(_, a)| self.fits(a)).map(|(name, _)| *name).collect();
        let is_told = !self.kinds.reach.is_empty() || !self.kinds.wanted.is_empty() || self.inputs.is_some();
        if let ([name], true) = (fitting.as_slice(), self.kinds.are_complete())
            && self.score(name, candidates[name]) >= ONLY_MIN
        {
            return Some((
                name,
                "ACTION_BY_KINDS",
                "the only action that takes and gives what its neighbours do".into(),
            ));
        }
        let best = if is_told { clear(fitting.iter().map(scored), SCORE_MIN, MARGIN) } else { None };
        let best = best.or_else(|| {
            let said =
                candidates.iter().filter(|(_, action_entry)| self.is_said_by(action_entry)).map(|(name, _)| name);
            clear(said.map(scored), ALONE_MIN, ALONE_MARGIN)
        });
        best.map(|(name, score)| (name, "ACTION_SIMILAR", similar(score)))
    }

    fn fits(&self, action_entry: &ActionEntry) -> bool {
        self.kinds.allow(action_entry) && self.takes_inputs(action_entry) && self.is_said_by(action_entry)
    }

    /// Whether the kinds of data that the name speaks of are kinds that the action has to do with: what is called
    /// `Image Generation` is none that turns text into text.
    fn is_said_by(&self, action_entry: &ActionEntry) -> bool {
        if action_entry.takes.is_empty() && action_entry.gives.is_empty() {
            return true;
        }
        if let Some((from, to)) = said_kinds(self.action) {
            return action_entry.takes.iter().any(|kind| is_kind(kind, from))
                && action_entry.gives.iter().any(|kind| is_kind(kind, to));
        }
        let said = words(self.action).into_iter().filter_map(|word| kind_of(&word));
        said.into_iter()
            .all(|kind| action_entry.takes.iter().chain(&action_entry.gives).any(|declared| is_kind(declared, kind)))
    }

    /// Whether the inputs that are given are inputs that the action has.
    fn takes_inputs(&self, action_entry: &ActionEntry) -> bool {
        let (Some(given), Some(schema)) = (&self.inputs, action_entry.inputs.as_ref()) else { return true };
        let Some(known) = schema.get("properties").and_then(Value::as_object) else { return true };
        let required = schema.get("required").and_then(Value::as_array);
        given.iter().all(|name| known.contains_key(name))
            && required.into_iter().flatten().filter_map(Value::as_str).all(|name| given.iter().any(|g| g == name))
    }

    /// 0 unless most of what is asked for is spoken of in the name or description of the action, or all of its name
    /// in what is asked for.
    fn score(&self, name: &str, action_entry: &ActionEntry) -> f64 {
        let lexicon = self.lexicon();
        let likeness = alike(self.action, name);
        let covered = lexicon.covered(self.action, name, &action_entry.description);
        if covered < COVERED_MIN && lexicon.covered(name, self.action, "") < 1.0 {
            return 0.0;
        }
        let described = lexicon.covered(self.description, name, &action_entry.description);
        0.5 * likeness + 0.35 * covered + 0.15 * described
    }

    /// Counted when a name is looked at that no spelling explains; most drafts have none.
    fn lexicon(&self) -> &Lexicon {
        self.lexicon.get_or_init(|| Lexicon::of(self.catalogue))
    }
}

fn similar(score: f64) -> String {
    format!("the name and description nearest to it ({score:.2}), clearly before the next")
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next();
    if found.next().is_some() { None } else { first }
}

/// The best when it is good enough and clearly before the second.
fn clear<'n>(scored: impl Iterator<Item = (&'n str, f64)>, min: f64, margin: f64) -> Option<(&'n str, f64)> {
    let mut scored: Vec<(&str, f64)> = scored.collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    scored.dedup_by(|a, b| a.0 == b.0);
    let (name, best) = *scored.first()?;
    let second = scored.get(1).map_or(0.0, |(_, score)| *score);
    (best >= min && best - second >= margin).then_some((name, best))
}

/// The names in a name: without what stands in brackets, what stands there, and alternatives.
fn parts(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = name;
    let mut outside = String::new();
    while let Some((before, after)) = rest.split_once('(') {
        outside.push_str(before);
        let Some((inside, tail)) = after.split_once(')') else {
            rest = after;
            break;
        };
        parts.push(inside.trim().to_owned());
        rest = tail;
    }
    outside.push_str(rest);
    let outside = outside.trim().to_owned();
    let alternatives: Vec<&str> =
        outside.split(" or ").flat_map(|part| part.split(['/', '|'])).map(str::trim).collect();
    if alternatives.len() > 1 {
        parts.splice(0..0, alternatives.into_iter().map(str::to_owned));
    } else if !parts.is_empty() {
        parts.insert(0, outside);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Kinds of data under the names that people have for them.
const KINDS: &[(&str, &[&str])] = &[
    ("text", &["text", "texts"]),
    ("image", &["image", "picture", "photo"]),
    ("audio", &["audio", "speech", "voice", "sound"]),
    ("video", &["video", "movie"]),
];

/// The kinds that a name such as `Speech-to-Text` says it takes and gives.
fn said_kinds(name: &str) -> Option<(&'static str, &'static str)> {
    let words = words(name);
    let [from, to, into] = words.as_slice() else { return None };
    (to == "to" || to == "2").then(|| kind_of(from).zip(kind_of(into))).flatten()
}

fn kind_of(word: &str) -> Option<&'static str> {
    KINDS.iter().find(|(_, names)| names.contains(&word)).map(|(kind, _)| *kind)
}

fn is_kind(declared: &str, kind: &str) -> bool {
    let declared = normal(declared);
    KINDS.iter().any(|(name, names)| *name == kind && names.contains(&declared.as_str()))
}

/// How much each word of the catalogue tells.
struct Lexicon {
    /// In how many names or descriptions each stem stands.
    counts: BTreeMap<String, usize>,
    actions: usize,
}

impl Lexicon {
    fn of(catalogue: &Catalogue) -> Self {
        let mut counts = BTreeMap::new();
        let mut actions = 0;
        for (_, name, action_entry) in catalogue.action_entries() {
            actions += 1;
            for stem in stems(name).into_iter().chain(stems(&action_entry.description)).collect::<BTreeSet<_>>() {
                *counts.entry(stem).or_default() += 1;
            }
        }
        Self { counts, actions }
    }

    /// Inverse document frequency; words that stand nowhere tell as much as words that stand once.
    fn weight(&self, stem: &str) -> f64 {
        let count = self.counts.get(stem).copied().unwrap_or(1).max(1);
        ((self.actions.max(1) as f64 + 1.0) / count as f64).ln()
    }

    /// The share of the words of `given`, by weight, that stand in a name or its description.
    fn covered(&self, given: &str, name: &str, description: &str) -> f64 {
        let given: BTreeSet<String> = stems(given).into_iter().collect();
        let there: BTreeSet<String> = stems(name).into_iter().chain(stems(description)).collect();
        let all: f64 = given.iter().map(|stem| self.weight(stem)).sum();
        let found: f64 = given.intersection(&there).map(|stem| self.weight(stem)).sum();
        if all > 0.0 { found / all } else { 0.0 }
    }

    /// Whether a description begins with the words of a name, turned around: `Extracts text …` for `Text Extractor`.
    fn begins(description: &str, name: &str) -> bool {
        let mut wanted = stems(name);
        wanted.reverse();
        wanted.len() == 2 && stems(description).starts_with(&wanted)
    }

    /// Whether a description has all words of a name, one after the other: two words at least, or one abbreviation.
    fn tells(description: &str, name: &str) -> bool {
        let wanted = stems(name);
        let is_short = name.len() >= 2 && name.chars().all(|c| c.is_ascii_uppercase());
        if wanted.len() < 2 && !is_short {
            return false;
        }
        let there = stems(description);
        there.windows(wanted.len().max(1)).any(|window| window == wanted) || (is_short && spells(description, name))
    }
}

/// Whether words that follow each other begin with the letters of an abbreviation.
fn spells(description: &str, abbreviation: &str) -> bool {
    let initials: Vec<char> =
        description.split(|c: char| !c.is_alphanumeric()).filter_map(|word| word.chars().next()).collect();
    let wanted: Vec<char> = abbreviation.chars().map(|c| c.to_ascii_lowercase()).collect();
    let is_same = |window: &[char]| window.iter().map(char::to_ascii_lowercase).eq(wanted.iter().copied());
    wanted.len() >= 3 && initials.windows(wanted.len()).any(is_same)
}

/// The stems of a text without the words that every text has.
fn stems(text: &str) -> Vec<String> {
    const PASSED: &[&str] =
        &["to", "of", "the", "a", "an", "and", "or", "from", "for", "in", "on", "by", "with", "use", "using", "step"];
    // Longer than a name: descriptions are read whole.
    text.split(|c: char| !c.is_alphanumeric())
        .flat_map(words)
        .filter(|word| !PASSED.contains(&word.as_str()))
        .map(|word| stem(&word).replace("modelling", "model"))
        .collect()
}
