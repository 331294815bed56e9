//! Dead letters and blobs.

use std::collections::BTreeMap;

use goalmill_common::id::{AgentType, EntryId, PlanId};
use redis::{Value, cmd};

use super::commit::is_entry_id;
use super::connections::Connections;
use super::{Result, reply};
use crate::{DeadLetter, Entry, FieldsPage};

/// Dead letters kept of one agent type, about.
const DEAD_LETTERS_MAX: usize = 10_000;

impl Connections {
    pub(super) async fn add_dead_letter(&self, letter: &DeadLetter) -> Result<()> {
        let mut add = cmd("XADD");
        add.arg(self.keys.dead_letters(&letter.agent_type)).arg("MAXLEN").arg("~").arg(DEAD_LETTERS_MAX).arg("*");
        add.arg("plan").arg(letter.plan.as_str()).arg("step").arg(&letter.step).arg("attempt").arg(letter.attempt);
        add.arg("code").arg(&letter.code).arg("reason").arg(&letter.reason).arg("task").arg(&letter.task);
        self.ask::<Value>(&add).await?;
        Ok(())
    }

    pub(super) async fn dead_letters(
        &self,
        agent_type: &AgentType,
        limit: usize,
    ) -> Result<Vec<(EntryId, DeadLetter)>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut read = cmd("XREVRANGE");
        read.arg(self.keys.dead_letters(agent_type)).arg("+").arg("-").arg("COUNT").arg(limit);
        let entries = reply::entries(self.ask(&read).await?)?;
        Ok(entries.into_iter().map(|entry| letter(agent_type, entry)).collect())
    }

    /// A letter is one entry of a stream without a group: deleting it changes no count of waiting entries.
    pub(super) async fn discard_dead_letter(&self, agent_type: &AgentType, entry: &EntryId) -> Result<bool> {
        if !is_entry_id(entry) {
            return Ok(false);
        }
        let gone: u64 = self.ask(cmd("XDEL").arg(self.keys.dead_letters(agent_type)).arg(entry.as_str())).await?;
        Ok(gone > 0)
    }

    pub(super) async fn put_blob(&self, key: &str, bytes: &[u8], ttl_ms: u64) -> Result<()> {
        self.ask::<Value>(cmd("SET").arg(key).arg(bytes).arg("PX").arg(ttl_ms.max(1))).await?;
        Ok(())
    }

    pub(super) async fn get_blob(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.ask(cmd("GET").arg(key)).await
    }

    pub(super) async fn remove_blob(&self, key: &str) -> Result<()> {
        self.ask::<Value>(cmd("DEL").arg(key)).await?;
        Ok(())
    }

    pub(super) async fn put_field(&self, key: &str, field: &str, value: &str) -> Result<()> {
        self.ask::<Value>(cmd("HSET").arg(key).arg(field).arg(value)).await?;
        Ok(())
    }

    pub(super) async fn add_field(&self, key: &str, field: &str, value: &str) -> Result<bool> {
        self.ask(cmd("HSETNX").arg(key).arg(field).arg(value)).await
    }

    pub(super) async fn get_field(&self, key: &str, field: &str) -> Result<Option<String>> {
        self.ask(cmd("HGET").arg(key).arg(field)).await
    }

    pub(super) async fn fields(&self, key: &str) -> Result<BTreeMap<String, String>> {
        self.ask(cmd("HGETALL").arg(key)).await
    }

    pub(super) async fn fields_page(&self, key: &str, after: &str, limit: usize) -> Result<FieldsPage> {
        // What is no place begins with the first page.
        let from: u64 = after.parse().unwrap_or(0);
        let (next, fields): (String, Vec<(String, String)>) =
            self.ask(cmd("HSCAN").arg(key).arg(from).arg("COUNT").arg(limit)).await?;
        Ok(FieldsPage { fields, next: Some(next).filter(|next| next != "0") })
    }

    pub(super) async fn remove_field(&self, key: &str, field: &str) -> Result<bool> {
        self.ask(cmd("HDEL").arg(key).arg(field)).await
    }
}

fn letter(agent_type: &AgentType, mut entry: Entry) -> (EntryId, DeadLetter) {
    let mut text = |name: &str| reply::lossy(reply::take_field(&mut entry.fields, name));
    let letter = DeadLetter {
        agent_type: agent_type.clone(),
        plan: PlanId::from(text("plan")),
        step: text("step"),
        attempt: text("attempt").parse().unwrap_or(0),
        code: text("code"),
        reason: text("reason"),
        task: text("task"),
    };
    (entry.id, letter)
}
