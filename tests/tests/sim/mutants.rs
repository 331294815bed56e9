//! Takes one protection away at a time: the simulation must notice, or it would not notice a real mistake.

use crate::bugs::Bug;
use crate::ground::Missing;
use crate::run::{Mutant, run};

#[test]
fn commits_without_fence_and_sequence_are_found() {
    is_found(Mutant::Network(Missing::FenceAndSequence), 40);
}

#[test]
fn a_cursor_that_moves_outside_the_commit_is_found() {
    is_found(Mutant::Network(Missing::CursorInCommit), 40);
}

#[test]
fn reports_that_count_for_any_attempt_are_found() {
    is_found(Mutant::Engine(Bug::AnyAttempt), 40);
}

#[test]
fn a_change_without_an_event_is_found() {
    is_found(Mutant::Engine(Bug::SilentReady), 5);
}

#[test]
fn attempts_that_run_for_ever_are_found() {
    is_found(Mutant::Engine(Bug::NoRunDeadline), 80);
}

#[test]
fn more_steps_in_flight_than_allowed_are_found() {
    is_found(Mutant::Engine(Bug::NoLimit), 20);
}

/// Runs seeds until one finds something; at most `most`.
fn is_found(mutant: Mutant, most: u64) {
    for seed in 1..=most {
        let shown = run(seed, mutant, false);
        if let Some(what) = shown.found.first() {
            eprintln!("{mutant:?} is found by seed {seed}: {what}");
            return;
        }
    }
    panic!("{mutant:?} is not found by {most} seeds");
}
