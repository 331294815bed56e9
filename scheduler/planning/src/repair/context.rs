//! A draft under repair, with an index of its steps, fields, edges and references.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use goalmill_common::text::pointer_part;
use goalmill_plan::validate::path::{mentions, mentions_bare, spelled};
use goalmill_plan::validate::{ActionEntry, Catalogue, Rules, id_text, plan_field, step_field};
use serde_json::{Map, Value};

use super::Edit;

/// Most steps of a draft that is repaired; a larger one is only validated. Planners are held to far fewer.
pub(super) const STEPS_MAX: usize = 200;

pub(super) struct RepairContext<'r> {
    pub draft: Value,
    pub steps: Vec<StepAt>,
    /// JSON Pointer to the list of edges.
    pub edges: Option<String>,
    pub rules: &'r Rules<'r>,
    pub edits: Vec<Edit>,
    /// The place of each step in the order in which they are to be written.
    pub rank: Vec<usize>,
    /// Places to take out at the end, so that no other place moves before.
    removed: BTreeSet<(String, usize)>,
}

/// Where a step stands and what its fields are called there.
pub(super) struct StepAt {
    pub pointer: String,
    keys: BTreeMap<&'static str, String>,
    /// The step's id where the steps are an object.
    key: Option<String>,
    /// It stands in the `always` of the plan.
    is_always: bool,
}

/// Fields of a step, beside its inputs, whose texts hold expressions.
const TEMPLATES: [&str; 8] = ["inputs", "for_each", "ask", "cache", "wait", "until", "key", "undo"];

/// A place where one step sees another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepReference {
    /// The step that looks, by number.
    pub step: usize,
    /// The text it stands in.
    pub pointer: String,
    /// The bytes of `steps.ID` there.
    pub at: Range<usize>,
    /// The id it names.
    pub target: String,
    /// It stands in the `undo` of the step, which sees all steps.
    pub is_undo: bool,
}

/// A dependency as the draft has it.
#[derive(Clone, Debug)]
pub(super) struct DependencyLink {
    pub from: String,
    pub to: String,
    /// The list and the number in it; no number for a field that is one text.
    pub list: String,
    pub index: Option<usize>,
    /// The field with the id, for an item with statuses.
    pub key: Option<&'static str>,
    /// Names of the ends, for edges.
    pub ends: Option<(String, String)>,
}

impl DependencyLink {
    /// Where the id of the step that is waited for stands; none in a field that is one text.
    pub(super) fn pointer(&self) -> Option<String> {
        let (list, index) = (&self.list, self.index?);
        let key = self.ends.as_ref().map(|(from, _)| from.as_str()).or(self.key);
        Some(key.map_or_else(|| format!("{list}/{index}"), |key| format!("{list}/{index}/{key}")))
    }
}

/// Names of the field with the id in a dependency with statuses.
pub(super) const DEPENDENCY_KEYS: [&str; 4] = ["step", "id", "task", "name"];

/// The steps of a draft, and what each of them waits for.
pub(super) struct Graph {
    /// Steps by id; of several with one id the first.
    pub numbers: BTreeMap<String, usize>,
    /// For each step the known steps that are its dependencies, other than itself.
    pub sources: Vec<BTreeSet<usize>>,
}

impl<'r> RepairContext<'r> {
    /// Finds the parts of a draft; gives it back when there are no steps to be found, or more than [`STEPS_MAX`].
    pub(super) fn from_draft(draft: Value, rules: &'r Rules<'r>) -> Result<Self, Value> {
        let Some(Found { steps, edges }) = found(&draft) else { return Err(draft) };
        let rank = (0..steps.len()).collect();
        Ok(Self { draft, steps, edges, rules, edits: Vec::new(), rank, removed: BTreeSet::new() })
    }

