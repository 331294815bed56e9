//! Reads plans and their logs.

use std::collections::BTreeMap;

use goalmill_common::id::{PlanId, ShardId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Result;
use super::connection::integer;
use crate::{ArchiveError, ArchivedEvent, EventPosition};

pub(super) fn position(connection: &Connection, shard: ShardId) -> Result<u64> {
    let mut read = connection.prepare_cached("SELECT changed_ms FROM positions WHERE shard = ?1")?;
    Ok(read.query_row([shard.0], |row| row.get(0)).optional()?.unwrap_or(0))
}

pub(super) fn archived(connection: &Connection, plans: &[PlanId]) -> Result<BTreeMap<PlanId, u64>> {
    let mut read = connection.prepare_cached("SELECT changed_ms FROM plans WHERE plan_id = ?1")?;
    let mut found = BTreeMap::new();
    for plan in plans {
        if let Some(changed_ms) = read.query_row([plan.as_str()], |row| row.get(0)).optional()? {
            found.insert(plan.clone(), changed_ms);
        }
    }
    Ok(found)
}

pub(super) fn summary(connection: &Connection, plan: &PlanId) -> Result<BTreeMap<String, String>> {
    let mut read = connection.prepare_cached("SELECT summary FROM plans WHERE plan_id = ?1")?;
    let found: Option<String> = read.query_row([plan.as_str()], |row| row.get(0)).optional()?;
    let Some(text) = found else { return Ok(BTreeMap::new()) };
    serde_json::from_str(&text).map_err(|error| ArchiveError::Corrupt(format!("the summary of `{plan}`: {error}")))
}

pub(super) fn log(connection: &Connection, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<ArchivedEvent>> {
    let mut read = connection.prepare_cached(
        "SELECT \"timestamp\", plan_id, seq, entry, line FROM log_entries WHERE plan_id = ?1 AND entry > ?2 AND entry <= \
         (SELECT max(entry) FROM (SELECT DISTINCT entry FROM log_entries WHERE plan_id = ?1 AND entry > ?2 \
         ORDER BY entry LIMIT ?3)) ORDER BY entry, seq",
    )?;
    let rows = read.query_map(params![plan.as_str(), integer(after_seq), integer(limit as u64)], event)?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

pub(super) fn list(
    connection: &Connection,
    shard: ShardId,
    before_ms: u64,
    limit: usize,
) -> Result<Vec<(PlanId, u64)>> {
    let mut read = connection.prepare_cached(
        "SELECT plan_id, changed_ms FROM plans WHERE shard = ?1 AND changed_ms < ?2 \
         ORDER BY changed_ms DESC, plan_id DESC LIMIT ?3",
    )?;
    let plan = |row: &Row| Ok((PlanId::from(row.get::<_, String>(0)?), row.get(1)?));
    let rows = read.query_map(params![shard.0, integer(before_ms), integer(limit as u64)], plan)?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

/// An event from the columns `timestamp`, `plan_id`, `seq`, `entry`, `line`.
pub(super) fn event(row: &Row) -> rusqlite::Result<ArchivedEvent> {
    let plan = PlanId::from(row.get::<_, String>(1)?);
    let position = EventPosition { time_ms: row.get(0)?, plan, seq: row.get(2)? };
    Ok(ArchivedEvent { position, entry: row.get(3)?, line: row.get(4)? })
}
