//! Submissions, their answers, and messages to a shard's inbox.

use goalmill_common::id::{EntryId, Namespace};
use goalmill_common::keys;
use goalmill_common::wire::Fields;
use redis::{Cmd, Value, cmd};

use super::commit::is_entry_id;
use super::connections::Connections;
use super::error::{is_no_group, to_broker_error};
use super::functions::Function;
use super::{Result, reply};
use crate::verbs::ANSWERS_MS;
use crate::{BrokerError, Entry, RefusedEntry, StreamResult};

/// Refused submissions that are listed of a namespace, and for how long, in milliseconds: one week.
const REFUSED_MAX: usize = 1_000;
const REFUSED_MS: u64 = 7 * 24 * 3_600_000;

impl Connections {
    pub(super) async fn submit(&self, fields: &Fields) -> Result<EntryId> {
        self.refuse_when_memory_is_short().await?;
        let id: String = self.sends.ask(&append(&self.keys.goals(), fields)).await?;
        Ok(EntryId::from(id))
    }

    pub(super) async fn namespace_submissions(&self, namespace: &Namespace, limit: usize) -> Result<Vec<Entry>> {
        let mut read = cmd("XRANGE");
        read.arg(self.keys.goals_of(namespace)).arg("-").arg("+").arg("COUNT").arg(limit);
        reply::entries(self.ask(&read).await?)
    }

