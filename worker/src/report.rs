//! Sends reports in batches: while one entry of a shard is being sent, the next one collects.
//!
//! There is no artificial delay: an idle worker's report is sent immediately, a busy worker's batches grow with the
//! time of one send. Unsent reports are kept in order and retried without limit; above a limit the worker stops
//! pulling. A report that is sent twice has no further effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use goalmill_common::id::ShardId;
use goalmill_common::report::Report;
use goalmill_common::wire::Inbox;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::worker::Worker;

/// Reports in one entry.
const ENTRY_REPORTS_MAX: usize = 500;
/// Bytes of outputs in one entry, unless one report alone has more.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Unsent reports at which the worker stops pulling.
const UNSENT_MAX: usize = 10_000;
/// Bytes of unsent outputs at which the worker stops pulling.
const UNSENT_BYTES_MAX: usize = 64 << 20;

/// Unsent reports.
pub(crate) struct ReportOutbox {
    sender: UnboundedSender<Report>,
    unsent: AtomicUsize,
    bytes: AtomicUsize,
    sent: Notify,
}

impl ReportOutbox {
    pub fn new() -> (Self, UnboundedReceiver<Report>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender, unsent: AtomicUsize::new(0), bytes: AtomicUsize::new(0), sent: Notify::new() }, receiver)
    }

    /// Queues a report.
    pub fn push(&self, report: Report) {
        let bytes = payload_bytes(&report);
        self.unsent.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.sender.send(report).is_err() {
            // The sender ends after the last flush; later reports are dropped.
            self.count_sent(1, bytes);
        }
    }

    pub fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    fn has_room(&self) -> bool {
        self.unsent() < UNSENT_MAX && self.bytes.load(Ordering::Relaxed) < UNSENT_BYTES_MAX
    }

    /// Waits until there is room for the reports of new tasks.
    pub async fn wait_room(&self) {
        self.wait(Self::has_room).await;
    }

    /// Waits until everything is sent.
    pub async fn wait_empty(&self) {
        self.wait(|outbox| outbox.unsent() == 0).await;
    }

    async fn wait(&self, until: impl Fn(&Self) -> bool) {
        loop {
            let mut sent = std::pin::pin!(self.sent.notified());
            if until(self) {
                return;
            }
            sent.as_mut().enable();
            if until(self) {
                return;
            }
            sent.await;
        }
    }

    fn count_sent(&self, reports: usize, bytes: usize) {
        self.unsent.fetch_sub(reports, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.sent.notify_waiters();
    }
}

/// Bytes of the JSON in a report.
fn payload_bytes(report: &Report) -> usize {
    let part = |json: &Option<goalmill_common::json::Json>| json.as_ref().map_or(0, |j| j.text().len());
    part(&report.outputs) + part(&report.adjustments) + part(&report.sub_plan)
}

/// Sends reports until the worker stops.
pub(crate) async fn send_reports(worker: Arc<Worker>, mut outgoing: UnboundedReceiver<Report>) {
    let mut batch = Vec::with_capacity(ENTRY_REPORTS_MAX);
    loop {
        tokio::select! {
            biased;
            _ = outgoing.recv_many(&mut batch, ENTRY_REPORTS_MAX) => {}
            () = worker.stop.cancelled() => return,
        }
        // Lets other finished executions report too: the results of one pull then go as one entry.
        tokio::task::yield_now().await;
        while batch.len() < ENTRY_REPORTS_MAX
            && let Ok(report) = outgoing.try_recv()
        {
            batch.push(report);
        }
        let (reports, bytes) = (batch.len(), batch.iter().map(payload_bytes).sum());
        let sends =
            group_by_shard(&mut batch).into_iter().map(|(shard, entries)| send_entries(&worker, shard, entries));
        tokio::select! {
            biased;
            _ = join_all(sends) => worker.outbox.count_sent(reports, bytes),
            () = worker.stop.cancelled() => return,
        }
    }
}

/// Groups a batch into entries by the shard of each plan's id, in order.
fn group_by_shard(batch: &mut Vec<Report>) -> BTreeMap<ShardId, Vec<Vec<Report>>> {
    let mut shards: BTreeMap<ShardId, Vec<Vec<Report>>> = BTreeMap::new();
    let mut sizes: BTreeMap<ShardId, usize> = BTreeMap::new();
    for report in batch.drain(..) {
        let shard = report.plan.shard().expect("tasks without a shard are dead letters");
        let (entries, size) = (shards.entry(shard).or_default(), sizes.entry(shard).or_default());
        let bytes = payload_bytes(&report);
        match entries.last_mut() {
            Some(entry) if *size + bytes <= ENTRY_BYTES_MAX => {
                *size += bytes;
                entry.push(report);
            }
            Some(_) | None => {
                *size = bytes;
                entries.push(vec![report]);
            }
        }
    }
    shards
}

async fn send_entries(worker: &Worker, shard: ShardId, entries: Vec<Vec<Report>>) {
    for reports in entries {
        let fields = Inbox::Reports(reports).fields();
        let mut failures = 0;
        while let Err(e) = worker.broker.send(shard, &fields).await {
            failures += 1;
            worker.connection.set_lost(&e);
            tokio::time::sleep(worker.backoff(failures)).await;
        }
    }
}
