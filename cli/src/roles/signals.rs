//! SIGTERM and SIGINT; SIGHUP while a certificate can be reloaded.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// Waits for either signal, as often as it comes.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Installs the handlers; the signals no longer end the process.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// The next signal; until then SIGHUP notifies `reload` and does not end the process.
    pub async fn next_reloading(&mut self, reload: &Notify) -> std::io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                () = self.next() => return Ok(()),
                _ = hangup.recv() => reload.notify_one(),
            }
        }
    }
}
