//! Searches events.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::Result;
use super::connection::integer;
use super::read::event;
use crate::words::MORE_WORDS;
use crate::{ArchivedEvent, EventSearch};

pub(super) fn search(connection: &Connection, search: &EventSearch, limit: usize) -> Result<Vec<ArchivedEvent>> {
    let Conditions { text, mut values } = Conditions::from_search(search);
    values.push(integer(limit as u64).into());
    let mut read = connection.prepare_cached(&format!(
        "SELECT \"timestamp\", plan_id, seq, entry, line FROM log_entries AS e WHERE {text} \
         ORDER BY \"timestamp\" DESC, plan_id DESC, seq DESC LIMIT ?"
    ))?;
    let rows = read.query_map(params_from_iter(values), event)?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

/// A `WHERE` clause and its values, in order.
#[derive(Default)]
struct Conditions {
    text: String,
    values: Vec<Value>,
}

impl Conditions {
    fn from_search(search: &EventSearch) -> Self {
        let EventSearch { plan, step, phase, types, words, conditions, namespace, since_ms, before } = search;
        let mut all = Self::default();
        all.add("\"timestamp\" >= ?", [integer(*since_ms).into()]);
        if let Some(before) = before {
            let values: [Value; 3] =
                [integer(before.time_ms).into(), before.plan.as_str().to_owned().into(), integer(before.seq).into()];
            all.add("(\"timestamp\", plan_id, seq) < (?, ?, ?)", values);
        }
        if let Some(plan) = plan {
            all.add("plan_id = ?", [plan.as_str().to_owned().into()]);
        }
        if let Some(step) = step {
            all.add("(step_id = ? OR step_id IS NULL)", [step.clone().into()]);
        }
        if let Some(phase) = phase {
            all.add("phase_id = ?", [phase.clone().into()]);
        }
        if !types.is_empty() {
            let marks = vec!["?"; types.len()].join(", ");
            all.add(&format!("event_type IN ({marks})"), types.iter().map(|name| name.clone().into()));
        }
        // Words have letters and digits only.
        let quoted =
            |words: &[String]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" AND ");
        let condition = "number IN (SELECT rowid FROM log_words WHERE log_words MATCH ?)";
        if !words.is_empty() {
            all.add(condition, [quoted(words).into()]);
        }
        let asked = conditions.words();
        if !asked.is_empty() {
            all.add(condition, [format!("({}) OR \"{MORE_WORDS}\"", quoted(&asked)).into()]);
        }
        if let Some(namespace) = namespace {
            let condition = "EXISTS (SELECT 1 FROM plans AS p WHERE p.plan_id = e.plan_id AND p.namespace = ?)";
            all.add(condition, [namespace.as_str().to_owned().into()]);
        }
        all
    }

    fn add(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        if !self.text.is_empty() {
            self.text.push_str(" AND ");
        }
        self.text.push_str(condition);
        self.values.extend(values);
    }
}
