//! The tasks that this worker holds, each with its lease.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use goalmill_common::id::{AgentType, EntryId, WorkerId};
use goalmill_common::number::to_usize;
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::executor::Progress;

/// The longest accepted lease, in milliseconds: a day.
const LEASE_MS_MAX: u64 = 24 * 3_600_000;

/// Why an execution is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Cancelled, or another attempt took its place.
    Superseded,
    /// Another worker has the task, or may have it.
    LeaseLost,
    /// The worker shuts down.
    Released,
}

/// One attempt that this worker runs.
pub(crate) struct Assignment {
    pub task: Task,
    /// The queue it was pulled from.
    pub agent_type: AgentType,
    pub entry: EntryId,
    pub cancelled: CancellationToken,
    pub progress: Progress,
    /// Unix milliseconds; 0 before the execution begins.
    pub started_ms: AtomicU64,
    stop_reason: OnceLock<StopReason>,
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
            stop_reason: OnceLock::new(),
        }
    }

    /// Stops the execution; the first reason counts.
    pub fn stop(&self, reason: StopReason) {
        self.stop_reason.get_or_init(|| reason);
        self.cancelled.cancel();
    }

    pub fn stopped(&self) -> Option<StopReason> {
        self.stop_reason.get().copied()
    }

    /// A report on this attempt without a body.
    pub fn report(&self, worker: &WorkerId, what: What) -> Report {
        let started_ms = self.started_ms.load(Ordering::Relaxed);
        let head = Report::on(&self.task, self.agent_type.clone(), self.entry.clone(), worker.clone(), what);
        Report { started_ms: (started_ms > 0).then_some(started_ms), ..head }
    }
}

/// A task with the state of its lease and of its reports.
pub(crate) struct HeldTask {
    pub assignment: Arc<Assignment>,
    pub pulled_at: Instant,
    /// When the last successful extension was sent; at first, when the task arrived.
    pub renewed_at: Instant,
    /// Whether `started` was reported.
    pub started_reported: bool,
}

impl HeldTask {
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.assignment.task.lease_ms.min(LEASE_MS_MAX))
    }
}

/// All tasks that this worker holds, by serial number.
pub(crate) struct HeldTasks {
    held: Mutex<BTreeMap<u64, HeldTask>>,
    next: AtomicU64,
    slots: usize,
    freed: Notify,
    /// The shortest lease known to the renewal loop, in milliseconds.
    lease_ms_min: AtomicU64,
    shortened: Notify,
}

impl HeldTasks {
    pub fn new(slots: u32) -> Self {
        let slots = to_usize(slots);
        Self {
            held: Mutex::default(),
            next: AtomicU64::new(0),
            slots,
            freed: Notify::new(),
            lease_ms_min: AtomicU64::new(u64::MAX),
            shortened: Notify::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, HeldTask>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn free_slots(&self) -> usize {
        self.slots.saturating_sub(self.len())
    }

    /// Adds a pulled batch whose leases run from `at`; returns the first serial number.
    pub fn insert(&self, batch: &[Arc<Assignment>], at: Instant) -> u64 {
        let count = u64::try_from(batch.len()).expect("a batch is small");
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let mut held = self.lock();
        for (serial, assignment) in (first..).zip(batch) {
            held.insert(
                serial,
                HeldTask { assignment: assignment.clone(), pulled_at: at, renewed_at: at, started_reported: false },
            );
        }
        drop(held);
        let lease_ms = batch.iter().map(|a| a.task.lease_ms).min().unwrap_or(u64::MAX);
        if lease_ms < self.lease_ms_min.fetch_min(lease_ms, Ordering::SeqCst) {
            self.shortened.notify_one();
        }
        first
    }

    /// The shortest lease held, in milliseconds; the next shorter one wakes [`HeldTasks::wait_shorter`].
    pub fn lease_ms_min(&self) -> Option<u64> {
        let held = self.lock();
        let min = held.values().map(|h| h.assignment.task.lease_ms).min();
        self.lease_ms_min.store(min.unwrap_or(u64::MAX), Ordering::SeqCst);
        min
    }

    /// Waits until a task arrives with a shorter lease than [`HeldTasks::lease_ms_min`] returned.
    pub async fn wait_shorter(&self) {
        self.shortened.notified().await;
    }

    /// Removes a task and frees its slot.
    pub fn remove(&self, serial: u64) {
        self.lock().remove(&serial);
        self.freed.notify_one();
    }

    /// Waits until a slot may be free.
    pub async fn wait_free_slot(&self) {
        while self.free_slots() == 0 {
            self.freed.notified().await;
        }
    }

    /// Waits until a task is removed. Only one loop may wait here or in [`HeldTasks::wait_free_slot`].
    pub async fn wait_removed(&self) {
        self.freed.notified().await;
    }

    /// Stops every execution that `chosen` selects.
    pub fn stop(&self, reason: StopReason, chosen: impl Fn(&Assignment) -> bool) {
        for held in self.lock().values() {
            if chosen(&held.assignment) {
                held.assignment.stop(reason);
            }
        }
    }
}
