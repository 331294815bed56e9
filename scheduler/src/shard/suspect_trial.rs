//! Trial: runs a suspected plan in a separate process.
//!
//! The process folds the log of the plan, handles its inbox entries and dispatches as a shard's loop does, but writes
//! nothing. If it is killed, aborts or does not end, the plan is quarantined.

use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use goalmill_broker::{BrokerError, InboxCursor, InboxEntry, LogEntry};
use goalmill_common::clock::Clock;
use goalmill_common::config::{HookPoints, PolicySettings, RecordSettings};
use goalmill_common::id::{EntryId, PlanId, ShardId};
use goalmill_common::keys::Keys;
use goalmill_common::limits::Limits;
use goalmill_common::random::Random;
use goalmill_common::wire::{Fields, Inbox, InboxStream};
use goalmill_engine::{Engine, EngineContext, TokenKey};
use goalmill_plan::validate::Policy;
use goalmill_shard::{InboxPlace, ShardState, plans_of};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::event_log::{self, Pages};
use crate::scheduler::{Scheduler, input_recording};

/// Inbox entries of a plan in its trial at most.
const ENTRIES_MAX: usize = 1_000;
/// Memory limit of the process, in bytes.
const MEMORY_MAX: u64 = 4 << 30;

/// How to start the trial process, which gets the case on its standard input and calls [`run_trial`].
#[derive(Clone, Debug)]
pub struct Trial {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Time limit of the process.
    pub limit: Duration,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrialVerdict {
    Innocent,
    /// With a description.
    Guilty(String),
    /// The trial could not be run.
    Unknown(String),
}

/// The input of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) shard: ShardId,
    pub(crate) limits: Limits,
    pub(crate) policy: PolicySettings,
    pub(crate) task_lease_ms: u64,
    pub(crate) reply: String,
    pub(crate) token_key: TokenKey,
    pub(crate) record: RecordSettings,
    pub(crate) log: Vec<LogEntry>,
    pub(crate) entries: Vec<(InboxStream, EntryId, Fields)>,
}

impl Trial {
    /// Runs the trial.
    pub(crate) async fn run(&self, case: &Case) -> TrialVerdict {
        let text = serde_json::to_vec(case).expect("plain data always has a JSON text");
        let command = Command::new(&self.program)
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let mut process = match command {
            Ok(process) => process,
            Err(error) => return TrialVerdict::Unknown(format!("the trial cannot be started: {error}")),
        };
        let tried = async {
            if let Some(mut input) = process.stdin.take() {
                // A process that dies early does not read all of it.
                drop(input.write_all(&text).await);
            }
            process.wait().await
        };
        match tokio::time::timeout(self.limit, tried).await {
            Err(_) => TrialVerdict::Guilty(format!("a trial of it did not end in {} s", self.limit.as_secs())),
            Ok(Err(error)) => TrialVerdict::Unknown(format!("the trial process cannot be awaited: {error}")),
            Ok(Ok(status)) if status.success() => TrialVerdict::Innocent,
            Ok(Ok(status)) if status.code() == Some(UNREADABLE) => {
                TrialVerdict::Unknown("the case cannot be read".into())
            }
            Ok(Ok(status)) => TrialVerdict::Guilty(format!("a trial of it ended with {status}")),
        }
    }
}

/// Collects the log of a plan and its waiting inbox entries.
pub(crate) async fn collect_evidence(
    scheduler: &Scheduler,
    shard: ShardId,
    plan: &PlanId,
    cursor: &InboxCursor,
) -> Result<(Vec<LogEntry>, Vec<(InboxStream, EntryId, Fields)>), BrokerError> {
    let mut log = Vec::new();
    let mut pages = Pages::new(scheduler.plans.as_ref(), plan);
    while let Some(entries) = pages.next().await? {
        log.extend(entries);
    }
    let waiting = scheduler.broker.reader().await?.inbox(shard, cursor, ENTRIES_MAX, 0).await?;
    let about = |entry: &InboxEntry| plans_of(&entry.parse()).contains(plan);
    let entries = waiting.into_iter().filter(about).map(|entry| (entry.stream, entry.id, entry.fields)).collect();
    Ok((log, entries))
}

/// Exit status for an unreadable case, which is no evidence about the plan.
const UNREADABLE: i32 = 3;

/// The trial process: reads the case, runs it and returns the exit status.
pub fn run_trial(mut input: impl Read, engine: Engine) -> i32 {
    let mut text = Vec::new();
    let Ok(case) = input.read_to_end(&mut text).map_err(drop).and_then(|_| serde_json::from_slice(&text).map_err(drop))
    else {
        return UNREADABLE;
    };
    limit_memory();
    run_case(case, engine);
    0
}

/// Limits memory, so that a plan that exhausts it does not affect the machine.
fn limit_memory() {
    let most = getrlimit(Resource::As).current.map_or(MEMORY_MAX, |current| current.min(MEMORY_MAX));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    if let Err(error) = setrlimit(Resource::As, limit) {
        tracing::debug!("the memory limit cannot be set: {error}");
    }
}

fn run_case(case: Case, engine: Engine) {
    let Case { shard, limits, policy, task_lease_ms, reply, token_key, record, log, entries } = case;
    let PolicySettings { allow, deny, approve } = policy;
    let recording = input_recording(&record, &Keys::default(), shard);
    let policy = Policy { allow, deny, approve };
    // Nothing of a trial is written: no hook is asked.
    let hooks = HookPoints::default();
    let callback_base = "http://localhost".into();
    let context = EngineContext {
        cards: Default::default(),
        judge_model: false,
        limits,
        policy,
        hooks,
        task_lease_ms,
        reply,
        callback_base,
        token_key,
        recording,
    };
    let mut owned = ShardState::new(shard, context, Clock::system(), Random::system(), 0);
    owned.use_engine(engine);
    // A plan whose log cannot be folded is quarantined anyway.
    let state = event_log::fold(None, &log).ok().flatten();
    let slots = owned.add_recovered(state.into_iter().collect());
    owned.begin_turn();
    for slot in slots {
        owned.resume_plan(slot);
    }
    owned.run_to_idle();
    for (stream, id, fields) in entries {
        owned.begin_turn();
        owned.handle_entry(InboxPlace { stream, id }, Inbox::from_fields(stream, &fields));
        owned.run_to_idle();
    }
}
