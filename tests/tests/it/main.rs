//! Integration tests: one binary, a module per feature.

mod docs;
mod layering;
mod lifecycle;
mod own_executor;
mod plans;
mod schemas;
