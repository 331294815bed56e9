//! Reads plans and their logs.

use std::collections::BTreeMap;

use goalmill_common::id::{PlanId, ShardId};
use tokio_postgres::{Client, Row};

use super::{Result, integer, natural};
use crate::{ArchiveError, ArchivedEvent, EventPosition};

/// The columns of [`event`]; the times of events are whole milliseconds.
pub(super) const EVENT: &str =
    "(extract(epoch FROM \"timestamp\") * 1000)::bigint AS time_ms, plan_id, seq, entry, line";

pub(super) async fn position(client: &Client, shard: ShardId) -> Result<u64> {
    let row = client.query_opt("SELECT changed_ms FROM positions WHERE shard = $1", &[&i32::from(shard.0)]).await?;
    Ok(row.map_or(0, |row| natural(row.get(0))))
}

pub(super) async fn archived(client: &Client, plans: &[PlanId]) -> Result<BTreeMap<PlanId, u64>> {
    let plans: Vec<&str> = plans.iter().map(PlanId::as_str).collect();
    let rows = client.query("SELECT plan_id, changed_ms FROM plans WHERE plan_id = ANY ($1)", &[&plans]).await?;
    Ok(rows.iter().map(|row| (PlanId::from(row.get::<_, String>(0)), natural(row.get(1)))).collect())
}

pub(super) async fn summary(client: &Client, plan: &PlanId) -> Result<BTreeMap<String, String>> {
    let row = client.query_opt("SELECT summary FROM plans WHERE plan_id = $1", &[&plan.as_str()]).await?;
    let Some(row) = row else { return Ok(BTreeMap::new()) };
    serde_json::from_str(row.get(0)).map_err(|error| ArchiveError::Corrupt(format!("the summary of `{plan}`: {error}")))
}

pub(super) async fn log(client: &Client, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<ArchivedEvent>> {
    let read = format!(
        "SELECT {EVENT} FROM log_entries WHERE plan_id = $1 AND entry > $2 AND entry <= \
         (SELECT max(entry) FROM (SELECT DISTINCT entry FROM log_entries WHERE plan_id = $1 AND entry > $2 \
         ORDER BY entry LIMIT $3) AS wanted) ORDER BY entry, seq"
    );
    let rows = client.query(&read, &[&plan.as_str(), &integer(after_seq), &integer(limit as u64)]).await?;
    Ok(rows.iter().map(event).collect())
}

pub(super) async fn list(client: &Client, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
    let read = "SELECT plan_id, changed_ms FROM plans WHERE shard = $1 AND changed_ms < $2 \
                ORDER BY changed_ms DESC, plan_id DESC LIMIT $3";
    let rows = client.query(read, &[&i32::from(shard.0), &integer(before_ms), &integer(limit as u64)]).await?;
    Ok(rows.iter().map(|row| (PlanId::from(row.get::<_, String>(0)), natural(row.get(1)))).collect())
}

/// An event from the columns [`EVENT`].
pub(super) fn event(row: &Row) -> ArchivedEvent {
    let plan = PlanId::from(row.get::<_, String>(1));
    let position = EventPosition { time_ms: natural(row.get(0)), plan, seq: natural(row.get(2)) };
    ArchivedEvent { position, entry: natural(row.get(3)), line: row.get(4) }
}
