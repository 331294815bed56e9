//! Whole plans: reads, selects and removes them.

use goalmill_common::id::{AgentType, Namespace, PlanId, ShardId, StepId};
use tokio_postgres::{Client, GenericClient, Row};

use super::write::remove_plans;
use super::{Result, integer, natural, read};
use crate::{ArchivedPlan, PlanPosition, PlanRow, PlanSelection, PrunedRows, RevisionRow, StepRow};

pub(super) async fn find_archived(client: &Client, plan: &PlanId) -> Result<Option<ArchivedPlan>> {
    let wanted = "SELECT shard, changed_ms, namespace, status, name, revision, events, created_ms, finished_ms \
                  FROM plans WHERE plan_id = $1";
    let Some(row) = client.query_opt(wanted, &[&plan.as_str()]).await? else { return Ok(None) };
    let shard = ShardId(u16::try_from(row.get::<_, i32>(0)).unwrap_or_default());
    let found = PlanRow {
        namespace: Namespace::from(row.get::<_, String>(2)),
        status: row.get(3),
        name: row.get(4),
        revision: small(row.get(5)),
        events: natural(row.get(6)),
        created_ms: natural(row.get(7)),
        finished_ms: natural(row.get(8)),
        summary: read::summary(client, plan).await?,
        steps: steps(client, plan).await?,
        revisions: revisions(client, plan).await?,
    };
    Ok(Some(ArchivedPlan { shard, changed_ms: natural(row.get(1)), row: found }))
}

fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

async fn steps(client: &Client, plan: &PlanId) -> Result<Vec<StepRow>> {
    let wanted = "SELECT step_id, agent_type, action, status, attempts, phase_id, started_ms, finished_ms FROM steps \
                  WHERE plan_id = $1 ORDER BY step_id COLLATE \"C\"";
    let step = |row: &Row| StepRow {
        step: StepId::from(row.get::<_, String>(0)),
        agent_type: AgentType::from(row.get::<_, String>(1)),
        action: row.get(2),
        status: row.get(3),
        attempts: small(row.get(4)),
        phase: row.get(5),
        started_ms: row.get::<_, Option<i64>>(6).map(natural),
        finished_ms: row.get::<_, Option<i64>>(7).map(natural),
    };
    Ok(client.query(wanted, &[&plan.as_str()]).await?.iter().map(step).collect())
}

async fn revisions(client: &Client, plan: &PlanId) -> Result<Vec<RevisionRow>> {
    let wanted = "SELECT revision, (extract(epoch FROM \"timestamp\") * 1000)::bigint, \"trigger\", data::text \
                  FROM revisions WHERE plan_id = $1 ORDER BY revision";
    let revision = |row: &Row| RevisionRow {
        revision: small(row.get(0)),
        time_ms: natural(row.get(1)),
        trigger: row.get(2),
        data: row.get(3),
    };
    Ok(client.query(wanted, &[&plan.as_str()]).await?.iter().map(revision).collect())
}

pub(super) async fn select(
    client: &impl GenericClient,
    selection: &PlanSelection,
    after: Option<&PlanPosition>,
    limit: usize,
) -> Result<Vec<PlanPosition>> {
    let wanted = "SELECT finished_ms, plan_id FROM plans WHERE (finished_ms, plan_id) > ($1, $2) AND finished_ms < $3 \
                  AND ($4::text IS NULL OR namespace = $4) ORDER BY finished_ms, plan_id LIMIT $5";
    let (after_ms, after_plan) = after.map_or((-1, ""), |after| (integer(after.finished_ms), after.plan.as_str()));
    let before_ms = integer(selection.ended_before_ms.unwrap_or(u64::MAX));
    let namespace = selection.namespace.as_ref().map(Namespace::as_str);
    let rows = client.query(wanted, &[&after_ms, &after_plan, &before_ms, &namespace, &integer(limit as u64)]).await?;
    let position =
        |row: &Row| PlanPosition { finished_ms: natural(row.get(0)), plan: PlanId::from(row.get::<_, String>(1)) };
    Ok(rows.iter().map(position).collect())
}

/// Reads one row of the index for each namespace.
pub(super) async fn namespaces(client: &Client) -> Result<Vec<Namespace>> {
    let wanted = "WITH RECURSIVE names (name) AS (SELECT min(namespace) FROM plans UNION ALL \
                  SELECT (SELECT min(namespace) FROM plans WHERE namespace > names.name) FROM names \
                  WHERE names.name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL";
    let rows = client.query(wanted, &[]).await?;
    Ok(rows.iter().map(|row| Namespace::from(row.get::<_, String>(0))).collect())
}

pub(super) async fn prune(client: &mut Client, selection: &PlanSelection, limit: usize) -> Result<PrunedRows> {
    let transaction = client.transaction().await?;
    transaction.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
    let found = select(&transaction, selection, None, limit).await?;
    let plans: Vec<&str> = found.iter().map(|position| position.plan.as_str()).collect();
    let events = remove_plans(&transaction, &plans).await?;
    transaction.commit().await?;
    Ok(PrunedRows { plans: plans.len() as u64, events })
}
