//! What every part of a scheduler shares.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_common::clock::Clock;
use goalmill_common::config::{PolicySettings, Settings};
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_engine::Decide;
use goalmill_plan::validate::Policy;
use goalmill_planning::Pipeline;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::directory::Directory;
use crate::hooks::Hooks;
use crate::outcomes::Outcomes;
use crate::pulse::Pulse;
use crate::shard::{Share, Tallies};
use crate::traces::Traces;
use crate::trial::Trial;
use crate::watchdog::Hands;

/// One scheduler process, or one of several in a test.
pub(crate) struct Site {
    /// Unique among schedulers.
    pub(crate) id: String,
    pub(crate) settings: Settings,
    /// Which actions plans may use, by the settings.
    pub(crate) policy: Arc<Policy>,
    /// The installation's, not the setting's.
    pub(crate) shards: u16,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// How long a shard goes on asking for what comes next after a commit, and the intake for what the store answers.
    pub(crate) spin: Duration,
    pub(crate) directory: Arc<Directory>,
    pub(crate) planners: Pipeline,
    pub(crate) outcomes: Arc<Outcomes>,
    pub(crate) hooks: Hooks,
    /// `None` unless traces are on.
    pub(crate) traces: Option<Traces>,
    pub(crate) pulse: Pulse,
    pub(crate) share: Share,
    /// Plans that cannot be worked on, as when the engine panicked over them: left alone until this process is started again.
    pub(crate) set_aside: Mutex<BTreeSet<PlanId>>,
    /// How a suspected plan is tried, where that can be done.
    pub(crate) trial: Option<Trial>,
    pub(crate) decide: Decide,
    /// What the loops here have in hand, for the watchdog.
    pub(crate) hands: Hands,
    /// What the shards that are owned here hold, for metrics.
    pub(crate) tallies: Tallies,
    /// Moves with every commit made here: followers of a log look again.
    pub(crate) commits: watch::Sender<u64>,
    pub(crate) tasks: TaskTracker,
    /// Ends everything.
    pub(crate) stop: CancellationToken,
}

impl Site {
    /// Leaves a plan alone from now on, so that the others of its shard go on.
    pub(crate) fn set_aside(&self, plan: PlanId, why: &str) {
        tracing::error!(plan_id = %plan, "plan {plan} is left alone until this scheduler is started again: it {why}");
        metrics::counter!("goalmill_plans_unreadable_total").increment(1);
        self.set_aside.lock().unwrap_or_else(PoisonError::into_inner).insert(plan);
    }

    /// Leaves plans in quarantine alone; that was said when they came there.
    pub(crate) fn keep_out(&self, plans: impl IntoIterator<Item = PlanId>) {
        self.set_aside.lock().unwrap_or_else(PoisonError::into_inner).extend(plans);
    }

    /// Works on a plan again.
    pub(crate) fn let_in(&self, plan: &PlanId) {
        self.set_aside.lock().unwrap_or_else(PoisonError::into_inner).remove(plan);
    }

    /// All plans that are left alone.
    pub(crate) fn left_alone(&self) -> BTreeSet<PlanId> {
        self.set_aside.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_set_aside(&self, plan: &PlanId) -> bool {
        self.set_aside.lock().unwrap_or_else(PoisonError::into_inner).contains(plan)
    }
}

/// Which actions plans may use, by the settings.
pub(crate) fn policy(settings: &Settings) -> Policy {
    let PolicySettings { allow, deny, approve } = settings.planner.policy.clone();
    Policy { allow, deny, approve }
}
