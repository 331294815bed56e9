//! The services that all parts of one scheduler share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_archive::ArchiveStore;
use goalmill_broker::{Broker, StoreClock};
use goalmill_common::clock::Clock;
use goalmill_common::config::{PolicySettings, RecordSettings, Settings};
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::keys::Keys;
use goalmill_common::random::Random;
use goalmill_common::redaction::Redaction;
use goalmill_engine::{Engine, InputRecording};
use goalmill_llm::ModelRegistry;
use goalmill_plan::validate::Policy;
use goalmill_planning::Pipeline;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_directory::Directory;
use crate::dead_letter_counter::DeadLetterCounter;
use crate::execution_stats::{ExecutionStats, StatsReplay};
use crate::health_monitor::HealthMonitor;
use crate::hooks::Hooks;
use crate::loops::Loops;
use crate::namespace_limits::NamespaceLimits;
use crate::payload_cache::PayloadCache;
use crate::plan_reader::PlanReader;
use crate::token_secret::TokenSecret;
use crate::traces::Traces;

/// One scheduler process, or one of several in a test.
pub(crate) struct Scheduler {
    /// Unique among schedulers.
    pub(crate) id: String,
    /// The id of the installation.
    pub(crate) instance: String,
    pub(crate) token_secret: TokenSecret,
    pub(crate) settings: Settings,
    /// The action policy of the settings.
    pub(crate) policy: Arc<Policy>,
    /// The installation's, not the setting's.
    pub(crate) shards: u16,
    pub(crate) broker: Arc<dyn Broker>,
    /// Reads logs, summaries and lists of plans.
    pub(crate) plans: Arc<dyn PlanReader>,
    /// `None` unless finished plans are archived.
    pub(crate) archive: Option<Arc<dyn ArchiveStore>>,
    /// The time of the store, by `store_clock`.
    pub(crate) clock: Clock,
    pub(crate) store_clock: StoreClock,
    pub(crate) random: Random,
    /// How long a shard polls for its next input after a commit, and the intake for the reply of the store, before the
    /// thread sleeps.
    pub(crate) busy_poll: Duration,
    pub(crate) directory: Arc<Directory>,
    pub(crate) engine: Engine,
    pub(crate) planners: Pipeline,
    /// The models of the planners.
    pub(crate) models: Arc<ModelRegistry>,
    pub(crate) stats: Arc<ExecutionStats>,
    pub(crate) hooks: Hooks,
    /// `None` unless traces are on.
    pub(crate) traces: Option<Arc<Traces>>,
    /// `None` unless a namespace has a limit.
    pub(crate) namespaces: Option<Arc<NamespaceLimits>>,
    /// Stored payloads that were read recently.
    pub(crate) payloads: PayloadCache,
    pub(crate) health: HealthMonitor,
    pub(crate) dead_letters: DeadLetterCounter,
    /// Plans that no loop of this process works on, for example after an engine panic.
    pub(crate) quarantined_plans: Mutex<BTreeSet<PlanId>>,
    /// Changes with every commit of this process; log followers then read again.
    pub(crate) commits: watch::Sender<u64>,
    /// Starts loops that run as long as the scheduler.
    pub(crate) loops: Loops,
    pub(crate) tasks: TaskTracker,
    /// Stops the scheduler.
    pub(crate) stop: CancellationToken,
}

impl Scheduler {
    /// Milliseconds after its end in which a plan stays in the store. With an archive it stays until it is archived, which
    /// sets the time when it expires.
    pub(crate) fn retention_ms(&self) -> u64 {
        if self.archive.is_some() { u64::MAX } else { self.settings.scheduler.retention_ms }
    }

    /// Restores what the statistics note of running plans that another scheduler ran before.
    pub(crate) fn replay_stats(&self, plans: Vec<PlanId>) {
        if !plans.is_empty() {
            let (stats, reader) = (self.stats.clone(), self.plans.clone());
            self.tasks.spawn(StatsReplay { stats, plans: reader, stop: self.stop.clone() }.running(plans));
        }
    }

    /// Quarantines a plan until the scheduler restarts, so that the other plans of its shard continue.
    pub(crate) fn quarantine_plan(&self, plan: PlanId, why: &str) {
        tracing::error!(plan_id = %plan, "plan {plan} quarantined until this scheduler restarts: {why}");
        metrics::counter!("goalmill_plans_unreadable_total").increment(1);
        self.quarantined_plans.lock().unwrap_or_else(PoisonError::into_inner).insert(plan);
    }

    /// Adds plans that the quarantine record of a shard lists.
    pub(crate) fn add_quarantined(&self, plans: impl IntoIterator<Item = PlanId>) {
        self.quarantined_plans.lock().unwrap_or_else(PoisonError::into_inner).extend(plans);
    }

    pub(crate) fn end_plan_quarantine(&self, plan: &PlanId) {
        self.quarantined_plans.lock().unwrap_or_else(PoisonError::into_inner).remove(plan);
    }

    pub(crate) fn quarantined_plans(&self) -> BTreeSet<PlanId> {
        self.quarantined_plans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_plan_quarantined(&self, plan: &PlanId) -> bool {
        self.quarantined_plans.lock().unwrap_or_else(PoisonError::into_inner).contains(plan)
    }
}

/// The action policy of the settings.
pub(crate) fn policy(settings: &Settings) -> Policy {
    let PolicySettings { allow, deny, approve } = settings.planner.policy.clone();
    Policy { allow, deny, approve }
}

/// How inputs of attempts are recorded. The settings are checked before.
pub(crate) fn input_recording(settings: &RecordSettings, keys: &Keys, shard: ShardId) -> Option<InputRecording> {
    settings.inputs.then(|| InputRecording {
        redaction: Redaction::new(&settings.redact).expect("the settings are checked"),
        blob_prefix: keys.blob(shard, ""),
        plan_bytes_max: settings.plan_inputs_bytes_max,
    })
}
