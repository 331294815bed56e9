//! A back end that fails, as clients see it.

use goalmill_broker::BrokerError;
use goalmill_common::problem::{ErrorCode, Problem};

/// A failure of the broker as clients see it.
pub(crate) fn problem(error: &BrokerError) -> Problem {
    use BrokerError as E;
    let code = match error {
        E::Unavailable(_) | E::WrongType(_) => ErrorCode::StoreUnavailable,
        E::OutOfMemory => ErrorCode::MemoryPressure,
        E::DataLost(_) => ErrorCode::DataLost,
        E::Unsafe(_) | E::Unsupported(_) | E::InvalidAddress(_) => ErrorCode::UnsafeStore,
        E::Corrupt(_) => ErrorCode::Internal,
    };
    Problem::new(code, error.to_string())
}
