//! Integration tests: one binary, a module per feature.

mod layering;
mod plans;
