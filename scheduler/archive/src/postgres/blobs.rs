//! Large payloads, stored once each and deleted with the last plan that refers to them.
//!
//! A transaction that stores or deletes payloads holds one lock until its end, so that none is deleted while another
//! transaction begins to refer to it. The lock is taken before any row is changed.

use goalmill_common::id::PlanId;
use tokio_postgres::{Client, Transaction};

use super::{Result, integer};
use crate::digest::content_digest;
use crate::{ArchiveError, BlobRow};

/// First number of the advisory lock.
const BLOB_LOCK: i32 = 0x676d_0003;

pub(super) async fn lock(transaction: &Transaction<'_>) -> Result<()> {
    transaction.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&BLOB_LOCK]).await?;
    Ok(())
}

/// Stores payloads; the caller holds the lock.
pub(super) async fn insert(transaction: &Transaction<'_>, plan: &str, blobs: &[BlobRow]) -> Result<()> {
    for BlobRow { key, content } in blobs {
        let known = "SELECT 1 FROM plan_blobs WHERE plan_id = $1 AND blob_key = $2";
        if transaction.query_opt(known, &[&plan, key]).await?.is_some() {
            continue;
        }
        let digest = content_digest(content);
        let insert = "INSERT INTO blobs (digest, content) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
        transaction.execute(insert, &[&digest, &content.as_bytes()]).await?;
        let insert = "INSERT INTO plan_blobs (plan_id, blob_key, digest) VALUES ($1, $2, $3)";
        transaction.execute(insert, &[&plan, key, &digest]).await?;
    }
    Ok(())
}

/// Removes the references of these plans, and the payloads that no other plan refers to.
pub(super) async fn remove(transaction: &Transaction<'_>, plans: &[&str]) -> Result<()> {
    let used = "SELECT EXISTS (SELECT 1 FROM plan_blobs WHERE plan_id = ANY ($1))";
    if !transaction.query_one(used, &[&plans]).await?.get::<_, bool>(0) {
        return Ok(());
    }
    lock(transaction).await?;
    let remove = "DELETE FROM plan_blobs WHERE plan_id = ANY ($1) RETURNING digest";
    let digests: Vec<Vec<u8>> = transaction.query(remove, &[&plans]).await?.iter().map(|row| row.get(0)).collect();
    let remove = "DELETE FROM blobs WHERE digest = ANY ($1) AND NOT EXISTS \
                  (SELECT 1 FROM plan_blobs AS p WHERE p.digest = blobs.digest)";
    transaction.execute(remove, &[&digests]).await?;
    Ok(())
}

pub(super) async fn content(client: &Client, plan: &PlanId, key: &str) -> Result<Option<String>> {
    let read = "SELECT content FROM blobs WHERE digest = \
                (SELECT digest FROM plan_blobs WHERE plan_id = $1 AND blob_key = $2)";
    let Some(row) = client.query_opt(read, &[&plan.as_str(), &key]).await? else { return Ok(None) };
    let text = String::from_utf8(row.get(0));
    text.map(Some).map_err(|_| ArchiveError::Corrupt(format!("a payload of `{plan}` is not UTF-8")))
}

pub(super) async fn keys(client: &Client, plan: &PlanId, after: &str, limit: usize) -> Result<Vec<String>> {
    let read = "SELECT blob_key FROM plan_blobs WHERE plan_id = $1 AND blob_key > $2 ORDER BY blob_key LIMIT $3";
    let rows = client.query(read, &[&plan.as_str(), &after, &integer(limit as u64)]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
