//! Watches the background loops of a role: a process whose loop has ended works no more, and must end too.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
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
}

impl Supervisor {
    /// Runs a loop. It fails the role if it panics, or if it returns before it may.
    ///
    /// - `name`: of the loop, for the reason.
    /// - `may_end`: whether the loop may return; it is asked after the return.
    pub async fn watch(self, name: &str, may_end: impl Fn() -> bool, run: impl Future<Output = ()>) {
        let mut run = pin!(run);
        let ended = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        match ended.await {
            Err(panic) => self.fail(&panicked(name, panic.as_ref())),
            Ok(()) if may_end() => {}
            Ok(()) => self.fail(&format!("loop `{name}` ended before it was stopped")),
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
    fn run(future: impl Future<Output = ()>) {
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
