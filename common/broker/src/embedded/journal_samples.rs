//! A sample of each record of the journal: how they are written is the format of the file.

use std::borrow::Cow;

use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{AgentType, PlanId, ShardId};
use goalmill_common::limits::TaskLimits;

use super::journal::encode;
use super::memory_store::MemoryStore;
use super::record::Write;
use super::stream::Id;
use crate::{Activity, Claim, Commit, DeadLetter, Install, KeptEvent, PlanWrite, TaskWrite};

const NOW_MS: u64 = 1_795_293_490_279;
const SHARD: ShardId = ShardId(3);

/// All samples as they are written, each followed by a snapshot of the store after it.
///
/// Registrations are left out: their JSON may grow.
pub(super) fn sample_records() -> Vec<u8> {
    let mut store = MemoryStore::default();
    let mut records = Vec::new();
    for (place, write) in samples().into_iter().enumerate() {
        assert_eq!(kind(&write), place, "each kind of write has its sample, in the order of the kinds");
        if matches!(write, Write::Register(_) | Write::RecordWorkerHeartbeat(_)) {
            continue;
        }
        records.extend(encode(Vec::new(), NOW_MS, &write).expect("a sample is short"));
        write.replay(&mut store, NOW_MS);
        let snapshot = Write::Snapshot(Box::new(store.clone()));
        records.extend(encode(Vec::new(), NOW_MS, &snapshot).expect("a sample is short"));
    }
    records
}

fn samples() -> Vec<Write<'static>> {
    let fields = || vec![("data".to_owned(), vec![0, 255])];
    let build = || AgentType::from("build");
    let claim = Claim { holder: "h".into(), token: "t".into(), seen: None };
    let beat = WorkerBeat {
        worker: "w".into(),
        agents: vec![build()],
        slots: 1,
        busy: 0,
        draining: false,
        version: String::new(),
        host: String::new(),
        started_ms: 0,
        seen_ms: 0,
        heartbeat_ms: None,
    };
    vec![
        Write::Snapshot(Box::default()),
        Write::Install(Cow::Owned(Install { instance: "i".into(), shards: 4, limits: TaskLimits::default() })),
        Write::Acquire(SHARD, Cow::Owned(claim)),
        Write::Renew(SHARD, "t".into()),
        Write::Release(ShardId(1), "t".into()),
        Write::Commit(Cow::Owned(commit())),
        Write::SweepIndex(SHARD, 4),
        Write::Submit(Cow::Owned(fields())),
        Write::TakeSubmissions("s".into(), 9),
        Write::ReclaimSubmissions("s2".into(), 0, 9),
        Write::AcknowledgeSubmissions(Cow::Owned(vec!["1-0".into()])),
        Write::Answer(Cow::Owned(vec![("r1".into(), "{}".into())])),
        Write::Send(SHARD, Cow::Owned(fields())),
        Write::OpenQueue(build()),
        Write::Pull("w".into(), Cow::Owned(vec![build()]), 1),
        Write::Extend("w".into(), Cow::Owned(vec![(build(), "1-0".into())])),
        Write::Reclaim(build(), 0, 9),
        Write::Trim(build()),
        Write::Cancel(Cow::Owned(vec!["token".into()])),
        Write::Register(Box::new(Agent::named(build()))),
        Write::RecordWorkerHeartbeat(Box::new(beat)),
        Write::DeregisterWorker("w".into()),
        Write::RecordSchedulerHeartbeat("s".into()),
        Write::DeregisterScheduler("s2".into()),
        Write::DeadLetter(Cow::Owned(dead_letter())),
        Write::PutBlob("blob".into(), Cow::Owned(vec![7]), 60_000),
        Write::RetakeSubmissions("s".into(), Id(1, 2), 9),
        Write::PauseQueue(build(), true),
        Write::RequestDrain("w".into()),
        Write::DiscardDeadLetter(build(), "1-0".into()),
        Write::DiscardTasks(build(), Cow::Owned(vec!["1-0".into()])),
        Write::EndFormerProcesses,
        Write::RemoveAgentType("other".into(), 5),
        Write::RemoveBlob("none".into()),
        Write::PutField("key".into(), "field".into(), "value".into()),
        Write::RemoveField("key".into(), "none".into()),
        Write::ExpirePlans(Cow::Owned(vec![(PlanId::from("p3-b"), 60_000)])),
        Write::SendRequest(SHARD, Cow::Owned(fields())),
        Write::KeepEvent(Cow::Owned(kept_event())),
    ]
}

