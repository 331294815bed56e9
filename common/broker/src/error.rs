//! What a caller of the broker can act on.

use goalmill_common::problem::{ErrorCode, Problem};

/// Why a verb failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// The connection failed or a reply was lost: the verb may or may not have happened.
    #[error("redis cannot be reached: {0}")]
    Unavailable(String),
    /// `maxmemory` is reached; nothing was written.
    #[error("redis is out of memory")]
    OutOfMemory,
    /// Another installation, or none, answers at this address.
    #[error("redis holds other data than before: {0}")]
    DataLost(String),
    /// The server's settings can lose data.
    #[error("redis is set up in a way that can lose data: {0}")]
    Unsafe(String),
    /// The server lacks what is needed, or is of a kind that cannot be used.
    #[error("this redis cannot be used: {0}")]
    Unsupported(String),
    /// `redis.url` is no address.
    #[error("`redis.url` is not valid: {0}")]
    InvalidAddress(String),
    /// Keys are of another type than they should be; nothing was written.
    #[error("redis holds keys of a wrong type: {}", listed(.0))]
    WrongType(Vec<KeyTypeMismatch>),
    /// A key holds something else than it should; nothing was written.
    #[error("redis holds something unexpected: {0}")]
    Corrupt(String),
    /// The plan is not in the store; the archive, which may have it, cannot be read.
    #[error("{0}")]
    Archive(String),
}

impl From<&BrokerError> for Problem {
    fn from(error: &BrokerError) -> Self {
        use BrokerError as E;
        let code = match error {
            E::Unavailable(_) | E::WrongType(_) | E::Archive(_) => ErrorCode::StoreUnavailable,
            E::OutOfMemory => ErrorCode::MemoryPressure,
            E::DataLost(_) => ErrorCode::DataLost,
            E::Unsafe(_) | E::Unsupported(_) | E::InvalidAddress(_) => ErrorCode::UnsafeStore,
            E::Corrupt(_) => ErrorCode::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<BrokerError> for Problem {
    fn from(error: BrokerError) -> Self {
        Self::from(&error)
    }
}

/// A key of another type than it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTypeMismatch {
    pub key: String,
    /// What it is, as `TYPE` says it; `full` for a stream whose last id is the highest there can be.
    pub found: String,
    /// What it should be.
    pub wanted: String,
}

impl KeyTypeMismatch {
    /// What is wrong, and the fix.
    pub fn text(&self) -> String {
        let Self { key, found, wanted } = self;
        format!("`{key}` is a {found} instead of a {wanted}: rename or delete it, Goalmill makes its own again")
    }
}

fn listed(type_mismatches: &[KeyTypeMismatch]) -> String {
    type_mismatches.iter().map(KeyTypeMismatch::text).collect::<Vec<_>>().join("; ")
}
