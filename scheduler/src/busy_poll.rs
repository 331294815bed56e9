//! Waits that keep asking for a moment before the thread sleeps.
//!
//! Waking a thread that sleeps on an idle core takes 30 to 50 µs on a virtual machine, more than most turns of a shard
//! take, and a chain of steps waits for it twice a step. Schedulers of operating systems and runtimes spin for that
//! reason as well.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

/// How long to go on asking: the setting, and not at all where the only core is needed for what is waited for.
pub(crate) fn duration(spin_us: u64) -> Duration {
    let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    if alone { Duration::ZERO } else { Duration::from_micros(spin_us) }
}

/// Waits for `awaited`, asking for it again and again up to `until`. Other tasks and other processes have their turn
/// meanwhile.
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
