//! Reads logs, summaries and indexes.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::id::{EntryId, Namespace, PlanId, ShardId};
use goalmill_common::number::whole_u64;
use goalmill_common::status::PlanStatus;
use redis::{cmd, pipe};

use super::commit::RETENTION_MS_MAX;
use super::connections::Connections;
use super::{Result, reply};
use crate::{InboxCursor, LogEntry, ParkMark};

/// Index entries looked at in one go.
const SWEEP_PAGE: usize = 500;

/// Plans whose marks are read in one go.
const MARKS_PAGE: usize = 500;

impl Connections {
    pub(super) async fn cursor(&self, shard: ShardId) -> Result<InboxCursor> {
        let mut read = cmd("MGET");
        read.arg(self.keys.cursor(shard)).arg(self.keys.requests_cursor(shard));
        let (reports, requests): (Option<String>, Option<String>) = self.ask(&read).await?;
        let place = |id: Option<String>| id.map_or_else(EntryId::start, EntryId::from);
        Ok(InboxCursor { reports: place(reports), requests: place(requests) })
    }

    pub(super) async fn active(&self, shard: ShardId) -> Result<Vec<PlanId>> {
        let mut plans: Vec<String> = self.ask(cmd("SMEMBERS").arg(self.keys.active(shard))).await?;
        plans.sort_unstable();
        Ok(plans.into_iter().map(PlanId::from).collect())
    }

