//! Demo agents and a scripted model server, for `goalmill dev` and the tests.

pub mod agents;
pub mod scripted;
pub mod story;
