//! Shared vocabulary of scheduler, workers and clients.
//!
//! No I/O and no async runtime here: words (ids, goals, plans, steps, statuses), messages (submissions, tasks,
//! reports, events), Redis keys, and the small pure functions on which both sides must agree.

#![warn(missing_docs)]

pub mod access;
pub mod agent;
pub mod backoff;
pub mod blob_ref;
pub mod budget;
pub mod call;
pub mod callback;
pub mod card;
pub mod clock;
pub mod command;
pub mod commit;
pub mod config;
pub mod constraint;
pub mod criterion;
pub mod document_format;
pub mod error_body;
pub mod event;
pub mod external_event;
pub mod failure;
pub mod fingerprint;
pub mod goal;
pub mod goal_context;
pub mod hash;
pub mod id;
pub mod json;
pub mod json_comments;
pub mod json_limits;
pub mod keys;
pub mod layout;
pub mod limits;
pub mod metric;
pub mod number;
pub mod park_mark;
pub mod plan;
pub mod planning;
pub mod problem;
pub mod quality;
pub mod random;
pub mod redaction;
pub mod replan_situation;
pub mod report;
pub mod retry_after;
pub mod revision;
pub mod revision_strategy;
pub mod schema;
pub mod shard_load;
pub mod sse;
pub mod status;
pub mod stored_plan;
pub mod suggest;
pub mod supervisor;
pub mod task;
pub mod telemetry;
pub mod text;
pub mod time_zone;
pub mod trace;
pub mod view;
pub mod wire;
mod word_enum;
