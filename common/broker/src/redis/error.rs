//! Converts errors of Redis and of connections into errors of the broker.

use redis::{ErrorKind, RedisError};

use crate::BrokerError;

/// Sorts an error by what the caller can do about it. Its text never holds the address or a password.
pub(super) fn to_broker_error(error: RedisError) -> BrokerError {
    let text = error.to_string();
    if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) {
        answered(&code(&error), text)
    } else if error.kind() == ErrorKind::AuthenticationFailed {
        BrokerError::refused("WRONGPASS", text)
    } else if error.kind() == ErrorKind::UnexpectedReturnType {
        BrokerError::Corrupt(text)
    } else {
        BrokerError::Unavailable(text)
    }
}

/// The code of an answer; that of the first refusal when several commands were sent in one go.
fn code(error: &RedisError) -> String {
    let first = || error.clone().into_server_errors()?.first().map(|(_, refusal)| refusal.code().to_owned());
    error.code().map(str::to_owned).or_else(first).unwrap_or_else(|| "ERR".into())
}

/// Sorts what the server answered.
fn answered(code: &str, text: String) -> BrokerError {
    match code {
        "OOM" => BrokerError::OutOfMemory,
        "WRONGTYPE" => BrokerError::Corrupt(text),
        "ERR" if text.contains("unknown command") => {
            BrokerError::Unsupported(format!("the server lacks a command that Redis 7.0 has: {text}"))
        }
        // What a function may not do is answered without the code NOPERM.
        "ERR" if text.contains("The user executing the script") => BrokerError::refused("NOPERM", text),
        // A call with many arguments is refused before the password is asked for.
        "ERR" if text.contains("unauthenticated") => BrokerError::refused("NOAUTH", text),
        "ERR" => BrokerError::Corrupt(text),
        // LOADING, NOREPLICAS, BUSY, READONLY, MISCONF, CLUSTERDOWN, TRYAGAIN, MASTERDOWN, NOAUTH, NOPERM, UNBLOCKED and the like.
        _ => BrokerError::refused(code, text),
    }
}

/// Whether the server has no such function: it was not run and may be called again once it is loaded.
pub(super) fn is_unknown_function(error: &RedisError) -> bool {
    error.to_string().contains("Function not found")
}

/// Whether a stream or its group is missing.
pub(super) fn is_no_group(error: &RedisError) -> bool {
    error.code() == Some("NOGROUP")
}

/// Whether the stream went away under a waiting reader.
pub(super) fn is_unblocked(error: &RedisError) -> bool {
    error.code() == Some("UNBLOCKED")
}

/// Whether the server itself answered, so that the line is sound.
pub(super) fn is_answer(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::UnexpectedReturnType)
        && error.code() != Some("READONLY")
}
