//! Errors of the archive that a caller can act on.

use goalmill_common::config::FeatureMissing;

/// Why the archive cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The database does not answer, or a statement failed. Nothing was written.
    #[error("the archive cannot be reached: {0}")]
    Unavailable(String),
    /// The schema of the database is not one of this version.
    #[error("{0}")]
    Schema(String),
    /// A row holds something that this version cannot read.
    #[error("the archive holds something unexpected: {0}")]
    Corrupt(String),
    /// The settings name a store that is not built in.
    #[error(transparent)]
    NotBuiltIn(#[from] FeatureMissing),
}
