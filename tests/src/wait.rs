//! Waiting for a condition, with a deadline.

use std::time::Duration;

use tokio::time::Instant;

/// Long enough for anything that happens at all, also on a busy machine.
pub const SOON: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(10);

/// Asks until the answer is yes; panics when it is not within `limit`.
#[track_caller]
pub fn until<F: AsyncFnMut() -> bool>(limit: Duration, condition: F) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let mut condition = condition;
        let held = until_some(limit, async || condition().await.then_some(())).await;
        assert!(held.is_some(), "the condition at {place} did not come true within {limit:?}");
    }
}

/// Asks until there is an answer; `None` when there is none within `limit`.
pub async fn until_some<T, F: AsyncFnMut() -> Option<T>>(limit: Duration, mut question: F) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = question().await {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
