//! The connection to the program: reads and writes frames, and gives those of a task to its execution.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use goalmill_common::json::Json;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::FRAME_BYTES_MAX;
use crate::frames::{FromProgram, NoContent, ToProgram, UnreadableFrame, WorkerReady};

/// Frames of one task that wait for its execution.
const TASK_FRAMES_MAX: usize = 64;
/// Frames in one write.
const BATCH_MAX: usize = 128;
/// How often the executions are counted after the end of the program.
const SETTLE: Duration = Duration::from_millis(5);
/// How often the program is looked after.
const WATCH: Duration = Duration::from_secs(1);
/// How long a program may run stopped tasks in all its slots.
const STUCK_MAX: Duration = Duration::from_mins(1);

/// The lines of a program.
pub(crate) type Lines<R> = FramedRead<R, LinesCodec>;

/// A connection that its users share.
#[derive(Clone)]
pub struct ProgramLink {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    state: Arc<LinkState>,
    /// Fires at the end of the program.
    pub(crate) ended: CancellationToken,
}

#[derive(Default)]
struct LinkState {
    last: AtomicU64,
    /// Executions of tasks of the program.
    running: AtomicUsize,
    tasks: Mutex<Tasks>,
    drains: Notify,
    /// Tests of plans that have not begun.
    runs: Mutex<VecDeque<Json>>,
    run_came: Notify,
    /// Why the bridge has ended, unless the program has.
    failure: OnceLock<String>,
}

#[derive(Default)]
struct Tasks {
    open: HashMap<u64, mpsc::Sender<FromProgram>>,
    /// Tasks that are over for the worker and still run in the program, since when.
    stopped: HashMap<u64, Instant>,
}

/// The next frame; `None` at the end of the stream. Frames of unknown kinds are passed over.
pub(crate) async fn next_frame<R: AsyncRead + Unpin>(lines: &mut Lines<R>) -> Option<Result<FromProgram, String>> {
    loop {
        let line = match lines.next().await? {
            Ok(line) => line,
            Err(error) => return Some(Err(format!("a frame cannot be read: {error}"))),
        };
        let error = match serde_json::from_str(&line) {
            Ok(frame) => return Some(Ok(frame)),
            Err(error) => error,
        };
        let fields: Map<String, Value> = serde_json::from_str(&line).unwrap_or_default();
        let is_known = |kind: &String| FromProgram::KINDS.contains(&kind.as_str());
        match fields.iter().next() {
            Some((kind, _)) if fields.len() == 1 && !is_known(kind) => {}
            found => {
                let reason = format!("a frame cannot be read: {error}");
                let task = found.and_then(|(_, content)| content.get("task")?.as_u64());
                return Some(match task {
                    Some(task) => Ok(FromProgram::Unreadable(UnreadableFrame { task, reason })),
                    None => Err(reason),
                });
            }
        }
    }
}

impl ProgramLink {
    /// Reads and writes frames until the end of either stream.
    pub(crate) fn start<R: AsyncRead + Send + Unpin + 'static>(
        lines: Lines<R>,
        output: impl AsyncWrite + Send + Unpin + 'static,
        slots: u32,
    ) -> Self {
        let (frames, outgoing) = mpsc::unbounded_channel();
        let link = Self { frames, state: Arc::default(), ended: CancellationToken::new() };
        // The end of one is the end of all.
        let loops = TaskTracker::new();
        loops.spawn(read_frames(link.state.clone(), link.ended.clone(), lines));
        loops.spawn(write_frames(outgoing, link.ended.clone(), output));
        loops.spawn(watch(link.state.clone(), link.ended.clone(), slots));
        link
    }

    /// Tells the program that the worker runs.
    ///
    /// - `worker`: its id.
    pub fn send_ready(&self, worker: &str, nesting_max: usize) {
        self.send(&ToProgram::Ready(WorkerReady { worker, frame_bytes_max: FRAME_BYTES_MAX, nesting_max }));
    }

    /// Tells the program that the worker reads no new tasks.
    pub fn send_draining(&self) {
        self.send(&ToProgram::Draining(NoContent {}));
    }

    /// Ends the bridge: the program is gone.
    pub fn end(&self) {
        self.ended.cancel();
    }

    /// Waits until the program has ended, and the executions of its tasks have seen it.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
        while self.state.running.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// Why the bridge has ended by itself: a frame that cannot be read, or a program that is stuck.
    pub fn failure(&self) -> Option<&str> {
        self.state.failure.get().map(String::as_str)
    }

    /// Waits until the program asks for a drain.
    pub async fn drain_asked(&self) {
        self.state.drains.notified().await;
    }

    /// Waits for the next test of a plan; `None` after the end of the program.
    pub async fn next_run(&self) -> Option<Json> {
        loop {
            let next = self.state.runs().pop_front();
            if next.is_some() {
                return next;
            }
            tokio::select! {
                () = self.state.run_came.notified() => {}
                () = self.ended.cancelled() => return None,
            }
        }
    }

    /// Sends a frame: a [`ToProgram`], or the answer to a test of a plan.
    pub fn send(&self, frame: &impl Serialize) {
        let mut line = serde_json::to_vec(frame).expect("a frame always has a JSON form");
        // Payloads are carried as they came, perhaps over several lines. Between the texts of JSON a break is a space.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.push(b'\n');
        // The channel has no reader after the end of the program.
        drop(self.frames.send(line));
    }

    /// Begins a task; `None` after the end of the program.
    pub(crate) fn open(&self) -> Option<OpenTask> {
        let number = self.state.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.state.running.fetch_add(1, Ordering::SeqCst);
        let (sender, frames) = mpsc::channel(TASK_FRAMES_MAX);
        self.state.tasks().open.insert(number, sender);
        let task = OpenTask { number, frames, link: self.clone() };
        (!self.ended.is_cancelled()).then_some(task)
    }
}

