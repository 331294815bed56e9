//! Timers of plans and steps, in memory, derived from state.

use std::collections::BTreeSet;

use goalmill_common::hash::HashMap;
use goalmill_engine::Timer;

use crate::Slot;

/// The timers of all plans of a shard.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(u64, Slot, Timer)>,
    set: HashMap<(Slot, Timer), u64>,
}

impl Timers {
    /// Sets, moves or (`None`) clears a timer; `due_ms` is in Unix milliseconds.
    pub(crate) fn set(&mut self, slot: Slot, timer: Timer, due_ms: Option<u64>) {
        let old = match due_ms {
            Some(due) => self.set.insert((slot, timer), due),
            None => self.set.remove(&(slot, timer)),
        };
        if let Some(old) = old {
            self.due.remove(&(old, slot, timer));
        }
        if let Some(due) = due_ms {
            self.due.insert((due, slot, timer));
        }
    }

    /// Clears the timers of a plan.
    ///
    /// - `steps`: those that may have one.
    pub(crate) fn forget(&mut self, slot: Slot, steps: impl Iterator<Item = Timer>) {
        steps.chain([Timer::Plan]).for_each(|timer| self.set(slot, timer, None));
    }

    /// The time of the next timer.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(due, _, _)| *due)
    }

    /// The timers that are due until then, in order.
    pub(crate) fn until(&self, due_ms: u64) -> impl Iterator<Item = (Slot, Timer)> + '_ {
        self.due.iter().take_while(move |(due, ..)| *due <= due_ms).map(|(_, slot, timer)| (*slot, *timer))
    }

    /// Removes the next due timer.
    pub(crate) fn pop(&mut self, now_ms: u64) -> Option<(Slot, Timer)> {
        let (due, slot, timer) = *self.due.first()?;
        if due > now_ms {
            return None;
        }
        self.set(slot, timer, None);
        Some((slot, timer))
    }
}

#[cfg(test)]
mod tests {
    use goalmill_engine::StepIndex;

    use super::*;

    #[test]
    fn a_moved_timer_fires_once_at_its_new_time() {
        let mut timers = Timers::default();
        let step = Timer::Step(StepIndex(3));
        timers.set(7, step, Some(100));
        timers.set(7, Timer::Plan, Some(150));
        timers.set(7, step, Some(200));
        assert_eq!(timers.next_ms(), Some(150));
        assert_eq!(timers.pop(199), Some((7, Timer::Plan)));
        assert_eq!(timers.pop(199), None);
        assert_eq!(timers.pop(200), Some((7, step)));
        assert_eq!(timers.next_ms(), None);
    }

    #[test]
    fn a_cleared_timer_does_not_fire() {
        let mut timers = Timers::default();
        timers.set(1, Timer::Plan, Some(5));
        timers.set(1, Timer::Plan, None);
        assert_eq!(timers.pop(u64::MAX), None);
    }
}
