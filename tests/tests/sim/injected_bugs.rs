//! Injects one bug at a time: the simulation must find it.

use std::ops::RangeInclusive;

use crate::bugs::Bug;
use crate::environment::NetworkBug;
use crate::laws;
use crate::run::{InjectedBug, Simulation, run};

#[test]
fn commits_without_fence_and_sequence_are_found() {
    is_found(InjectedBug::Network(NetworkBug::FenceAndSequence), 1..=40, "[L2]");
}

#[test]
fn a_cursor_that_moves_outside_the_commit_is_found() {
    is_found(InjectedBug::Network(NetworkBug::CursorInCommit), 1..=40, "[L");
}

#[test]
fn marks_of_parked_plans_that_are_outdated_are_found() {
    is_found(InjectedBug::Network(NetworkBug::OutdatedMark), 300..=400, "[I15]");
}

#[test]
fn reports_that_count_for_any_attempt_are_found() {
    is_found(InjectedBug::Engine(Bug::AnyAttempt), 15..=40, "[I3]");
}

#[test]
fn a_change_without_an_event_is_found() {
    is_found(InjectedBug::Engine(Bug::SilentReady), 1..=5, "[I5]");
}

#[test]
fn attempts_that_run_for_ever_are_found() {
    is_found(InjectedBug::Engine(Bug::NoRunDeadline), 1..=80, "[I15]");
}

#[test]
fn more_steps_in_flight_than_allowed_are_found() {
    is_found(InjectedBug::Engine(Bug::NoLimit), 1..=20, "[I7]");
}

#[test]
fn a_result_of_an_item_that_is_not_in_the_log_is_found() {
    is_found(InjectedBug::Engine(Bug::LostItem), 1..=40, "[I3]");
}

#[test]
fn undo_in_the_order_of_the_steps_is_found() {
    breaks_laws(Bug::UndoInOrder, 18..=80);
}

#[test]
fn undo_that_forgets_what_may_be_done_is_found() {
    breaks_laws(Bug::ForgottenUndo, 18..=80);
}

#[test]
fn a_wait_that_ends_by_its_event_and_by_its_time_is_found() {
    is_found(InjectedBug::Engine(Bug::EventAndTimeout), 1..=40, "[I5]");
}

#[test]
fn iterations_that_count_twice_are_found() {
    breaks_laws(Bug::IterationTwice, 2..=80);
}

#[test]
fn a_cancelled_plan_without_clean_up_is_found() {
    breaks_laws(Bug::NoCleanup, 10..=80);
}

/// Runs seeds until one finds what contains `part`. Ranges begin where a bug was found last, to save time.
fn is_found(bug: InjectedBug, seeds: RangeInclusive<u64>, part: &str) {
    is_found_by(run, bug, seeds, part);
}

/// The laws find it.
fn breaks_laws(bug: Bug, seeds: RangeInclusive<u64>) {
    is_found_by(laws::run, InjectedBug::Engine(bug), seeds, "[laws]");
}

fn is_found_by(run: Simulation, bug: InjectedBug, seeds: RangeInclusive<u64>, part: &str) {
    let mut others = Vec::new();
    for seed in seeds.clone() {
        let shown = run(seed, bug, false);
        if let Some(what) = shown.found.iter().find(|what| what.contains(part)) {
            eprintln!("{bug:?} is found by seed {seed}: {what}");
            return;
        }
        others.extend(shown.found.into_iter().next());
    }
    panic!("{bug:?} is not found by seeds {seeds:?}, which found {others:#?}");
}
