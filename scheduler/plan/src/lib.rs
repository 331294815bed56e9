//! A document becomes a valid plan: tolerant reading, validation, expressions, output schemas. No I/O, no clock.
//!
//! ```text
//! JSON or YAML ─▶ draft (parsed, bounded) ─▶ ValidPlan (or every issue at once) ─▶ RoutedPlan
//! ```

pub mod draft;
pub mod expression;
pub mod formats;
pub mod schema;
pub mod states;
pub mod suggest;
pub mod validate;
