//! Agents against scripted models.

mod acts;
mod agent;
mod budgets;
mod injection;
mod mcp;
mod people;
mod plans;
mod programs;
mod sql;
mod world;
