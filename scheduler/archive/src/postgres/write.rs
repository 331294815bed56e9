//! Writes to the database: migrations and batches.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::SinkExt;
use goalmill_common::clock::rfc3339;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use super::copy::{EVENT_COLUMNS, clean_text, event_line, jsonb};
use super::{Result, blobs, integer};
use crate::{ArchiveBatch, PlanPart, PlanRow, RevisionRow, StepRow, migrations};

/// The migrations, oldest first.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001.sql"),
    include_str!("../../migrations/postgres/0002.sql"),
    include_str!("../../migrations/postgres/0003.sql"),
];
/// First numbers of the advisory locks: one for the schema and its partitions, one for the batches of a shard. That for
/// large payloads is in `blobs.rs`.
const SCHEMA_LOCK: i32 = 0x676d_0001;
const SHARD_LOCK: i32 = 0x676d_0002;
/// Bytes of one message of `COPY`.
const COPY_BYTES: usize = 64 << 10;

/// Brings the schema up to date.
pub(super) async fn migrate(client: &mut Client, place: &str) -> Result<()> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&SCHEMA_LOCK]).await?;
    // A role that does not own the tables may not even ask for one that is there.
    if !transaction.query_one("SELECT to_regclass('schema_versions') IS NOT NULL", &[]).await?.get::<_, bool>(0) {
        transaction.batch_execute("CREATE TABLE schema_versions (version INTEGER PRIMARY KEY)").await?;
    }
    let row = transaction.query_one("SELECT coalesce(max(version), 0) FROM schema_versions", &[]).await?;
    let found = u32::try_from(row.get::<_, i32>(0)).unwrap_or(u32::MAX);
    for (version, migration) in migrations::missing(MIGRATIONS, found, place)? {
        transaction.batch_execute(migration).await?;
        let version = i32::try_from(version).unwrap_or(i32::MAX);
        transaction.execute("INSERT INTO schema_versions (version) VALUES ($1)", &[&version]).await?;
    }
    Ok(transaction.commit().await?)
}

/// Writes a batch in one transaction. Batches of one shard are written one after the other, even if two schedulers
/// write them.
pub(super) async fn append(client: &mut Client, batch: &ArchiveBatch) -> Result<()> {
    create_partitions(client, batch).await?;
    let transaction = client.transaction().await?;
    transaction.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
    let shard = i32::from(batch.shard.0);
    transaction.execute("SELECT pg_advisory_xact_lock($1, $2)", &[&SHARD_LOCK, &shard]).await?;
    let parts = new_parts(&transaction, batch).await?;
    if parts.iter().any(|part| !part.blobs.is_empty()) {
        blobs::lock(&transaction).await?;
    }
    let first: Vec<&str> = parts.iter().filter(|part| part.is_first).map(|part| part.plan.as_str()).collect();
    remove_plans(&transaction, &first).await?;
    copy_events(&transaction, &parts).await?;
    for part in &parts {
        blobs::insert(&transaction, part.plan.as_str(), &part.blobs).await?;
    }
    insert_plans(&transaction, shard, &parts).await?;
    let position = "INSERT INTO positions AS p (shard, changed_ms) VALUES ($1, $2) \
                    ON CONFLICT (shard) DO UPDATE SET changed_ms = greatest(p.changed_ms, excluded.changed_ms)";
    transaction.execute(position, &[&shard, &integer(batch.position_ms)]).await?;
    Ok(transaction.commit().await?)
}

/// The parts of plans that are not archived yet.
async fn new_parts<'a>(transaction: &Transaction<'_>, batch: &'a ArchiveBatch) -> Result<Vec<&'a PlanPart>> {
    let plans: Vec<&str> = batch.parts.iter().map(|part| part.plan.as_str()).collect();
    let rows = transaction.query("SELECT plan_id, changed_ms FROM plans WHERE plan_id = ANY ($1)", &[&plans]).await?;
    let known: BTreeSet<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let is_new = |part: &&PlanPart| !known.contains(&(part.plan.to_string(), integer(part.changed_ms)));
    Ok(batch.parts.iter().filter(is_new).collect())
}

/// Removes all rows of these plans. Returns the number of removed events.
pub(super) async fn remove_plans(transaction: &Transaction<'_>, plans: &[&str]) -> Result<u64> {
    blobs::remove(transaction, plans).await?;
    let mut events = 0;
    for table in ["steps", "revisions", "plans", "log_entries"] {
        events = transaction.execute(&format!("DELETE FROM {table} WHERE plan_id = ANY ($1)"), &[&plans]).await?;
    }
    Ok(events)
}

/// Creates the partitions for the months of the events in the batch.
async fn create_partitions(client: &mut Client, batch: &ArchiveBatch) -> Result<()> {
    let times = batch.parts.iter().flat_map(|part| &part.events).map(|event| event.time_ms);
    // `2026-11`.
    let months: BTreeSet<String> = times.map(|time_ms| rfc3339(time_ms)[..7].to_owned()).collect();
    for month in months {
        let name = format!("log_entries_{}", month.replace('-', "_"));
        if client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&name]).await?.get(0) {
            continue;
        }
        let transaction = client.transaction().await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&SCHEMA_LOCK]).await?;
        transaction.execute("SELECT create_log_partition($1)", &[&month]).await?;
        transaction.commit().await?;
    }
    Ok(())
}

async fn copy_events(transaction: &Transaction<'_>, parts: &[&PlanPart]) -> Result<()> {
    if parts.iter().all(|part| part.events.is_empty()) {
        return Ok(());
    }
    let copy = transaction.copy_in(&format!("COPY log_entries ({EVENT_COLUMNS}) FROM STDIN")).await?;
    let mut copy = pin!(copy);
    let mut text = String::new();
    for part in parts {
        for event in &part.events {
            event_line(&mut text, part.plan.as_str(), event);
            if text.len() >= COPY_BYTES {
                copy.send(bytes::Bytes::from(std::mem::take(&mut text))).await?;
            }
        }
    }
    copy.send(bytes::Bytes::from(text)).await?;
    copy.finish().await?;
    Ok(())
}

