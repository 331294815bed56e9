//! Errors of the broker that a caller can act on.

use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::text::shorten;

use crate::RedisRefusal;

/// Characters of what a server says, at most.
const TEXT_CHARS_MAX: usize = 400;
/// Reasons besides those of [`RedisRefusal`].
const OTHER_REASONS: [&str; 5] = ["memory", "data_lost", "unsafe", "unsupported", "wrong_type"];

/// Why a verb failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// The connection failed or a reply was lost: the verb may or may not have happened.
    #[error("redis cannot be reached: {0}")]
    Unavailable(String),
    /// The server answers and refuses. The verb has not happened; only a commit may have, if no replica confirms it.
    #[error("redis refuses: {text}; {}", reason.advice())]
    Refused { reason: RedisRefusal, text: String },
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

impl BrokerError {
    /// An error that the server answered, with its code and its text.
    pub(crate) fn refused(code: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        let text = if text.contains(code) { text } else { format!("{code} {text}") };
        Self::Refused { reason: RedisRefusal::of_code(code), text: shorten(&text, TEXT_CHARS_MAX).into_owned() }
    }

    /// The same error of one of several servers.
    pub(crate) fn of_server(self, server: &str) -> Self {
        match self {
            Self::Unavailable(text) => Self::Unavailable(format!("{server}: {text}")),
            Self::Refused { reason, text } => Self::Refused { reason, text: format!("{server}: {text}") },
            Self::OutOfMemory
            | Self::DataLost(_)
            | Self::Unsafe(_)
            | Self::Unsupported(_)
            | Self::InvalidAddress(_)
            | Self::WrongType(_)
            | Self::Corrupt(_)
            | Self::Archive(_) => self,
        }
    }

    /// Whether the same call may succeed later, when the server answers or has what it lacks.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Refused { .. })
    }

    /// Whether the server answered.
    pub fn is_answer(&self) -> bool {
        !matches!(self, Self::Unavailable(_) | Self::InvalidAddress(_) | Self::Archive(_))
    }

    /// All that [`Self::reason`] may be.
    pub fn reasons() -> impl Iterator<Item = &'static str> {
        RedisRefusal::ALL.into_iter().map(RedisRefusal::as_str).chain(OTHER_REASONS)
    }

    /// What the server lacks or holds, as the label of metrics; `None` when it did not answer.
    pub fn reason(&self) -> Option<&'static str> {
        let [memory, data_lost, not_safe, unsupported, wrong_type] = OTHER_REASONS;
        match self {
            Self::Refused { reason, .. } => Some(reason.as_str()),
            Self::OutOfMemory => Some(memory),
            Self::DataLost(_) => Some(data_lost),
            Self::Unsafe(_) => Some(not_safe),
            Self::Unsupported(_) => Some(unsupported),
            Self::WrongType(_) | Self::Corrupt(_) => Some(wrong_type),
            Self::Unavailable(_) | Self::InvalidAddress(_) | Self::Archive(_) => None,
        }
    }
}

impl From<&BrokerError> for Problem {
    fn from(error: &BrokerError) -> Self {
        use BrokerError as E;
        let code = match error {
            E::Unavailable(_) | E::Archive(_) => ErrorCode::StoreUnavailable,
            E::Refused { .. } | E::WrongType(_) => ErrorCode::StoreRefused,
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
        format!(
            "`{key}` is a {found} instead of a {wanted}: give the program that wrote it other keys, \
             then rename this key, and Goalmill makes its own again"
        )
    }
}

fn listed(type_mismatches: &[KeyTypeMismatch]) -> String {
    type_mismatches.iter().map(KeyTypeMismatch::text).collect::<Vec<_>>().join("; ")
}
