//! A process as the network sees it: it can be suspended, disconnected for ever, and lose its connections.

use std::sync::Mutex;

use tokio::time::{Duration, Instant, sleep_until};

/// One scheduler, worker or client.
pub struct Process {
    pub name: String,
    gate: Mutex<Gate>,
}

#[derive(Default)]
struct Gate {
    /// Killed: whatever it asks is never answered.
    cut: bool,
    paused_until: Option<Instant>,
    /// The last turn back of the server that it has noticed.
    epoch: u64,
    /// The installation that it has opened.
    installation: Option<String>,
}

impl Process {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), gate: Mutex::default() }
    }

    pub fn kill(&self) {
        self.lock().cut = true;
    }

    pub fn is_killed(&self) -> bool {
        self.lock().cut
    }

    pub fn pause(&self, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        let mut gate = self.lock();
        gate.paused_until = gate.paused_until.max(Some(until));
    }

    pub fn resume(&self) {
        self.lock().paused_until = None;
    }

    /// Waits as long as the process stands still: for ever when it is dead.
    pub async fn pass(&self) {
        loop {
            let wait = {
                let gate = self.lock();
                if gate.cut {
                    None
                } else {
                    match gate.paused_until.filter(|until| *until > Instant::now()) {
                        Some(until) => Some(until),
                        None => return,
                    }
                }
            };
            match wait {
                // In steps, since a pause may be ended early.
                Some(until) => sleep_until(until.min(Instant::now() + Duration::from_millis(250))).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Whether the connection for single calls is older than the server's last turn back; it is a new one then.
    pub fn notices(&self, epoch: u64) -> bool {
        let mut gate = self.lock();
        std::mem::replace(&mut gate.epoch, epoch) != epoch
    }

    /// Notes the installation that it has opened.
    pub fn opened(&self, instance: &str) {
        self.lock().installation = Some(instance.to_owned());
    }

    /// Whether it has opened another installation than the one that answers, if one does.
    pub fn misses_installation(&self, instance: Option<&str>) -> bool {
        self.lock().installation.as_deref().is_some_and(|known| instance != Some(known))
    }

    pub fn begin_at(&self, epoch: u64) {
        self.lock().epoch = epoch;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.gate.lock().expect("nobody panics with it")
    }
}
