//! The quarantine record of a shard: plans suspected of killing schedulers, and plans in quarantine.
//!
//! An owner that took over its shard from a dead owner records the plans it works on before it starts. If it dies too,
//! its successor finds the record. The record alone proves nothing, because processes die for many reasons: the suspect
//! is tried in a separate process, or quarantined after [`DEATHS_MAX`] owners died over it.

use std::collections::BTreeMap;

use goalmill_broker::{Activity, Broker, BrokerError, Commit, PlanWrite};
use goalmill_common::clock::rfc3339;
use goalmill_common::event::{Event, PlanEvent, Reason, Record, write_entry};
use goalmill_common::id::{PlanId, ShardId};
use serde::{Deserialize, Serialize};

/// Owners in a row that died over the same plan, after which it is quarantined without a trial.
pub(crate) const DEATHS_MAX: u32 = 5;
/// How long an unchanged record is stored, in milliseconds: 90 days.
const KEPT_MS: u64 = 90 * 24 * 3_600_000;

/// The suspected and quarantined plans of one shard; the value of [`Keys::poison`](goalmill_common::keys::Keys::poison).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct QuarantineRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_hand: Option<InHand>,
    pub(crate) quarantined: BTreeMap<PlanId, Quarantined>,
}

/// The plans that an owner is handling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InHand {
    pub(crate) plans: Vec<PlanId>,
    /// Owners that have died over them if this one dies.
    pub(crate) deaths: u32,
}

/// Why a plan is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quarantined {
    pub(crate) reason: String,
    /// Unix milliseconds.
    pub(crate) since_ms: u64,
    /// Whether the plan's log has the event.
    pub(crate) recorded: bool,
}

impl QuarantineRecord {
    /// Reads the record; an unreadable one counts as empty.
    pub(crate) async fn load(broker: &dyn Broker, shard: ShardId) -> Result<Self, BrokerError> {
        let Some(bytes) = broker.get_blob(&broker.keys().poison(shard)).await? else { return Ok(Self::default()) };
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::error!(%shard, "the quarantine record of shard {shard} cannot be read and is replaced: {error}");
            Self::default()
        }))
    }

    /// Writes the record; skipped if the store is out of memory.
    pub(crate) async fn store(&self, broker: &dyn Broker, shard: ShardId) -> Result<(), BrokerError> {
        let text = serde_json::to_vec(self).expect("plain data always has a JSON text");
        match broker.put_blob(&broker.keys().poison(shard), &text, KEPT_MS).await {
            Err(BrokerError::OutOfMemory) => Ok(()),
            written => written,
        }
    }

    /// The suspect, if the previous owner died while handling exactly one plan.
    pub(crate) fn suspect(&self) -> Option<(&PlanId, u32)> {
        let in_hand = self.in_hand.as_ref()?;
        match in_hand.plans.as_slice() {
            [plan] => Some((plan, in_hand.deaths)),
            _ => None,
        }
    }

    pub(crate) fn quarantine(&mut self, plan: PlanId, reason: String, now_ms: u64) {
        metrics::counter!("goalmill_plans_quarantined_total").increment(1);
        tracing::error!(plan_id = %plan, "plan {plan} is in quarantine: {reason}; take it up again: goalmill plan resume {plan}");
        self.in_hand = None;
        self.quarantined.insert(plan, Quarantined { reason, since_ms: now_ms, recorded: false });
    }
}

/// Records the quarantine in the logs of plans that do not have it yet; returns whether there were any.
pub(crate) async fn record_in_logs(
    broker: &dyn Broker,
    shard: ShardId,
    token: &str,
    record: &mut QuarantineRecord,
    now_ms: u64,
) -> Result<bool, BrokerError> {
    let mut plans = Vec::new();
    for (plan, quarantined) in record.quarantined.iter_mut().filter(|(_, quarantined)| !quarantined.recorded) {
        quarantined.recorded = true;
        let summary = broker.summary(plan).await?;
        // A plan whose submission is the cause has no log.
        if let Some(seq) = summary.get("seq").and_then(|seq| seq.parse().ok()) {
            plans.push(entry(plan, seq, &quarantined.reason, now_ms));
        }
    }
    let is_any = !plans.is_empty();
    if is_any {
        let (tasks, acknowledged) = (Vec::new(), Vec::new());
        let commit = Commit {
            shard,
            token: token.into(),
            number: 1,
            cursor: None,
            requests_cursor: None,
            plans,
            tasks,
            acknowledged,
            full_check: true,
        };
        broker.commit(&commit).await?;
    }
    Ok(is_any)
}

fn entry(plan: &PlanId, seq: u64, reason: &str, now_ms: u64) -> PlanWrite {
    let event = Event::Plan(PlanEvent::Quarantined(Reason::boxed(reason)));
    let time = rfc3339(now_ms);
    PlanWrite {
        plan: plan.clone(),
        base_seq: seq,
        follows: false,
        last_seq: seq + 1,
        events: write_entry(&[Record { seq: seq + 1, time_ms: now_ms, actor: None, event }]),
        summary: vec![("updated", time.clone())],
        time,
        activity: Activity::Continues,
        index_ms: now_ms,
        result: None,
    }
}