    pub(super) async fn log(&self, plan: &PlanId, after_seq: u64, limit: usize) -> Result<Vec<LogEntry>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut read = cmd("XRANGE");
        read.arg(self.keys.events(plan)).arg(format!("({after_seq}-0")).arg("+").arg("COUNT").arg(limit);
        let entries = reply::entries(self.ask(&read).await?)?;
        Ok(entries.into_iter().map(reply::log_entry).collect())
    }

    pub(super) async fn summary(&self, plan: &PlanId) -> Result<BTreeMap<String, String>> {
        let mut summary: BTreeMap<String, String> = self.ask(cmd("HGETALL").arg(self.keys.plan(plan))).await?;
        let has_ended =
            summary.get("status").and_then(|word| PlanStatus::parse(word)).is_some_and(PlanStatus::is_final);
        let Some(seq) = summary.get_mut("seq").filter(|_| !has_ended) else { return Ok(summary) };
        // What is stored of a plan that continues may be a second old.
        let mut read = cmd("XREVRANGE");
        read.arg(self.keys.events(plan)).arg("+").arg("-").arg("COUNT").arg(1);
        if let Some(last) = reply::entries(self.ask(&read).await?)?.pop() {
            *seq = reply::log_entry(last).last_seq.to_string();
        }
        Ok(summary)
    }

    pub(super) async fn statuses(&self, plans: &[PlanId]) -> Result<Vec<Option<PlanStatus>>> {
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let mut read = redis::pipe();
        for plan in plans {
            read.cmd("HGET").arg(self.keys.plan(plan)).arg("status");
        }
        let words: Vec<Option<String>> = self.sends.ask_all(&read).await?;
        Ok(words.into_iter().map(|word| PlanStatus::parse(&word?)).collect())
    }

    pub(super) async fn begun(&self, plans: &[PlanId]) -> Result<Vec<Option<(PlanStatus, String)>>> {
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let mut read = redis::pipe();
        for plan in plans {
            read.cmd("HMGET").arg(self.keys.plan(plan)).arg("status").arg("fingerprint");
        }
        let begun: Vec<(Option<String>, Option<String>)> = self.sends.ask_all(&read).await?;
        let parse = |(status, fingerprint): (Option<String>, Option<String>)| {
            Some((PlanStatus::parse(&status?)?, fingerprint.unwrap_or_default()))
        };
        Ok(begun.into_iter().map(parse).collect())
    }

    pub(super) async fn park_marks(&self, plans: &[PlanId]) -> Result<Vec<Option<(ParkMark, Namespace)>>> {
        let mut marks = Vec::with_capacity(plans.len());
        for plans in plans.chunks(MARKS_PAGE) {
            let mut read = pipe();
            for plan in plans {
                read.cmd("HMGET").arg(self.keys.plan(plan)).arg(ParkMark::FIELD).arg("namespace");
            }
            let summaries: Vec<(Option<String>, Option<String>)> = self.ask_all(&read).await?;
            let first = marks.len();
            marks.extend(summaries.into_iter().map(|(mark, namespace)| {
                let namespace = namespace.map(|name| Namespace::from(name.as_str())).unwrap_or_default();
                Some((ParkMark::parse(&mark?)?, namespace))
            }));
            self.drop_outdated(plans, &mut marks[first..]).await?;
        }
        Ok(marks)
    }

    /// Removes the marks of plans whose logs continue after them.
    async fn drop_outdated(&self, plans: &[PlanId], marks: &mut [Option<(ParkMark, Namespace)>]) -> Result<()> {
        let logs: Vec<String> = plans.iter().map(|plan| self.keys.events(plan)).collect();
        let marked = || logs.iter().zip(marks.iter()).filter_map(|(log, mark)| Some((log, mark.as_ref()?.0.seq)));
        if marked().next().is_none() {
            return Ok(());
        }
        let (marked_logs, ids): (Vec<&String>, Vec<String>) =
            marked().map(|(log, seq)| (log, format!("{seq}-0"))).unzip();
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(1).arg("STREAMS").arg(marked_logs).arg(ids);
        let ahead: BTreeSet<String> = reply::streams(self.ask(&read).await?)?.into_iter().map(|(log, _)| log).collect();
        for (log, mark) in logs.iter().zip(marks) {
            if ahead.contains(log) {
                *mark = None;
            }
        }
        Ok(())
    }

    pub(super) async fn plans(&self, shard: ShardId, before_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        let mut read = cmd("ZREVRANGEBYSCORE");
        read.arg(self.keys.index(shard)).arg(format!("({before_ms}")).arg("-inf").arg("WITHSCORES");
        read.arg("LIMIT").arg(0).arg(limit);
        let found: Vec<(String, f64)> = self.ask(&read).await?;
        Ok(found.into_iter().map(|(plan, score)| (PlanId::from(plan), whole_u64(score))).collect())
    }

    pub(super) async fn plans_since(&self, shard: ShardId, from_ms: u64, limit: usize) -> Result<Vec<(PlanId, u64)>> {
        let mut read = cmd("ZRANGEBYSCORE");
        read.arg(self.keys.index(shard)).arg(from_ms).arg("+inf").arg("WITHSCORES").arg("LIMIT").arg(0).arg(limit);
        let found: Vec<(String, f64)> = self.ask(&read).await?;
        Ok(found.into_iter().map(|(plan, score)| (PlanId::from(plan), whole_u64(score))).collect())
    }

    pub(super) async fn expire_plans(&self, plans: &[(PlanId, u64)]) -> Result<()> {
        if plans.is_empty() {
            return Ok(());
        }
        let mut pipe = pipe();
        for (plan, after_ms) in plans {
            let after_ms = (*after_ms).min(RETENTION_MS_MAX);
            pipe.cmd("PEXPIRE").arg(self.keys.events(plan)).arg(after_ms).ignore();
            pipe.cmd("PEXPIRE").arg(self.keys.plan(plan)).arg(after_ms).ignore();
        }
        self.ask_all(&pipe).await
    }

    pub(super) async fn sweep_index(&self, shard: ShardId, before_ms: u64) -> Result<u64> {
        let index = self.keys.index(shard);
        let (mut swept, mut kept) = (0, 0);
        loop {
            let mut read = cmd("ZRANGEBYSCORE");
            read.arg(&index).arg("-inf").arg(format!("({before_ms}")).arg("LIMIT").arg(kept).arg(SWEEP_PAGE);
            let page: Vec<String> = self.ask(&read).await?;
            if page.is_empty() {
                return Ok(swept);
            }
            let gone = self.without_summary(&page).await?;
            kept += page.len() - gone.len();
            if !gone.is_empty() {
                swept += self.ask::<u64>(cmd("ZREM").arg(&index).arg(&gone)).await?;
            }
        }
    }

    async fn without_summary(&self, plans: &[String]) -> Result<Vec<String>> {
        let mut pipe = pipe();
        for plan in plans {
            pipe.cmd("EXISTS").arg(self.keys.plan(&PlanId::from(plan.as_str())));
        }
        let exist: Vec<bool> = self.ask_all(&pipe).await?;
        Ok(plans.iter().zip(exist).filter(|(_, exists)| !exists).map(|(plan, _)| plan.clone()).collect())
    }
}
