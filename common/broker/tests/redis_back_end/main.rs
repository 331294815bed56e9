//! The Redis back end on a server of its own: what no other back end can do wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "each wait that is begun keeps its handle, and is awaited")]

mod commits;
mod installation;
mod lines;
mod refusals;
mod seed;
mod sentinel;
mod server;
mod tasks;
