//! Searches events.

use goalmill_common::clock::{TIME_MS_MAX, rfc3339};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::copy::jsonb;
use super::read::{EVENT, event};
use super::{Result, integer};
use crate::words::MORE_WORDS;
use crate::{ArchivedEvent, EventSearch};

type SqlValue = Box<dyn ToSql + Sync + Send>;

pub(super) async fn search(client: &Client, search: &EventSearch, limit: usize) -> Result<Vec<ArchivedEvent>> {
    let mut conditions = NumberedConditions::from_search(search);
    let limit = conditions.value(Box::new(integer(limit as u64)));
    let read = format!(
        "SELECT {EVENT} FROM log_entries AS e WHERE {} ORDER BY \"timestamp\" DESC, plan_id DESC, seq DESC LIMIT {limit}",
        conditions.texts.join(" AND ")
    );
    let values: Vec<&(dyn ToSql + Sync)> = conditions.values.iter().map(|value| value.as_ref() as _).collect();
    Ok(client.query(&read, &values).await?.iter().map(event).collect())
}

/// The parts of a `WHERE` clause, and its values.
#[derive(Default)]
struct NumberedConditions {
    texts: Vec<String>,
    values: Vec<SqlValue>,
}

impl NumberedConditions {
    fn from_search(search: &EventSearch) -> Self {
        let EventSearch { plan, step, phase, types, words, conditions, namespace, since_ms, before } = search;
        let mut all = Self::default();
        if *since_ms > 0 {
            let since = all.value(Box::new(rfc3339((*since_ms).min(TIME_MS_MAX))));
            all.texts.push(format!("\"timestamp\" >= {since}::text::timestamptz"));
        } else {
            all.texts.push("true".into());
        }
        if let Some(before) = before {
            let time = all.value(Box::new(rfc3339(before.time_ms.min(TIME_MS_MAX))));
            let plan = all.value(Box::new(before.plan.to_string()));
            let seq = all.value(Box::new(integer(before.seq)));
            all.texts.push(format!("(\"timestamp\", plan_id, seq) < ({time}::text::timestamptz, {plan}, {seq})"));
        }
        if let Some(plan) = plan {
            let plan = all.value(Box::new(plan.to_string()));
            all.texts.push(format!("plan_id = {plan}"));
        }
        if let Some(step) = step {
            let step = all.value(Box::new(step.clone()));
            all.texts.push(format!("(step_id = {step} OR step_id IS NULL)"));
        }
        if let Some(phase) = phase {
            let phase = all.value(Box::new(phase.clone()));
            all.texts.push(format!("phase_id = {phase}"));
        }
        if !types.is_empty() {
            let types = all.value(Box::new(types.clone()));
            all.texts.push(format!("event_type = ANY ({types})"));
        }
        if !words.is_empty() {
            let words = all.value(Box::new(words.clone()));
            all.texts.push(format!("words @> {words}"));
        }
        let asked = conditions.words();
        if !asked.is_empty() {
            // The database has statistics of words and none of data: with them it chooses the right index.
            let (asked, more) = (all.value(Box::new(asked)), all.value(Box::new(vec![MORE_WORDS.to_owned()])));
            all.texts.push(format!("(words @> {asked} OR words @> {more})"));
        }
        for contained in conditions.contained() {
            let contained = all.value(Box::new(jsonb(&contained.to_string())));
            all.texts.push(format!("data @> {contained}::text::jsonb"));
        }
        if let Some(namespace) = namespace {
            let namespace = all.value(Box::new(namespace.to_string()));
            let exists = "EXISTS (SELECT 1 FROM plans AS p WHERE p.plan_id = e.plan_id AND p.namespace = ";
            all.texts.push(format!("{exists}{namespace})"));
        }
        all
    }

    /// Adds a value; returns its placeholder.
    fn value(&mut self, value: SqlValue) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }
}
