//! The store behind its lock, and the order of each write: apply, append to the journal file, answer.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use goalmill_common::clock::Clock;

use super::journal::Journal;
use super::memory_store::MemoryStore;
use super::record::Write;
use crate::BrokerError;

pub(super) struct Core {
    state: Mutex<EmbeddedState>,
    clock: Clock,
}

struct EmbeddedState {
    store: MemoryStore,
    journal: Option<Journal>,
}

impl Core {
    pub(super) fn open(data_dir: Option<&Path>, clock: Clock) -> Result<Self, BrokerError> {
        let (journal, store) = match data_dir {
            Some(dir) => {
                let now = clock.now_ms();
                let (mut journal, mut store) = Journal::open(dir, now)?;
                // The file is locked: no other process can have a lease.
                if store.meta.is_some() {
                    store.end_former_processes();
                    journal.append(now, &Write::EndFormerProcesses)?;
                }
                (Some(journal), store)
            }
            None => (None, MemoryStore::default()),
        };
        Ok(Self { state: Mutex::new(EmbeddedState { store, journal }), clock })
    }

    /// Reads without a check of the journal; cannot fail.
    pub(super) fn inspect<T>(&self, inspect: impl FnOnce(&mut MemoryStore, u64) -> T) -> T {
        let (mut state, now) = self.lock_now();
        inspect(&mut state.store, now)
    }

    /// Reads. Fails after a write that the journal could not store: the memory is then ahead of the file.
    pub(super) fn read_store<T>(&self, read: impl FnOnce(&mut MemoryStore, u64) -> T) -> Result<T, BrokerError> {
        let (mut state, now) = self.lock_now();
        if let Some(journal) = &state.journal {
            journal.check_intact()?;
        }
        Ok(read(&mut state.store, now))
    }

    /// Writes. `record` makes the journal's record; `None` when nothing changed.
    pub(super) fn write<'a, T>(
        &self,
        write: impl FnOnce(&mut MemoryStore, u64) -> T,
        record: impl FnOnce(&T) -> Option<Write<'a>>,
    ) -> Result<T, BrokerError> {
        let (mut state, now) = self.lock_now();
        let state = &mut *state;
        let Some(journal) = &mut state.journal else { return Ok(write(&mut state.store, now)) };
        journal.check_intact()?;
        let done = write(&mut state.store, now);
        if let Some(record) = record(&done) {
            journal.append(now, &record)?;
        }
        Ok(done)
    }

    /// The time of this store: that of the machine as it is now, which the store's own clock follows.
    pub(super) fn machine_ms(&self) -> u64 {
        let (asked_ms, machine_ms) = (self.clock.steady_ms(), self.clock.wall_ms());
        self.clock.follow_store(machine_ms, asked_ms);
        machine_ms
    }

    fn lock_now(&self) -> (MutexGuard<'_, EmbeddedState>, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now_ms();
        state.store.expire(now);
        (state, now)
    }
}
