//! Agents against scripted models.

mod agent;
mod injection;
mod mcp;
mod programs;
mod sql;
mod world;
