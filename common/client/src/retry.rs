//! Repeats requests that may be repeated, while a scheduler is away or not ready: a shard changes its owner within seconds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use goalmill_common::problem::ErrorCode;
use goalmill_common::random::Random;
use reqwest::{Method, Request, StatusCode};
use tokio::time::{Instant, sleep};

use crate::ClientError;

/// How long a request is repeated unless another time is set.
pub const RETRY_FOR: Duration = Duration::from_secs(10);
/// Wait before the first repetition; it doubles.
const WAIT: Duration = Duration::from_millis(100);
/// The longest wait that the server did not ask for.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Waits that are shorter in sum are not worth a notice.
const NOTICE_AFTER: Duration = Duration::from_millis(500);

/// Tells a person why a request takes long.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// How long requests are repeated, and who gets a notice.
#[derive(Clone, Default)]
pub(crate) struct RequestRetry {
    pub(crate) limit: Duration,
    pub(crate) notice: Option<Notice>,
}

impl fmt::Debug for RequestRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestRetry").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The repetitions of one request.
pub(crate) struct Repetitions<'a> {
    retry: &'a RequestRetry,
    /// Whether the request may be sent twice.
    may_repeat: bool,
    begun: Instant,
    /// The next wait that the server does not ask for.
    wait: Duration,
    is_notified: bool,
}

impl RequestRetry {
    /// Begins to send a request.
    pub(crate) fn begin(&self, request: &Request) -> Repetitions<'_> {
        let may_repeat = is_idempotent(request);
        Repetitions { retry: self, may_repeat, begun: Instant::now(), wait: WAIT, is_notified: false }
    }
}

impl Repetitions<'_> {
    /// Waits until the request is to be sent again; gives the error back if it is not, or if the time is over.
    pub(crate) async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        let Some(asked) = asked_wait(&error).filter(|_| self.may_repeat) else { return Err(error) };
        let jitter = Random::system().below(u64::try_from(self.wait.as_millis()).unwrap_or(0) / 2);
        let wait = asked.max(self.wait / 2 + Duration::from_millis(jitter));
        let waited = self.begun.elapsed() + wait;
        if waited > self.retry.limit {
            return Err(error);
        }
        if !self.is_notified && waited >= NOTICE_AFTER {
            self.is_notified = true;
            self.notify(&error);
        }
        sleep(wait).await;
        self.wait = (2 * self.wait).min(WAIT_MAX);
        Ok(())
    }

    fn notify(&self, error: &ClientError) {
        if let Some(notice) = &self.retry.notice {
            notice(&format!("{error}; trying again for up to {} s", self.retry.limit.as_secs()));
        }
    }
}

/// Whether a request that is sent twice does what it does once: it only reads, or it names its submission.
fn is_idempotent(request: &Request) -> bool {
    request.method() == Method::GET
        || request.headers().contains_key("idempotency-key")
        || request.url().path().ends_with("/v1/plans:validate")
}

/// How long to wait at least before the same request may succeed; `None` if it will not.
fn asked_wait(error: &ClientError) -> Option<Duration> {
    match error {
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => Some(Duration::ZERO),
        ClientError::Problem(problem)
            if matches!(problem.code, ErrorCode::NotReady | ErrorCode::StoreUnavailable | ErrorCode::StoreRefused) =>
        {
            Some(Duration::from_secs(problem.retry_after_s.unwrap_or(0)))
        }
        // What a proxy says of a scheduler that is away.
        ClientError::Status { status, .. } => {
            let is_away = matches!(
                *status,
                StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
            );
            is_away.then_some(Duration::ZERO)
        }
        ClientError::Problem(_)
        | ClientError::InvalidAddress { .. }
        | ClientError::InvalidNamespace(_)
        | ClientError::InvalidToken
        | ClientError::InvalidCaFile { .. }
        | ClientError::UntrustedCertificate { .. }
        | ClientError::NoCertificates { .. }
        | ClientError::InvalidAnswer { .. }
        | ClientError::InvalidEvent { .. }
        | ClientError::InvalidSelector(_)
        | ClientError::AmbiguousSelector { .. }
        | ClientError::UnknownPlan(_)
        | ClientError::NoPlans
        | ClientError::NoFailedPlan => None,
    }
}
