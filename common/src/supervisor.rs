//! Watches the background loops of a role: a process whose loop has ended works no more, and must end too.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The loops of one scheduler or worker. All clones watch for the same role.
#[derive(Clone, Debug, Default)]
pub struct Supervisor(Arc<Mutex<Supervision>>);

#[derive(Debug, Default)]
struct Supervision {
    /// Why the first loop ended.
    failure: Option<String>,
    /// Those that wait for a failure.
    waiting: Vec<Waker>,
    /// The loops that run.
    loops: BTreeMap<u64, WatchedLoop>,
    /// The key of the next loop.
    next: u64,
}

/// A loop that runs.
#[derive(Debug)]
struct WatchedLoop {
    name: String,
    is_broken: Arc<AtomicBool>,
    /// Wakes the loop; `None` until it is polled.
    waker: Option<Waker>,
}

/// Removes a loop that ends, or is dropped, from those that run.
struct LoopEntry {
    supervisor: Supervisor,
    key: u64,
}

impl Drop for LoopEntry {
    fn drop(&mut self) {
        self.supervisor.lock().loops.remove(&self.key);
    }
}

impl Supervisor {
    /// Runs a loop; returns what it returns, or `None` if it panicked. It fails the role if it panics, or if it returns
    /// before it may.
    ///
    /// - `name`: of the loop, for the reason.
    /// - `may_end`: whether the loop may return; it is asked after the return.
    pub async fn watch<T>(
        self,
        name: impl Into<String>,
        may_end: impl Fn() -> bool,
        run: impl Future<Output = T>,
    ) -> Option<T> {
        let name = name.into();
        let is_broken = Arc::new(AtomicBool::new(false));
        let key = self.begin(&name, is_broken.clone());
        let entry = LoopEntry { supervisor: self.clone(), key };
        let mut run = pin!(run);
        let mut is_first = true;
        let ended = poll_fn(|context| {
            if std::mem::take(&mut is_first)
                && let Some(watched) = self.lock().loops.get_mut(&key)
            {
                watched.waker = Some(context.waker().clone());
            }
            let poll = || {
                assert!(!is_broken.load(Ordering::Relaxed), "it was broken on purpose");
                run.as_mut().poll(context)
            };
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(polled) => polled.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        let ended = ended.await;
        drop(entry);
        match ended {
            Err(panic) => {
                self.fail(&panicked(&name, panic.as_ref()));
                None
            }
            Ok(value) => {
                if !may_end() {
                    self.fail(&format!("loop `{name}` ended before it was stopped"));
                }
                Some(value)
            }
        }
    }

    /// Runs a loop that has its own thread. It fails the role if it panics.
    pub fn watch_thread(&self, name: &str, run: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            self.fail(&panicked(name, panic.as_ref()));
        }
    }

    /// Fails the role. Only the first reason counts.
    pub fn fail(&self, reason: &str) {
        let mut supervision = self.lock();
        supervision.failure.get_or_insert_with(|| reason.to_owned());
        supervision.waiting.drain(..).for_each(Waker::wake);
    }

    /// Why the role works no more; `None` while all loops run.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Waits until a loop has ended; returns the reason.
    pub async fn failed(&self) -> String {
        poll_fn(|context| {
            let mut supervision = self.lock();
            match &supervision.failure {
                Some(reason) => Poll::Ready(reason.clone()),
                None => {
                    supervision.waiting.retain(|waker| !waker.will_wake(context.waker()));
                    supervision.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The names of the loops that run.
    pub fn loops(&self) -> BTreeSet<String> {
        self.lock().loops.values().map(|watched| watched.name.clone()).collect()
    }

    /// Makes the loops of this name panic. Tests call it.
    pub fn break_loop(&self, name: &str) {
        for watched in self.lock().loops.values().filter(|watched| watched.name == name) {
            watched.is_broken.store(true, Ordering::Relaxed);
            watched.waker.iter().for_each(Waker::wake_by_ref);
        }
    }

    /// Notes a loop that begins; returns its key.
    fn begin(&self, name: &str, is_broken: Arc<AtomicBool>) -> u64 {
        let mut supervision = self.lock();
        let key = supervision.next;
        supervision.next += 1;
        supervision.loops.insert(key, WatchedLoop { name: name.to_owned(), is_broken, waker: None });
        key
    }

    fn lock(&self) -> MutexGuard<'_, Supervision> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn panicked(name: &str, panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("loop `{name}` panicked: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake};

    use super::*;

    struct Woken(Mutex<bool>);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
    }

    /// Polls a future that does not wait.
    fn run<T>(future: impl Future<Output = T>) {
        assert!(pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn a_loop_that_panics_or_returns_too_early_fails_the_role_and_wakes_those_that_wait() {
        for (may_end, is_panic, expected) in [
            (true, false, None),
            (false, false, Some("loop `pull` ended before it was stopped")),
            (true, true, Some("loop `pull` panicked: 7 is odd")),
        ] {
            let supervisor = Supervisor::default();
            let woken = Arc::new(Woken(Mutex::new(false)));
            let waker = Waker::from(woken.clone());
            let mut context = Context::from_waker(&waker);
            let mut failed = pin!(supervisor.failed());
            assert!(failed.as_mut().poll(&mut context).is_pending());
            run(supervisor.clone().watch("pull", || may_end, async { assert!(!is_panic, "{} is odd", 7) }));
            assert_eq!(supervisor.failure().as_deref(), expected);
            assert_eq!(*woken.0.lock().expect("no one panics with it"), expected.is_some());
            let reason = failed.as_mut().poll(&mut context);
            assert_eq!(reason, expected.map_or(Poll::Pending, |reason| Poll::Ready(reason.to_owned())));
        }
    }

    #[test]
    fn the_first_reason_counts() {
        let supervisor = Supervisor::default();
        supervisor.watch_thread("watchdog", || panic!("first"));
        supervisor.fail("second");
        assert_eq!(supervisor.failure().as_deref(), Some("loop `watchdog` panicked: first"));
    }
}
