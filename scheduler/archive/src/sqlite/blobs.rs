//! Large payloads, stored once each and deleted with the last plan that refers to them.

use goalmill_common::id::PlanId;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::Result;
use super::connection::integer;
use crate::digest::content_digest;
use crate::{ArchiveError, BlobRow};

pub(super) fn insert(transaction: &Transaction, plan: &str, blob: &BlobRow) -> Result<()> {
    let mut known = transaction.prepare_cached("SELECT 1 FROM plan_blobs WHERE plan_id = ?1 AND blob_key = ?2")?;
    if known.exists([plan, &blob.key])? {
        return Ok(());
    }
    let digest = content_digest(&blob.content);
    transaction
        .prepare_cached("INSERT INTO blobs (digest, content) VALUES (?1, ?2) ON CONFLICT (digest) DO NOTHING")?
        .execute(params![digest, blob.content.as_bytes()])?;
    transaction
        .prepare_cached("INSERT INTO plan_blobs (plan_id, blob_key, digest) VALUES (?1, ?2, ?3)")?
        .execute(params![plan, blob.key, digest])?;
    Ok(())
}

/// Removes the references of a plan, and the payloads that no other plan refers to.
pub(super) fn remove(transaction: &Transaction, plan: &str) -> Result<()> {
    transaction
        .prepare_cached(
            "DELETE FROM blobs WHERE digest IN (SELECT digest FROM plan_blobs WHERE plan_id = ?1) AND NOT EXISTS \
             (SELECT 1 FROM plan_blobs AS p WHERE p.digest = blobs.digest AND p.plan_id <> ?1)",
        )?
        .execute([plan])?;
    transaction.prepare_cached("DELETE FROM plan_blobs WHERE plan_id = ?1")?.execute([plan])?;
    Ok(())
}

pub(super) fn content(connection: &Connection, plan: &PlanId, key: &str) -> Result<Option<String>> {
    let mut read = connection.prepare_cached(
        "SELECT content FROM blobs WHERE digest = (SELECT digest FROM plan_blobs WHERE plan_id = ?1 AND blob_key = ?2)",
    )?;
    let found: Option<Vec<u8>> = read.query_row([plan.as_str(), key], |row| row.get(0)).optional()?;
    let Some(content) = found else { return Ok(None) };
    let text = String::from_utf8(content);
    text.map(Some).map_err(|_| ArchiveError::Corrupt(format!("a payload of `{plan}` is not UTF-8")))
}

pub(super) fn keys(connection: &Connection, plan: &PlanId, after: &str, limit: usize) -> Result<Vec<String>> {
    let mut read = connection.prepare_cached(
        "SELECT blob_key FROM plan_blobs WHERE plan_id = ?1 AND blob_key > ?2 ORDER BY blob_key LIMIT ?3",
    )?;
    let rows = read.query_map(params![plan.as_str(), after, integer(limit as u64)], |row| row.get(0))?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}
