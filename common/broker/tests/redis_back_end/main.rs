//! The Redis back end on a server of its own: what no other back end can do wrong.

mod commits;
mod installation;
mod lines;
mod seed;
mod server;
mod tasks;
