//! Stores of finished plans: one interface, [`ArchiveStore`], over SQLite in a file and over PostgreSQL.
//!
//! A store holds whole plans: a plan is archived when its row in `plans` is written. The transaction that writes the
//! last events of the plan also writes this row.

mod conditions;
mod digest;
mod error;
mod migrations;
#[cfg_attr(not(feature = "postgres"), path = "postgres_disabled.rs")]
mod postgres;
mod rows;
mod sqlite;
mod store;
mod words;

pub use conditions::DataConditions;
pub use error::ArchiveError;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresArchive, PostgresLimits};
pub use rows::{
    ArchiveBatch, ArchivedEvent, ArchivedPlan, BlobRow, EventPosition, EventRow, EventSearch, PlanPart, PlanPosition,
    PlanRow, PlanSelection, PrunedRows, RevisionRow, StepRow,
};
pub use sqlite::SqliteArchive;
pub use store::{ArchiveStore, open};
pub use words::{WORDS_MAX, event_words, query_words};
