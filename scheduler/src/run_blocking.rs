//! Long computations off the threads that serve everybody.

/// Texts up to this many bytes are dealt with in place: about a millisecond's work.
const SMALL_BYTES: usize = 32 << 10;

/// Does `work` on `bytes` bytes of text: in place when it is short, else on a thread for such things.
pub(crate) async fn run_blocking_if_large<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= SMALL_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
