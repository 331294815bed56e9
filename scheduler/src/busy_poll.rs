//! Busy polling: waits that poll for a short time before the thread sleeps.
//!
//! Waking a sleeping thread takes 30 to 50 µs on a virtual machine, longer than most turns of a shard, and a chain of
//! steps waits for it twice per step.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

/// How long to poll: the setting, or zero on a single core, which the awaited work needs.
pub(crate) fn duration(spin_us: u64) -> Duration {
    let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    if alone { Duration::ZERO } else { Duration::from_micros(spin_us) }
}

/// Waits for `awaited` and polls it continuously up to `until`. Yields to other tasks and processes between polls.
pub(crate) async fn busy_poll<F: Future>(until: Instant, awaited: F) -> F::Output {
    let mut awaited = pin!(awaited);
    while Instant::now() < until {
        if let Poll::Ready(output) = futures_util::poll!(&mut awaited) {
            return output;
        }
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    awaited.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_have_their_turn_while_it_asks() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut others = tokio::task::JoinSet::new();
        others.spawn(async move { sender.send(7).expect("it is waited for") });
        let far = Instant::now() + Duration::from_hours(1);
        assert_eq!(busy_poll(far, receiver).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn it_sleeps_once_its_time_is_over() {
        // The paused clock moves only while everything sleeps.
        let begun = Instant::now();
        busy_poll(begun, tokio::time::sleep(Duration::from_secs(1))).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }
}