    /// Takes out what was marked, last first.
    pub(super) fn sweep(&mut self) {
        for (list, index) in std::mem::take(&mut self.removed).into_iter().rev() {
            if let Some(items) = self.draft.pointer_mut(&list).and_then(Value::as_array_mut)
                && index < items.len()
            {
                items.remove(index);
            }
        }
    }

    pub(super) fn catalogue(&self) -> Option<&'r Catalogue> {
        self.rules.catalogue
    }

    /// A field of a step by its canonical name.
    pub(super) fn field(&self, step: usize, name: &str) -> Option<&Value> {
        let at = &self.steps[step];
        let key = at.keys.get(name).map_or(name, String::as_str);
        find(&self.draft, &at.pointer)?.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, step: usize, name: &str) -> String {
        self.field(step, name).and_then(Value::as_str).map(|t| t.trim().to_owned()).unwrap_or_default()
    }

    /// Where a field stands, or would stand.
    pub(super) fn place(&self, step: usize, name: &str) -> String {
        let at = &self.steps[step];
        format!("{}/{}", at.pointer, pointer_part(at.keys.get(name).map_or(name, String::as_str)))
    }

    /// Whether the step has such a field under some name.
    pub(super) fn has(&self, step: usize, name: &str) -> bool {
        self.steps[step].keys.contains_key(name)
    }

    /// The id of a step as references spell it; empty when it has none.
    pub(super) fn id(&self, step: usize) -> String {
        if let Some(id) = self.field(step, "id").and_then(id_text) {
            return id;
        }
        match &self.steps[step].key {
            Some(key) => key.clone(),
            None => self.field(step, "name").and_then(id_text).unwrap_or_default(),
        }
    }

    pub(super) fn action(&self, step: usize) -> String {
        let action = self.text(step, "action");
        if !action.is_empty() {
            return action;
        }
        let task = self.text(step, "task");
        if task.contains(char::is_whitespace) { String::new() } else { task }
    }

    /// The agent type; `auto` when none is named.
    pub(super) fn agent(&self, step: usize) -> String {
        match self.text(step, "agent_type").as_str() {
            "" | "TBD" | "tbd" => "auto".to_owned(),
            named => named.to_owned(),
        }
    }

    /// What the step's action can do, when just one agent offers it.
    pub(super) fn action_entry(&self, step: usize) -> Option<&'r ActionEntry> {
        let mut found = self.catalogue()?.find(&self.agent(step), &self.action(step));
        if found.len() == 1 { found.pop() } else { None }
    }

    /// Notes that a step has a field under its canonical name.
    pub(super) fn add_key(&mut self, step: usize, name: &'static str) {
        self.steps[step].keys.insert(name, name.to_owned());
    }

    /// Sets a field of a step, and tells.
    pub(super) fn set(&mut self, step: usize, name: &'static str, became: Value, code: &str, why: String) {
        let pointer = self.place(step, name);
        let key = unescape(pointer.rsplit('/').next().unwrap_or_default());
        let at = self.steps[step].pointer.clone();
        let Some(map) = self.draft.pointer_mut(&at).and_then(Value::as_object_mut) else { return };
        let was = map.insert(key.clone(), became.clone()).unwrap_or_default();
        self.steps[step].keys.insert(name, key);
        self.note(code, pointer, was, became, why);
    }

    /// Puts something in the place of what stands there, and tells.
    pub(super) fn replace(&mut self, pointer: &str, became: Value, code: &str, why: String) {
        let Some(place) = self.draft.pointer_mut(pointer) else { return };
        let was = std::mem::replace(place, became.clone());
        self.note(code, pointer.to_owned(), was, became, why);
    }

    /// Lets a dependency name another step, with the statuses that are given for it.
    pub(super) fn rename_dependency(&mut self, link: &DependencyLink, id: &str, code: &str, why: &str) {
        let Some(pointer) = link.pointer() else { return };
        self.replace(&pointer, id.into(), code, why.to_owned());
        let Some((step, _)) = link.list.rsplit_once('/').filter(|_| link.ends.is_none()) else { return };
        let at = format!("{step}/dependency_status");
        if let Some(Value::Object(statuses)) = self.draft.pointer_mut(&at)
            && !statuses.contains_key(id)
            && let Some(words) = statuses.shift_remove(&link.from)
        {
            statuses.insert(id.to_owned(), words);
            let pointer = format!("{at}/{}", pointer_part(&link.from));
            self.note(code, pointer, link.from.as_str().into(), id.into(), why.to_owned());
        }
    }

    /// Marks an item of a list to be taken out, and tells.
    pub(super) fn remove(&mut self, list: &str, index: usize, code: &str, why: String) {
        let pointer = format!("{list}/{index}");
        let was = self.draft.pointer(&pointer).cloned().unwrap_or_default();
        if self.removed.insert((list.to_owned(), index)) {
            self.note(code, pointer, was, Value::Null, why);
        }
    }

    fn is_removed(&self, list: &str, index: usize) -> bool {
        self.removed.contains(&(list.to_owned(), index))
    }

    pub(super) fn note(&mut self, code: &str, pointer: String, was: Value, became: Value, why: String) {
        self.edits.push(Edit { code: code.to_owned(), pointer, was, became, why });
    }

    /// Steps by id; of several with one id the first.
    pub(super) fn numbers(&self) -> BTreeMap<String, usize> {
        let mut numbers = BTreeMap::new();
        for step in 0..self.steps.len() {
            numbers.entry(self.id(step)).or_insert(step);
        }
        numbers
    }

    /// Every place where a step sees another through an expression.
    pub(super) fn seen(&self) -> Vec<StepReference> {
        let mut seen = Vec::new();
        for step in 0..self.steps.len() {
            for field in TEMPLATES {
                let mut texts = Vec::new();
                if let Some(value) = self.field(step, field) {
                    collect(value, &self.place(step, field), &mut texts);
                }
                let is_undo = field == "undo";
                for (pointer, text) in texts {
                    seen.extend(mentions(text).into_iter().map(|m| StepReference {
                        step,
                        pointer: pointer.clone(),
                        at: m.at,
                        target: m.step,
                        is_undo,
                    }));
                }
            }
            let repeat = self.field(step, "repeat").and_then(|repeat| repeat.get("until")?.as_str());
            let conditions = [
                (self.field(step, "when").and_then(Value::as_str), self.place(step, "when")),
                (repeat, format!("{}/until", self.place(step, "repeat"))),
            ];
            for (text, pointer) in conditions {
                seen.extend(text.map(mentions_bare).into_iter().flatten().map(|m| StepReference {
                    step,
                    pointer: pointer.clone(),
                    at: m.at,
                    target: m.step,
                    is_undo: false,
                }));
            }
        }
        seen
    }

    /// Lets references name other steps: `(reference, new id)`.
    pub(super) fn redirect(&mut self, mut changes: Vec<(StepReference, String)>, code: &str, why: &str) {
        // Last first, so that the bytes before stay where they are.
        changes.sort_by(|a, b| (&a.0.pointer, b.0.at.start).cmp(&(&b.0.pointer, a.0.at.start)));
        let mut at = 0;
        while at < changes.len() {
            let pointer = changes[at].0.pointer.clone();
            let Some(Value::String(text)) = self.draft.pointer(&pointer) else { return };
            let mut text = text.clone();
            while at < changes.len() && changes[at].0.pointer == pointer {
                let (seen, id) = &changes[at];
                text.replace_range(seen.at.clone(), &spelled(id));
                at += 1;
            }
            self.replace(&pointer, Value::String(text), code, why.to_owned());
        }
    }

    /// Every dependency that is written down, with its place.
    pub(super) fn links(&self) -> Vec<DependencyLink> {
        let mut links = Vec::new();
        for step in 0..self.steps.len() {
            let (to, list) = (self.id(step), self.place(step, "dependencies"));
            let link =
                |from, index| DependencyLink { from, to: to.clone(), list: list.clone(), index, key: None, ends: None };
            match self.field(step, "dependencies") {
                Some(Value::Array(items)) => {
                    let kept = items.iter().enumerate().filter(|(i, _)| !self.is_removed(&list, *i));
                    links.extend(kept.filter_map(|(i, item)| {
                        let Value::Object(map) = item else { return Some(link(id_text(item)?, Some(i))) };
                        let key = DEPENDENCY_KEYS.into_iter().find(|key| map.contains_key(*key))?;
                        Some(DependencyLink { key: Some(key), ..link(id_text(&map[key])?, Some(i)) })
                    }));
                }
                Some(Value::String(text)) => {
                    let ids = text.split([',', ' ']).filter(|id| !id.is_empty());
                    links.extend(ids.map(|from| link(from.to_owned(), None)));
                }
                Some(other) => links.extend(id_text(other).map(|from| link(from, None))),
                None => {}
            }
        }
        let edges = self.edges.as_ref().and_then(|list| Some((list, self.draft.pointer(list)?.as_array()?)));
        if let Some((list, items)) = edges {
            for (i, item) in items.iter().enumerate().filter(|(i, _)| !self.is_removed(list, *i)) {
                let Some(((from_key, from), (to_key, to))) = ends(item) else { continue };
                let ends = Some((from_key.to_owned(), to_key.to_owned()));
                links.push(DependencyLink { from, to, list: list.clone(), index: Some(i), key: None, ends });
            }
        }
        links
    }

    /// The steps and what is written down as their dependencies.
    pub(super) fn graph(&self) -> Graph {
        let numbers = self.numbers();
        let mut sources = vec![BTreeSet::new(); self.steps.len()];
        for link in self.links() {
            if let (Some(from), Some(to)) = (numbers.get(&link.from), numbers.get(&link.to))
                && from != to
            {
                sources[*to].insert(*from);
            }
        }
        Graph { numbers, sources }
    }

    /// Whether a step runs after the outcome of the plan is known. It sees all others and waits for none of them.
    pub(super) fn is_cleanup(&self, step: usize) -> bool {
        self.steps[step].is_always || self.field(step, "always") == Some(&Value::Bool(true)) || self.has(step, "undoes")
    }

    /// Whether a step is a map, whose outputs are a list.
    pub(super) fn is_map(&self, step: usize) -> bool {
        self.field(step, "for_each").is_some()
    }

    /// Whether a step may see another.
    pub(super) fn may_see(&self, step: usize, target: usize) -> bool {
        if self.rules.in_order && !self.is_cleanup(step) { self.rank[target] < self.rank[step] } else { target != step }
    }
}