    pub(super) async fn remove_namespace_submissions(&self, namespace: &Namespace, ids: &[EntryId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut remove = cmd("XDEL");
        remove.arg(self.keys.goals_of(namespace));
        for id in ids {
            remove.arg(id.as_str());
        }
        self.ask::<Value>(&remove).await?;
        Ok(())
    }

    pub(super) async fn reclaim_submissions(&self, consumer: &str, idle_ms: u64, limit: usize) -> Result<Vec<Entry>> {
        let goals = self.keys.goals();
        let claim = self.claim_idle(&goals, keys::SCHEDULERS, consumer, idle_ms, limit, "0-0").await?;
        // Submissions are trimmed when they are settled; at rest, the count of those that wait must be right too.
        self.call::<Value>(Function::Trim.on(&[goals]).arg(keys::SCHEDULERS)).await?;
        Ok(claim.entries)
    }

    pub(super) async fn submission_holders(&self) -> Result<Vec<String>> {
        let summary = match self.try_ask::<Value>(cmd("XPENDING").arg(self.keys.goals()).arg(keys::SCHEDULERS)).await? {
            Ok(summary) => reply::list(summary)?,
            // Who reads first makes the group.
            Err(error) if is_no_group(&error) => return Ok(Vec::new()),
            Err(error) => return Err(to_broker_error(error)),
        };
        let holders = reply::list(summary.into_iter().nth(3).unwrap_or_default())?;
        holders.into_iter().map(|holder| reply::text(reply::pair(holder)?.0)).collect()
    }

    pub(super) async fn take_over_submissions(
        &self,
        holder: &str,
        consumer: &str,
        idle_ms: u64,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let mut list = cmd("XPENDING");
        list.arg(self.keys.goals()).arg(keys::SCHEDULERS).arg("-").arg("+").arg(limit).arg(holder);
        let held: Vec<(String, String, u64, u64)> = self.ask(&list).await?;
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let mut claim = cmd("XCLAIM");
        claim.arg(self.keys.goals()).arg(keys::SCHEDULERS).arg(consumer).arg(idle_ms);
        for (id, ..) in held {
            claim.arg(id);
        }
        reply::entries(self.ask(&claim).await?)
    }

    pub(super) async fn acknowledge_submissions(&self, ids: &[EntryId]) -> Result<()> {
        let mut call = Function::Settle.on(&[self.keys.goals()]);
        call.arg(keys::SCHEDULERS);
        for id in ids.iter().filter(|id| is_entry_id(id)) {
            call.arg(id.as_str());
        }
        self.sends.call::<Value>(&call).await?;
        Ok(())
    }

    pub(super) async fn answer(&self, answers: &[(String, String)]) -> Result<()> {
        if answers.is_empty() {
            return Ok(());
        }
        let mut touched = vec![self.keys.meta()];
        touched.extend(answers.iter().flat_map(|(id, _)| [self.keys.answer(id), self.keys.result(id)]));
        let mut call = Function::Answer.on(&touched);
        call.arg(self.instance.get().map_or("", String::as_str)).arg(ANSWERS_MS);
        for (_, answer) in answers {
            call.arg(answer);
        }
        let is_written: bool = self.sends.call(&call).await?;
        if is_written { Ok(()) } else { self.recognise_server().await }
    }

    pub(super) async fn refuse(&self, refused: &[RefusedEntry]) -> Result<()> {
        for refused in refused {
            let id = &refused.answered_as;
            let mut touched = vec![
                self.keys.meta(),
                self.keys.answer(id),
                self.keys.result(id),
                self.keys.refused(&refused.namespace),
            ];
            touched.extend(refused.other_answer.as_ref().map(|(id, _)| self.keys.answer(id)));
            let mut call = Function::Refuse.on(&touched);
            call.arg(self.instance.get().map_or("", String::as_str)).arg(ANSWERS_MS).arg(&refused.problem);
            call.arg(REFUSED_MAX).arg(REFUSED_MS);
            call.arg(refused.other_answer.as_ref().map_or("", |(_, answer)| answer.as_str()));
            call.arg(self.keys.answer("")).arg(self.keys.result("")).arg("answered_as").arg(id);
            for (name, value) in &refused.listed {
                call.arg(name).arg(value);
            }
            let is_written: bool = self.sends.call(&call).await?;
            if !is_written {
                return self.recognise_server().await;
            }
        }
        Ok(())
    }

    pub(super) async fn refused(&self, namespace: &Namespace, limit: usize) -> Result<Vec<Entry>> {
        let mut read = cmd("XREVRANGE");
        read.arg(self.keys.refused(namespace)).arg("+").arg("-").arg("COUNT").arg(limit.max(1));
        reply::entries(self.ask(&read).await?)
    }

    pub(super) async fn has_result(&self, submission: &str) -> Result<bool> {
        self.ask(cmd("EXISTS").arg(self.keys.result(submission))).await
    }

    pub(super) async fn put_result(&self, result: &StreamResult) -> Result<()> {
        let mut call = Function::PutResult.on(&[self.keys.result(&result.submission)]);
        call.arg(ANSWERS_MS);
        for (name, value) in &result.fields {
            call.arg(name).arg(value);
        }
        self.sends.call::<Value>(&call).await?;
        Ok(())
    }

    pub(super) async fn remove_results(&self, submissions: &[String]) -> Result<()> {
        if submissions.is_empty() {
            return Ok(());
        }
        let mut remove = cmd("DEL");
        for submission in submissions {
            remove.arg(self.keys.result(submission));
        }
        self.ask::<Value>(&remove).await?;
        Ok(())
    }

    pub(super) async fn answers(&self, ids: &[String]) -> Result<Vec<Option<String>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut read = cmd("MGET");
        for id in ids {
            read.arg(self.keys.answer(id));
        }
        self.sends.ask(&read).await
    }

    /// Appends to a stream of an inbox. A report must get through also when memory is short: it lets plans end.
    pub(super) async fn send(&self, stream: &str, fields: &Fields) -> Result<()> {
        match self.sends.ask::<Value>(&append(stream, fields)).await {
            Ok(_) => Ok(()),
            Err(BrokerError::OutOfMemory) => {
                let mut call = Function::Send.on(&[stream]);
                add_fields(&mut call, fields);
                self.sends.call::<Value>(&call).await?;
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
}

fn append(stream: &str, fields: &Fields) -> Cmd {
    let mut add = cmd("XADD");
    add.arg(stream).arg("*");
    add_fields(&mut add, fields);
    add
}

fn add_fields(cmd: &mut Cmd, fields: &Fields) {
    for (name, value) in fields {
        cmd.arg(name).arg(value);
    }
}
