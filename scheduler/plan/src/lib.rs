//! A document becomes a valid plan: tolerant reading, validation, expressions, output schemas. No I/O, no clock.
//!
//! ```text
//! JSON or YAML ─▶ draft (read, bounded) ─▶ validate (every issue at once) ─▶ Plan
//! ```

pub mod draft;
pub mod expression;
pub mod suggest;
pub mod schema;
pub mod validate;
