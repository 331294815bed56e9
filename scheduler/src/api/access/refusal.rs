//! Why a caller is refused.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use goalmill_broker::BrokerError;
use goalmill_common::problem::{ErrorCode, Problem};

use crate::api::response::ApiError;

/// Why a caller is refused.
#[derive(Debug)]
pub(in crate::api) enum AccessRefusal {
    Problem(Problem),
    TooManyFailures { wait_ms: u64 },
}

impl AccessRefusal {
    pub(super) fn unauthenticated(detail: &str) -> Self {
        Self::Problem(Problem::new(ErrorCode::Unauthenticated, detail))
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::Problem(Problem::new(ErrorCode::Forbidden, detail))
    }
}

impl From<ApiError> for AccessRefusal {
    fn from(ApiError(problem): ApiError) -> Self {
        Self::Problem(problem)
    }
}

impl From<BrokerError> for AccessRefusal {
    fn from(error: BrokerError) -> Self {
        Self::Problem(error.into())
    }
}

impl IntoResponse for AccessRefusal {
    fn into_response(self) -> Response {
        let wait_ms = match self {
            Self::Problem(problem) => return ApiError(problem).into_response(),
            Self::TooManyFailures { wait_ms } => wait_ms,
        };
        let seconds = wait_ms.div_ceil(1_000).max(1);
        let detail = format!("too many requests from this address had invalid credentials; wait {seconds} s");
        let mut response = ApiError(Problem::new(ErrorCode::TooManyFailures, detail)).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        response
    }
}
