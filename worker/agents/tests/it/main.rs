//! Agents against scripted models.

mod agent;
mod injection;
mod mcp;
mod people;
mod programs;
mod sql;
mod world;
