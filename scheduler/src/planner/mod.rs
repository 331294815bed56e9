//! How goals become plans.

pub mod rules;