impl LinkState {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<Json>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a frame to the execution of its task. One that has ended needs none.
    async fn deliver(&self, frame: FromProgram) {
        let task = match &frame {
            FromProgram::Call(call) => call.task,
            FromProgram::Made(call) => call.task,
            FromProgram::Abandoned(call) => call.task,
            FromProgram::Wait(call) => call.task,
            FromProgram::Reserve(call) => call.task,
            FromProgram::Progress(progress) => progress.task,
            FromProgram::Ended(ended) => ended.task,
            FromProgram::Drain(_) => return self.drains.notify_one(),
            FromProgram::Run(test) => {
                self.runs().push_back(test.clone());
                return self.run_came.notify_one();
            }
            FromProgram::Unreadable(frame) => frame.task,
            FromProgram::Hello(_) => return,
        };
        let is_end = matches!(frame, FromProgram::Ended(_));
        let sender = {
            let mut tasks = self.tasks();
            if is_end {
                tasks.stopped.remove(&task);
                tasks.open.remove(&task)
            } else {
                tasks.open.get(&task).cloned()
            }
        };
        if let Some(sender) = sender {
            drop(sender.send(frame).await);
        }
    }

    /// Whether stopped tasks have all slots of the program.
    fn is_stuck(&self, slots: u32) -> bool {
        let tasks = self.tasks();
        let stuck = tasks.stopped.values().filter(|since| since.elapsed() > STUCK_MAX).count();
        stuck >= usize::try_from(slots).unwrap_or(usize::MAX)
    }
}

/// A task that the program runs.
pub(crate) struct OpenTask {
    pub number: u64,
    /// The frames of the task; they end with the program.
    pub frames: mpsc::Receiver<FromProgram>,
    pub link: ProgramLink,
}

impl Drop for OpenTask {
    fn drop(&mut self) {
        self.link.state.running.fetch_sub(1, Ordering::SeqCst);
        let mut tasks = self.link.state.tasks();
        if tasks.open.remove(&self.number).is_some() {
            tasks.stopped.insert(self.number, Instant::now());
        }
    }
}

async fn read_frames<R: AsyncRead + Unpin>(state: Arc<LinkState>, ended: CancellationToken, mut lines: Lines<R>) {
    let _end = ended.clone().drop_guard();
    loop {
        let frame = tokio::select! {
            frame = next_frame(&mut lines) => frame,
            () = ended.cancelled() => None,
        };
        match frame {
            Some(Ok(frame)) => state.deliver(frame).await,
            Some(Err(error)) => {
                state.failure.get_or_init(|| error);
                break;
            }
            None => break,
        }
    }
    ended.cancel();
    // The executions see the end of their frames.
    state.tasks().open.clear();
}

async fn write_frames(
    mut outgoing: mpsc::UnboundedReceiver<Vec<u8>>,
    ended: CancellationToken,
    mut output: impl AsyncWrite + Unpin,
) {
    let _end = ended.clone().drop_guard();
    let mut batch = Vec::with_capacity(BATCH_MAX);
    loop {
        batch.clear();
        let count = tokio::select! {
            biased;
            count = outgoing.recv_many(&mut batch, BATCH_MAX) => count,
            () = ended.cancelled() => return,
        };
        if count == 0 {
            return;
        }
        let bytes = batch.concat();
        let written = async {
            output.write_all(&bytes).await?;
            output.flush().await
        };
        let written = tokio::select! {
            written = written => written,
            () = ended.cancelled() => return,
        };
        if let Err(error) = written {
            tracing::debug!("the program does not read: {error}");
            return;
        }
    }
}

/// Ends the bridge if the program does not end what it was asked to stop.
async fn watch(state: Arc<LinkState>, ended: CancellationToken, slots: u32) {
    let _end = ended.clone().drop_guard();
    let mut ticks = tokio::time::interval(WATCH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = ended.cancelled() => return,
        }
        if state.is_stuck(slots) {
            let seconds = STUCK_MAX.as_secs();
            let reason = || format!("all {slots} slots of the program run stopped tasks for more than {seconds} s");
            state.failure.get_or_init(reason);
            return;
        }
    }
}
