//! What `goalmill dev` and the tests run without any other service: the demo agents and a scripted model server.

pub mod agents;
pub mod scripted;
pub mod story;
