//! A document becomes a valid plan: tolerant reading, validation, output schemas. No I/O, no clock.
//!
//! ```text
//! JSON or YAML ─▶ draft (parsed, bounded) ─▶ ValidPlan (or every issue) ─▶ RoutedPlan
//! ```

pub mod document;
pub mod foreign;
pub mod schema;
pub mod states;
pub mod stored_plans;
pub mod validate;
