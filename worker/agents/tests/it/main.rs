//! Agents against scripted models.

mod agent;
mod injection;
mod world;
