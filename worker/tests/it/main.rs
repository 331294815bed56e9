//! The worker as its neighbours see it.

mod faulty;
mod world;

mod calls;
mod command;
mod demo;
mod drain;
mod http;
mod lease;
mod life;
mod payload;
mod protocol;
mod start;
