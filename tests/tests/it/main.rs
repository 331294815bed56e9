//! Integration tests: one binary, a module per feature.

mod api;
mod bad_plans;
mod events;
mod intake;
mod layering;
mod listing;
mod plans;
mod replay;
