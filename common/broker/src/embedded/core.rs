//! The state behind its lock, and the order of each write: do it, keep it in the journal file, answer.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use goalmill_common::clock::Clock;

use super::journal::Journal;
use super::record::Write;
use super::world::World;
use crate::BrokerError;

pub(super) struct Core {
    state: Mutex<State>,
    clock: Clock,
}

struct State {
    world: World,
    journal: Option<Journal>,
}

impl Core {
    pub(super) fn open(data_dir: Option<&Path>, clock: Clock) -> Result<Self, BrokerError> {
        let (journal, world) = match data_dir {
            Some(dir) => {
                let now = clock.now_ms();
                let (mut journal, mut world) = Journal::open(dir, now)?;
                // The file is locked: no other process can have a lease.
                if world.meta.is_some() {
                    world.end_former_processes();
                    journal.append(now, &Write::EndFormerProcesses)?;
                }
                (Some(journal), world)
            }
            None => (None, World::default()),
        };
        Ok(Self { state: Mutex::new(State { world, journal }), clock })
    }

    /// What needs no journal and cannot fail.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut World, u64) -> T) -> T {
        let (mut state, now) = self.at_this_time();
        look(&mut state.world, now)
    }

    /// A read; fails once a write could not be kept, since what is in memory is then more than what was promised.
    pub(super) fn read<T>(&self, read: impl FnOnce(&mut World, u64) -> T) -> Result<T, BrokerError> {
        let (mut state, now) = self.at_this_time();
        if let Some(journal) = &state.journal {
            journal.check()?;
        }
        Ok(read(&mut state.world, now))
    }

    /// A write, and how to keep it; `None` when it changed nothing.
    pub(super) fn write<'a, T>(
        &self,
        write: impl FnOnce(&mut World, u64) -> T,
        record: impl FnOnce(&T) -> Option<Write<'a>>,
    ) -> Result<T, BrokerError> {
        let (mut state, now) = self.at_this_time();
        let state = &mut *state;
        let Some(journal) = &mut state.journal else { return Ok(write(&mut state.world, now)) };
        journal.check()?;
        let done = write(&mut state.world, now);
        if let Some(record) = record(&done) {
            journal.append(now, &record)?;
        }
        Ok(done)
    }

    fn at_this_time(&self) -> (MutexGuard<'_, State>, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now_ms();
        state.world.expire(now);
        (state, now)
    }
}
