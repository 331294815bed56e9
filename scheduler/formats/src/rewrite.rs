//! Changes to a document: what moved, and what was dropped.

use std::collections::BTreeMap;

use goalmill_common::problem::{ERRORS_MAX, Issue};
use goalmill_common::text::pointer_part;
use serde_json::{Map, Value};

use goalmill_plan::document::{issue, shorten};

/// Fields of which notes are kept.
const NOTES_MAX: usize = 40;

/// What was changed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Rewrite {
    /// Places in the converted document, and where what stands there stood before.
    moves: BTreeMap<String, String>,
    notes: Vec<NotedField>,
    refused: Vec<Issue>,
    pub is_sequence: bool,
    pub hands_on: bool,
}

/// A field that has no meaning here, or one that the form adds, in all its places.
#[derive(Clone, Debug)]
struct NotedField {
    /// The pointer without the numbers of lists and the ids of steps.
    kind: String,
    pointer: String,
    what: String,
    hint: String,
    places: usize,
}

/// Why a field was dropped.
pub(super) const STATE: &str = "it is the state of an execution, and a submission starts from the beginning";

impl Rewrite {
    /// Where something in the converted document stood.
    pub(super) fn original(&self, pointer: &str) -> String {
        let mut end = pointer.len();
        loop {
            if let Some(before) = self.moves.get(&pointer[..end]) {
                return format!("{before}{}", &pointer[end..]);
            }
            match pointer[..end].rfind('/') {
                Some(slash) => end = slash,
                None => return pointer.to_owned(),
            }
        }
    }

    /// Notes that what stands at `place` stood at `before`, a place of the original document.
    pub(super) fn moved(&mut self, place: String, before: String) {
        if place != before {
            self.moves.insert(place, before);
        }
    }

    /// Takes a field out and notes it.
    ///
    /// - `at`: JSON Pointer to the object in the converted document.
    /// - `kind`: what sort of object it is: `plan`, `step`.
    pub(super) fn drop_field(
        &mut self,
        map: &mut Map<String, Value>,
        at: &str,
        kind: &str,
        key: &str,
        why: &'static str,
    ) {
        if map.shift_remove(key).is_some_and(|value| !value.is_null()) {
            self.note(at, kind, key, why);
        }
    }

    pub(super) fn note(&mut self, at: &str, kind: &str, key: &str, why: &'static str) {
        self.note_as(at, kind, key, &format!("is ignored: {why}"));
    }

    /// Notes what became of a field.
    pub(super) fn note_as(&mut self, at: &str, kind: &str, key: &str, what: &str) {
        let kind = format!("{kind}/{key}");
        if let Some(known) = self.notes.iter_mut().find(|known| known.kind == kind) {
            known.places += 1;
        } else if self.notes.len() < NOTES_MAX {
            let pointer = format!("{}/{}", self.original(at), pointer_part(key));
            self.notes.push(NotedField { kind, pointer, what: what.into(), hint: String::new(), places: 1 });
        }
    }

    /// Notes what a document of this form means without saying it.
    ///
    /// - `hint`: what to write to have it otherwise.
    pub(super) fn note_default(&mut self, at: &str, key: &str, what: &str, hint: String) {
        let pointer = self.original(&format!("{at}/{}", pointer_part(key)));
        self.notes.push(NotedField { kind: format!("plan/{key}"), pointer, what: what.into(), hint, places: 1 });
    }

    /// Refuses a field that means something in its form, and cannot have this meaning here.
    ///
    /// - `pointer`: into the original document.
    pub(super) fn refuse(&mut self, code: &str, pointer: &str, detail: impl Into<String>, hint: impl Into<String>) {
        let refused = issue(code, pointer, detail, hint);
        if self.refused.len() < ERRORS_MAX && !self.refused.contains(&refused) {
            self.refused.push(refused);
        }
    }

    /// Whether a value that is named so, `state.x`, is refused already.
    pub(super) fn is_refused(&self, name: &str) -> bool {
        let pointer = format!("/{}", name.replace('.', "/"));
        self.refused.iter().any(|issue| issue.pointer == pointer)
    }

    pub(super) fn take_refused(&mut self) -> Vec<Issue> {
        std::mem::take(&mut self.refused)
    }

    /// Moves a field of one object into another one.
    pub(super) fn carry(
        &mut self,
        (map, at, key): (&mut Map<String, Value>, &str, &str),
        (target, target_at, name): (&mut Map<String, Value>, &str, &str),
    ) {
        if target.contains_key(name) {
            return;
        }
        let Some(value) = map.shift_remove(key) else { return };
        let before = self.original(&format!("{at}/{}", pointer_part(key)));
        target.insert(name.to_owned(), value);
        self.moved(format!("{target_at}/{}", pointer_part(name)), before);
    }

    pub(super) fn take_notes(&mut self) -> Vec<Issue> {
        std::mem::take(&mut self.notes)
            .into_iter()
            .map(|field| {
                let name = shorten(field.pointer.rsplit('/').next().unwrap_or_default()).into_owned();
                let places = if field.places > 1 { format!(", in {} places,", field.places) } else { String::new() };
                Issue {
                    code: "FORMAT_CONVERTED".into(),
                    detail: format!("`{name}`{places} {}", field.what),
                    pointer: field.pointer,
                    hint: field.hint,
                }
            })
            .collect()
    }
}
