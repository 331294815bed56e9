//! Runs long computations on blocking threads.

/// Texts up to this size are processed in place, in about a millisecond; bytes.
const SMALL_BYTES: usize = 32 << 10;

/// Runs `work` on `bytes` bytes of text: in place if they are few, else on a blocking thread.
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
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
}
