//! The harness of all tests that need more than one package: a private Redis, processes, a network that fails.

pub mod audit;
pub mod cluster;
pub mod collector;
pub mod dev;
pub mod installation;
pub mod model_server;
pub mod process;
pub mod proxy;
pub mod redis_server;
pub mod sentinel;
pub mod wait;
pub mod workload;
