//! Whole plans: reads, selects and removes them.

use goalmill_common::id::{AgentType, Namespace, PlanId, ShardId, StepId};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::Result;
use super::connection::integer;
use super::read;
use super::write::remove_plan;
use crate::{ArchivedPlan, PlanPosition, PlanRow, PlanSelection, PrunedRows, RevisionRow, StepRow};

pub(super) fn find_archived(connection: &Connection, plan: &PlanId) -> Result<Option<ArchivedPlan>> {
    let mut read = connection.prepare_cached(
        "SELECT shard, changed_ms, namespace, status, name, revision, events, created_ms, finished_ms FROM plans \
         WHERE plan_id = ?1",
    )?;
    let fields = |row: &Row| {
        let plan = PlanRow {
            namespace: Namespace::from(row.get::<_, String>(2)?),
            status: row.get(3)?,
            name: row.get(4)?,
            revision: row.get(5)?,
            events: row.get(6)?,
            created_ms: row.get(7)?,
            finished_ms: row.get(8)?,
            summary: Default::default(),
            steps: Vec::new(),
            revisions: Vec::new(),
        };
        Ok(ArchivedPlan { shard: ShardId(row.get(0)?), changed_ms: row.get(1)?, row: plan })
    };
    let Some(mut found) = read.query_row([plan.as_str()], fields).optional()? else { return Ok(None) };
    found.row.summary = read::summary(connection, plan)?;
    found.row.steps = steps(connection, plan)?;
    found.row.revisions = revisions(connection, plan)?;
    Ok(Some(found))
}

fn steps(connection: &Connection, plan: &PlanId) -> Result<Vec<StepRow>> {
    let mut read = connection.prepare_cached(
        "SELECT step_id, agent_type, action, status, attempts, phase_id, started_ms, finished_ms FROM steps \
         WHERE plan_id = ?1 ORDER BY step_id",
    )?;
    let step = |row: &Row| {
        Ok(StepRow {
            step: StepId::from(row.get::<_, String>(0)?),
            agent_type: AgentType::from(row.get::<_, String>(1)?),
            action: row.get(2)?,
            status: row.get(3)?,
            attempts: row.get(4)?,
            phase: row.get(5)?,
            started_ms: row.get(6)?,
            finished_ms: row.get(7)?,
        })
    };
    let rows = read.query_map([plan.as_str()], step)?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

fn revisions(connection: &Connection, plan: &PlanId) -> Result<Vec<RevisionRow>> {
    let mut read = connection.prepare_cached(
        "SELECT revision, \"timestamp\", \"trigger\", data FROM revisions WHERE plan_id = ?1 ORDER BY revision",
    )?;
    let revision = |row: &Row| {
        Ok(RevisionRow { revision: row.get(0)?, time_ms: row.get(1)?, trigger: row.get(2)?, data: row.get(3)? })
    };
    let rows = read.query_map([plan.as_str()], revision)?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

pub(super) fn select(
    connection: &Connection,
    selection: &PlanSelection,
    after: Option<&PlanPosition>,
    limit: usize,
) -> Result<Vec<PlanPosition>> {
    // Each form has its index.
    let own = if selection.namespace.is_some() { "namespace = ?4" } else { "?4 IS NULL" };
    let mut read = connection.prepare_cached(&format!(
        "SELECT finished_ms, plan_id FROM plans WHERE {own} AND (finished_ms, plan_id) > (?1, ?2) AND finished_ms < ?3 \
         ORDER BY finished_ms, plan_id LIMIT ?5"
    ))?;
    let (after_ms, after_plan) = after.map_or((-1, ""), |after| (integer(after.finished_ms), after.plan.as_str()));
    let before_ms = integer(selection.ended_before_ms.unwrap_or(u64::MAX));
    let namespace = selection.namespace.as_ref().map(Namespace::as_str);
    let position =
        |row: &Row| Ok(PlanPosition { finished_ms: row.get(0)?, plan: PlanId::from(row.get::<_, String>(1)?) });
    let rows = read.query_map(params![after_ms, after_plan, before_ms, namespace, integer(limit as u64)], position)?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

/// Reads one row of the index for each namespace.
pub(super) fn namespaces(connection: &Connection) -> Result<Vec<Namespace>> {
    let mut read = connection.prepare_cached(
        "WITH RECURSIVE names (name) AS (SELECT min(namespace) FROM plans UNION ALL \
         SELECT (SELECT min(namespace) FROM plans WHERE namespace > names.name) FROM names WHERE names.name IS NOT NULL) \
         SELECT name FROM names WHERE name IS NOT NULL",
    )?;
    let rows = read.query_map([], |row| Ok(Namespace::from(row.get::<_, String>(0)?)))?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

pub(super) fn prune(connection: &mut Connection, selection: &PlanSelection, limit: usize) -> Result<PrunedRows> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut pruned = PrunedRows::default();
    for position in select(&transaction, selection, None, limit)? {
        pruned.plans += 1;
        pruned.events += remove_plan(&transaction, position.plan.as_str())? as u64;
    }
    transaction.commit()?;
    Ok(pruned)
}
