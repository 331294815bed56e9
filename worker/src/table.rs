//! The tasks this worker holds, each with its lease.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use goalmill_common::id::{AgentType, EntryId, WorkerId};
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::executor::Progress;

/// The longest lease that is believed, in milliseconds: a day.
const LEASE_MS_MAX: u64 = 24 * 3_600_000;

/// Why an execution ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Cancelled, or another attempt took its place.
    Superseded,
    /// Somebody else has the task, or may have it.
    LeaseLost,
    /// The worker ends.
    HandedBack,
}

/// One task in this worker's hands.
pub(crate) struct Assignment {
    pub task: Task,
    /// The queue it came from.
    pub agent_type: AgentType,
    pub entry: EntryId,
    pub cancelled: CancellationToken,
    pub progress: Progress,
    /// Unix milliseconds; 0 before the execution begins.
    pub started_ms: AtomicU64,
    why: OnceLock<Why>,
}

impl Assignment {
    pub fn new(task: Task, agent_type: AgentType, entry: EntryId) -> Self {
        Self {
            task,
            agent_type,
            entry,
            cancelled: CancellationToken::new(),
            progress: Progress::default(),
            started_ms: AtomicU64::new(0),
            why: OnceLock::new(),
        }
    }

    /// Ends the execution; the first reason counts.
    pub fn stop(&self, why: Why) {
        self.why.get_or_init(|| why);
        self.cancelled.cancel();
    }

    pub fn stopped(&self) -> Option<Why> {
        self.why.get().copied()
    }

    /// A report on this attempt with nothing but its head.
    pub fn report(&self, worker: &WorkerId, what: What) -> Report {
        let started_ms = self.started_ms.load(Ordering::Relaxed);
        let head = Report::on(&self.task, self.agent_type.clone(), self.entry.clone(), worker.clone(), what);
        Report { started_ms: (started_ms > 0).then_some(started_ms), ..head }
    }
}

/// A task with the state of its lease and of its reports.
pub(crate) struct Held {
    pub assignment: Arc<Assignment>,
    pub pulled_at: Instant,
    /// When the last extension that succeeded was sent; at first, when the task came.
    pub renewed_at: Instant,
    /// Whether `started` was reported.
    pub told: bool,
}

impl Held {
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.assignment.task.lease_ms.min(LEASE_MS_MAX))
    }
}

/// Every task in this worker's hands, by a number of its own.
pub(crate) struct Table {
    held: Mutex<BTreeMap<u64, Held>>,
    next: AtomicU64,
    slots: usize,
    freed: Notify,
    /// The shortest lease that the keeper knows of, in milliseconds.
    lease_ms_min: AtomicU64,
    shortened: Notify,
}

impl Table {
    pub fn new(slots: u32) -> Self {
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        Self {
            held: Mutex::default(),
            next: AtomicU64::new(0),
            slots,
            freed: Notify::new(),
            lease_ms_min: AtomicU64::new(u64::MAX),
            shortened: Notify::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn free(&self) -> usize {
        self.slots.saturating_sub(self.len())
    }

    /// Takes a pulled batch, whose leases run from `at`.
    pub fn take(&self, batch: &[Arc<Assignment>], at: Instant) -> u64 {
        let count = u64::try_from(batch.len()).expect("a batch is small");
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let mut held = self.lock();
        for (serial, assignment) in (first..).zip(batch) {
            held.insert(serial, Held { assignment: assignment.clone(), pulled_at: at, renewed_at: at, told: false });
        }
        drop(held);
        let lease_ms = batch.iter().map(|a| a.task.lease_ms).min().unwrap_or(u64::MAX);
        if lease_ms < self.lease_ms_min.fetch_min(lease_ms, Ordering::SeqCst) {
            self.shortened.notify_one();
        }
        first
    }

    /// The shortest lease held, in milliseconds; the next shorter one wakes [`Table::wait_shorter`].
    pub fn lease_ms_min(&self) -> Option<u64> {
        let held = self.lock();
        let min = held.values().map(|h| h.assignment.task.lease_ms).min();
        self.lease_ms_min.store(min.unwrap_or(u64::MAX), Ordering::SeqCst);
        min
    }

    /// Waits until a task comes with a shorter lease than [`Table::lease_ms_min`] said.
    pub async fn wait_shorter(&self) {
        self.shortened.notified().await;
    }

    /// Gives up a task, and its slot.
    pub fn remove(&self, serial: u64) {
        self.lock().remove(&serial);
        self.freed.notify_one();
    }

    /// Waits until a slot may be free.
    pub async fn wait_free(&self) {
        while self.free() == 0 {
            self.freed.notified().await;
        }
    }

    /// Waits until a task was given up. Only one loop may wait here or in [`Table::wait_free`].
    pub async fn wait_removed(&self) {
        self.freed.notified().await;
    }

    /// Ends every execution that `chosen` names.
    pub fn stop(&self, why: Why, chosen: impl Fn(&Assignment) -> bool) {
        for held in self.lock().values() {
            if chosen(&held.assignment) {
                held.assignment.stop(why);
            }
        }
    }
}