/// Writes the rows of the plans that end with this batch: one statement for each table, because each one waits for the
/// server twice.
async fn insert_plans(transaction: &Transaction<'_>, shard: i32, parts: &[&PlanPart]) -> Result<()> {
    let ended: Vec<(&PlanPart, &PlanRow)> = parts.iter().filter_map(|part| Some((*part, part.end.as_ref()?))).collect();
    if ended.is_empty() {
        return Ok(());
    }
    insert_steps(transaction, &ended).await?;
    insert_revisions(transaction, &ended).await?;
    let texts = |of: fn(&PlanRow) -> String| -> Vec<String> { ended.iter().map(|(_, end)| of(end)).collect() };
    let numbers = |of: fn(&PlanRow) -> u64| -> Vec<i64> { ended.iter().map(|(_, end)| integer(of(end))).collect() };
    let plans: Vec<&str> = ended.iter().map(|(part, _)| part.plan.as_str()).collect();
    let changed: Vec<i64> = ended.iter().map(|(part, _)| integer(part.changed_ms)).collect();
    let insert = "INSERT INTO plans (plan_id, shard, namespace, status, name, revision, events, created_ms, finished_ms, \
                  changed_ms, summary) SELECT p.plan_id, $2, p.namespace, p.status, p.name, p.revision, p.events, \
                  p.created_ms, p.finished_ms, p.changed_ms, p.summary FROM unnest($1::text[], $3::text[], $4::text[], \
                  $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[]) AS p \
                  (plan_id, namespace, status, name, revision, events, created_ms, finished_ms, changed_ms, summary)";
    let values: [&(dyn ToSql + Sync); 11] = [
        &plans,
        &shard,
        &texts(|end| end.namespace.to_string()),
        &texts(|end| end.status.clone()),
        &texts(|end| clean_text(&end.name)),
        &numbers(|end| end.revision.into()),
        &numbers(|end| end.events),
        &numbers(|end| end.created_ms),
        &numbers(|end| end.finished_ms),
        &changed,
        &texts(|end| serde_json::to_string(&end.summary).expect("texts always have a JSON form")),
    ];
    transaction.execute(insert, &values).await?;
    Ok(())
}

async fn insert_steps(transaction: &Transaction<'_>, ended: &[(&PlanPart, &PlanRow)]) -> Result<()> {
    let steps: Vec<(&str, &StepRow)> =
        ended.iter().flat_map(|(part, end)| end.steps.iter().map(|step| (part.plan.as_str(), step))).collect();
    let plans: Vec<&str> = steps.iter().map(|(plan, _)| *plan).collect();
    let ids: Vec<&str> = steps.iter().map(|(_, step)| step.step.as_str()).collect();
    let agent_types: Vec<&str> = steps.iter().map(|(_, step)| step.agent_type.as_str()).collect();
    let actions: Vec<String> = steps.iter().map(|(_, step)| clean_text(&step.action)).collect();
    let statuses: Vec<&str> = steps.iter().map(|(_, step)| step.status.as_str()).collect();
    let attempts: Vec<i64> = steps.iter().map(|(_, step)| i64::from(step.attempts)).collect();
    let phases: Vec<Option<String>> = steps.iter().map(|(_, step)| step.phase.as_deref().map(clean_text)).collect();
    let started: Vec<Option<i64>> = steps.iter().map(|(_, step)| step.started_ms.map(integer)).collect();
    let finished: Vec<Option<i64>> = steps.iter().map(|(_, step)| step.finished_ms.map(integer)).collect();
    let insert = "INSERT INTO steps (plan_id, step_id, agent_type, action, status, attempts, phase_id, started_ms, \
                  finished_ms) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], \
                  $6::bigint[], $7::text[], $8::bigint[], $9::bigint[])";
    let values: [&(dyn ToSql + Sync); 9] =
        [&plans, &ids, &agent_types, &actions, &statuses, &attempts, &phases, &started, &finished];
    transaction.execute(insert, &values).await?;
    Ok(())
}

async fn insert_revisions(transaction: &Transaction<'_>, ended: &[(&PlanPart, &PlanRow)]) -> Result<()> {
    let revisions: Vec<(&str, &RevisionRow)> =
        ended.iter().flat_map(|(part, end)| end.revisions.iter().map(|one| (part.plan.as_str(), one))).collect();
    if revisions.is_empty() {
        return Ok(());
    }
    let plans: Vec<&str> = revisions.iter().map(|(plan, _)| *plan).collect();
    let numbers: Vec<i64> = revisions.iter().map(|(_, one)| i64::from(one.revision)).collect();
    let times: Vec<String> = revisions.iter().map(|(_, one)| rfc3339(one.time_ms)).collect();
    let triggers: Vec<String> = revisions.iter().map(|(_, one)| clean_text(&one.trigger)).collect();
    let data: Vec<String> = revisions.iter().map(|(_, one)| jsonb(&one.data)).collect();
    let insert = "INSERT INTO revisions (plan_id, revision, \"timestamp\", \"trigger\", data) \
                  SELECT r.plan_id, r.revision, r.time::timestamptz, r.cause, r.data::jsonb \
                  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[]) \
                  AS r (plan_id, revision, time, cause, data)";
    let values: [&(dyn ToSql + Sync); 5] = [&plans, &numbers, &times, &triggers, &data];
    transaction.execute(insert, &values).await?;
    Ok(())
}
