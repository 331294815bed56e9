//! The simulation: real schedulers and workers in virtual time, with everything that can go wrong, from one seed.
//!
//! `GOALMILL_SIM_SEED=42` runs one seed, `GOALMILL_SIM_SEEDS=10000` so many; `GOALMILL_SIM_TRACE=1` prints what
//! happens. See `docs/simulation.md`.

#![expect(clippy::disallowed_methods, reason = "a world has a runtime of its own, and its tasks end with it")]

mod auditor;
mod bugs;
mod cluster;
mod environment;
mod executors;
mod faults;
mod injected_bugs;
mod laws;
mod link;
mod nemesis;
mod panics;
mod plans;
mod process;
mod reader;
mod regressions;
mod rng;
mod rogue;
mod run;
mod scripted_agents;
mod seeds;
mod suspension;
mod trace;
mod users;