/// What an end is called in its edge, and the id there.
type EdgeEnd<'e> = (&'e str, String);

/// The two ends of an edge with the names they have there.
fn ends(edge: &Value) -> Option<(EdgeEnd<'_>, EdgeEnd<'_>)> {
    match edge {
        Value::Array(pair) if pair.len() == 2 => Some((("0", id_text(&pair[0])?), ("1", id_text(&pair[1])?))),
        Value::Object(map) => {
            let end = |names: [&str; 4]| {
                let (key, value) = map.iter().find(|(key, _)| names.contains(&key.as_str()))?;
                Some((key.as_str(), id_text(value)?))
            };
            end(["from", "source", "src", "start"]).zip(end(["to", "target", "dst", "end"]))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

/// The only step with the number that an id begins with, where ids say number and action: `s1_read` for `s1_send`. The
/// number is the place in the list, and the rest repeats what the step does.
pub(super) fn same_number<'n>(numbers: &'n BTreeMap<String, usize>, id: &str) -> Option<&'n str> {
    let number = |id: &str| -> Option<u32> { id.split('_').next()?.strip_prefix('s')?.parse().ok() };
    if numbers.keys().any(|id| number(id).is_none()) {
        return None;
    }
    let wanted = number(id)?;
    let mut same = numbers.keys().filter(|id| number(id) == Some(wanted));
    let only = same.next()?;
    same.next().is_none().then_some(only.as_str())
}

/// What is found in a draft.
struct Found {
    steps: Vec<StepAt>,
    /// JSON Pointer to the list of edges.
    edges: Option<String>,
}

fn found(draft: &Value) -> Option<Found> {
    let mut steps = Vec::new();
    let mut edges = None;
    let mut root = String::new();
    let mut document = draft;
    while let Some(inner) = document.get("plan").filter(|p| p.is_object() || p.is_array()) {
        if document.as_object().is_none_or(|map| map.keys().any(|key| plan_field(key) == Some("steps"))) {
            break;
        }
        root.push_str("/plan");
        document = inner;
    }
    match document {
        Value::Array(_) => gather(document, &root, &mut steps)?,
        Value::Object(map) => {
            for (key, value) in map {
                let at = format!("{root}/{}", pointer_part(key));
                match plan_field(key) {
                    Some("steps") => gather(value, &at, &mut steps)?,
                    Some("edges") if value.is_array() => edges = Some(at),
                    Some("phases") => phases(value, &at, &mut steps)?,
                    Some(_) | None => {}
                }
            }
            if steps.is_empty() {
                return None;
            }
            for (key, value) in map.iter().filter(|(key, _)| plan_field(key) == Some("always")) {
                let count = steps.len();
                gather(value, &format!("{root}/{}", pointer_part(key)), &mut steps)?;
                steps[count..].iter_mut().for_each(|step| step.is_always = true);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    if steps.is_empty() { None } else { Some(Found { steps, edges }) }
}

/// None when there are more than [`STEPS_MAX`].
fn gather(steps: &Value, at: &str, found: &mut Vec<StepAt>) -> Option<()> {
    let room = STEPS_MAX.saturating_sub(found.len());
    match steps {
        Value::Array(items) if items.len() > room => return None,
        Value::Object(map) if map.len() > room => return None,
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                found.extend(item.as_object().map(|map| step_at(map, format!("{at}/{i}"), None)));
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                let step = item.as_object();
                found.extend(step.map(|map| step_at(map, format!("{at}/{}", pointer_part(key)), Some(key.clone()))));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Some(())
}

fn phases(phases: &Value, at: &str, found: &mut Vec<StepAt>) -> Option<()> {
    for (i, phase) in phases.as_array().into_iter().flatten().enumerate() {
        for (key, value) in phase.as_object().into_iter().flatten() {
            if plan_field(key) == Some("steps") {
                gather(value, &format!("{at}/{i}/{}", pointer_part(key)), found)?;
            }
        }
    }
    Some(())
}

fn step_at(map: &Map<String, Value>, pointer: String, key: Option<String>) -> StepAt {
    let mut keys = BTreeMap::new();
    for name in map.keys() {
        if let Some(field) = step_field(name) {
            keys.entry(field).or_insert_with(|| name.clone());
        }
    }
    StepAt { pointer, keys, key, is_always: false }
}

/// Every text and where it stands.
pub(super) fn collect<'v>(value: &'v Value, at: &str, texts: &mut Vec<(String, &'v str)>) {
    match value {
        Value::String(text) => texts.push((at.to_owned(), text)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| collect(item, &format!("{at}/{i}"), texts));
        }
        Value::Object(map) => {
            map.iter().for_each(|(key, item)| collect(item, &format!("{at}/{}", pointer_part(key)), texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What [`Value::pointer`] finds, without a copy of each key: the fields of steps are looked at very often.
fn find<'v>(root: &'v Value, pointer: &str) -> Option<&'v Value> {
    if pointer.contains('~') {
        return root.pointer(pointer);
    }
    pointer.split('/').skip(1).try_fold(root, |value, key| match value {
        Value::Object(map) => map.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

pub(super) fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}