fn commit() -> Commit {
    let plan = |plan: &str, activity| PlanWrite {
        plan: plan.into(),
        base_seq: 0,
        follows: false,
        last_seq: 2,
        time: "2026-11-21T22:47:10.123Z".into(),
        events: b"[1,2]".to_vec(),
        summary: vec![("status", "running".into())],
        activity,
        index_ms: 5,
        result: None,
    };
    Commit {
        shard: SHARD,
        token: "t".into(),
        number: 1,
        cursor: Some("7-0".into()),
        requests_cursor: Some("8-0".into()),
        plans: vec![
            plan("p3-a", Activity::Begins),
            plan("p3-b", Activity::Continues),
            plan("p3-c", Activity::Ends { retention_ms: 60_000 }),
        ],
        tasks: vec![TaskWrite { agent_type: "build".into(), data: b"{}".to_vec() }; 2],
        acknowledged: vec![("build".into(), "1-0".into())],
        full_check: true,
    }
}

fn dead_letter() -> DeadLetter {
    DeadLetter {
        agent_type: "build".into(),
        plan: "p3-a".into(),
        step: "a".into(),
        attempt: 2,
        code: "STEP_POISONED".into(),
        reason: "why".into(),
        task: "{}".into(),
    }
}

fn kept_event() -> KeptEvent {
    KeptEvent {
        namespace: "default".into(),
        topic: "topic".into(),
        id: "id".into(),
        text: "{}".into(),
        retention_ms: 60_000,
        most: 10,
    }
}

/// The number of a kind of write. A new kind needs a sample.
fn kind(write: &Write<'_>) -> usize {
    match write {
        Write::Snapshot(..) => 0,
        Write::Install(..) => 1,
        Write::Acquire(..) => 2,
        Write::Renew(..) => 3,
        Write::Release(..) => 4,
        Write::Commit(..) => 5,
        Write::SweepIndex(..) => 6,
        Write::Submit(..) => 7,
        Write::TakeSubmissions(..) => 8,
        Write::ReclaimSubmissions(..) => 9,
        Write::AcknowledgeSubmissions(..) => 10,
        Write::Answer(..) => 11,
        Write::Send(..) => 12,
        Write::OpenQueue(..) => 13,
        Write::Pull(..) => 14,
        Write::Extend(..) => 15,
        Write::Reclaim(..) => 16,
        Write::Trim(..) => 17,
        Write::Cancel(..) => 18,
        Write::Register(..) => 19,
        Write::RecordWorkerHeartbeat(..) => 20,
        Write::DeregisterWorker(..) => 21,
        Write::RecordSchedulerHeartbeat(..) => 22,
        Write::DeregisterScheduler(..) => 23,
        Write::DeadLetter(..) => 24,
        Write::PutBlob(..) => 25,
        Write::RetakeSubmissions(..) => 26,
        Write::PauseQueue(..) => 27,
        Write::RequestDrain(..) => 28,
        Write::DiscardDeadLetter(..) => 29,
        Write::DiscardTasks(..) => 30,
        Write::EndFormerProcesses => 31,
        Write::RemoveAgentType(..) => 32,
        Write::RemoveBlob(..) => 33,
        Write::PutField(..) => 34,
        Write::RemoveField(..) => 35,
        Write::ExpirePlans(..) => 36,
        Write::SendRequest(..) => 37,
        Write::KeepEvent(..) => 38,
    }
}
