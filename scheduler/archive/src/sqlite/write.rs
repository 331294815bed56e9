//! Writes to the file: migrations and batches.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::connection::integer;
use super::{Result, blobs};
use crate::words::event_words;
use crate::{ArchiveBatch, EventRow, PlanPart, PlanRow, migrations};

/// The migrations, oldest first; the first one creates version 1.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001.sql"),
    include_str!("../../migrations/sqlite/0002.sql"),
    include_str!("../../migrations/sqlite/0003.sql"),
];

/// Brings the schema up to date. The version is the file's `user_version`.
pub(super) fn migrate(connection: &mut Connection, place: &str) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (version, migration) in migrations::missing(MIGRATIONS, found, place)? {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    Ok(transaction.commit()?)
}

/// Writes a batch in one transaction.
pub(super) fn append(connection: &mut Connection, batch: &ArchiveBatch) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for part in &batch.parts {
        if archived_ms(&transaction, part)? == Some(integer(part.changed_ms)) {
            continue;
        }
        if part.is_first {
            remove_plan(&transaction, part.plan.as_str())?;
        }
        for event in &part.events {
            insert_event(&transaction, part.plan.as_str(), event)?;
        }
        for blob in &part.blobs {
            blobs::insert(&transaction, part.plan.as_str(), blob)?;
        }
        if let Some(end) = &part.end {
            insert_plan(&transaction, batch, part, end)?;
        }
    }
    transaction.execute(
        "INSERT INTO positions (shard, changed_ms) VALUES (?1, ?2) \
         ON CONFLICT (shard) DO UPDATE SET changed_ms = max(changed_ms, excluded.changed_ms)",
        params![batch.shard.0, integer(batch.position_ms)],
    )?;
    Ok(transaction.commit()?)
}

/// When the archived plan with this id changed last; `None` if there is no such plan.
fn archived_ms(transaction: &Transaction, part: &PlanPart) -> Result<Option<i64>> {
    let mut read = transaction.prepare_cached("SELECT changed_ms FROM plans WHERE plan_id = ?1")?;
    Ok(read.query_row([part.plan.as_str()], |row| row.get(0)).optional()?)
}

/// Removes all rows of a plan. Returns the number of removed events.
pub(super) fn remove_plan(transaction: &Transaction, plan: &str) -> Result<usize> {
    let words = "DELETE FROM log_words WHERE rowid IN (SELECT number FROM log_entries WHERE plan_id = ?1)";
    transaction.prepare_cached(words)?.execute([plan])?;
    let events = transaction.prepare_cached("DELETE FROM log_entries WHERE plan_id = ?1")?.execute([plan])?;
    blobs::remove(transaction, plan)?;
    for table in ["steps", "revisions", "plans"] {
        transaction.prepare_cached(&format!("DELETE FROM {table} WHERE plan_id = ?1"))?.execute([plan])?;
    }
    Ok(events)
}

fn insert_event(transaction: &Transaction, plan: &str, event: &EventRow) -> Result<()> {
    let EventRow { seq, entry, time_ms, event_type, step, phase, line } = event;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO log_entries (plan_id, entry, seq, \"timestamp\", event_type, phase_id, step_id, line) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let step = step.as_ref().map(|step| step.as_str());
    let (entry, seq, time) = (integer(*entry), integer(*seq), integer(*time_ms));
    let number = insert.insert(params![plan, entry, seq, time, event_type, phase, step, line])?;
    let words: Vec<String> = event_words(line).into_iter().collect();
    let mut insert = transaction.prepare_cached("INSERT INTO log_words (rowid, words) VALUES (?1, ?2)")?;
    insert.execute(params![number, words.join(" ")])?;
    Ok(())
}

fn insert_plan(transaction: &Transaction, batch: &ArchiveBatch, part: &PlanPart, end: &PlanRow) -> Result<()> {
    let plan = part.plan.as_str();
    let mut insert = transaction.prepare_cached(
        "INSERT INTO steps (plan_id, step_id, agent_type, action, status, attempts, phase_id, started_ms, finished_ms) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for step in &end.steps {
        let (started, finished) = (step.started_ms.map(integer), step.finished_ms.map(integer));
        let (id, agent_type) = (step.step.as_str(), step.agent_type.as_str());
        insert.execute(params![
            plan, id, agent_type, step.action, step.status, step.attempts, step.phase, started, finished
        ])?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO revisions (plan_id, revision, \"timestamp\", \"trigger\", data) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for revision in &end.revisions {
        let time = integer(revision.time_ms);
        insert.execute(params![plan, revision.revision, time, revision.trigger, revision.data])?;
    }
    let summary = serde_json::to_string(&end.summary).expect("texts always have a JSON form");
    transaction
        .prepare_cached(
            "INSERT INTO plans (plan_id, shard, namespace, status, name, revision, events, created_ms, finished_ms, \
             changed_ms, summary) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            plan,
            batch.shard.0,
            end.namespace.as_str(),
            end.status,
            end.name,
            end.revision,
            integer(end.events),
            integer(end.created_ms),
            integer(end.finished_ms),
            integer(part.changed_ms),
            summary,
        ])?;
    Ok(())
}
