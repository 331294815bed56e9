//! Integration tests: one binary, a module per feature.

mod api;
mod bad_plans;
mod choice;
mod dependencies;
mod docs;
mod evaluation;
mod events;
mod guard;
mod intake;
mod layering;
mod lifecycle;
mod listing;
mod models;
mod openapi;
mod operating;
mod outcomes;
mod own_executor;
mod parts;
mod people;
mod plans;
mod replay;
mod revisions;
mod schemas;
mod story;
mod streaming;
mod wrong_keys;
