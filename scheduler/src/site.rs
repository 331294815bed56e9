//! What every part of a scheduler shares.

use std::sync::Arc;

use goalmill_broker::Broker;
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_common::random::Random;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::directory::Directory;
use crate::planner::Pipeline;
use crate::pulse::Pulse;

/// One scheduler process, or one of several in a test.
pub(crate) struct Site {
    /// Unique among schedulers.
    pub(crate) id: String,
    pub(crate) settings: Settings,
    /// The installation's, not the setting's.
    pub(crate) shards: u16,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) directory: Arc<Directory>,
    pub(crate) planners: Pipeline,
    pub(crate) pulse: Pulse,
    /// Moves with every commit made here: followers of a log look again.
    pub(crate) commits: watch::Sender<u64>,
    pub(crate) tasks: TaskTracker,
    /// Ends everything.
    pub(crate) stop: CancellationToken,
}
