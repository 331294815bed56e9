//! Agents against scripted models.

mod agent;
mod injection;
mod programs;
mod sql;
mod world;
