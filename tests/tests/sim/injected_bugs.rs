//! Injects one bug at a time: the simulation must find it.

use crate::bugs::Bug;
use crate::environment::NetworkBug;
use crate::run::{InjectedBug, run};

#[test]
fn commits_without_fence_and_sequence_are_found() {
    is_found(InjectedBug::Network(NetworkBug::FenceAndSequence), 40);
}

#[test]
fn a_cursor_that_moves_outside_the_commit_is_found() {
    is_found(InjectedBug::Network(NetworkBug::CursorInCommit), 40);
}

#[test]
fn reports_that_count_for_any_attempt_are_found() {
    is_found(InjectedBug::Engine(Bug::AnyAttempt), 40);
}

#[test]
fn a_change_without_an_event_is_found() {
    is_found(InjectedBug::Engine(Bug::SilentReady), 5);
}

#[test]
fn attempts_that_run_for_ever_are_found() {
    is_found(InjectedBug::Engine(Bug::NoRunDeadline), 80);
}

#[test]
fn more_steps_in_flight_than_allowed_are_found() {
    is_found(InjectedBug::Engine(Bug::NoLimit), 20);
}

/// Runs seeds until one finds something; at most `most`.
fn is_found(bug: InjectedBug, most: u64) {
    for seed in 1..=most {
        let shown = run(seed, bug, false);
        if let Some(what) = shown.found.first() {
            eprintln!("{bug:?} is found by seed {seed}: {what}");
            return;
        }
    }
    panic!("{bug:?} is not found by {most} seeds");
}
