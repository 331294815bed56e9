//! Integration tests: one binary, a module per feature.

mod docs;
mod layering;
mod lifecycle;
mod plans;
mod schemas;
