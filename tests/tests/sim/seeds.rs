//! Runs many seeds, none of which may find anything.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use goalmill_common::config::environment;

use crate::laws;
use crate::run::{InjectedBug, RunReport, Simulation, run};

/// Seeds of a usual test run.
const SEEDS: u64 = 300;
/// The same of plans of the specification; each seed runs some.
const SEEDS_OF_LAWS: u64 = 40;

/// Seeds that have found something once.
const PAST: &str = include_str!("seeds.txt");

#[test]
fn one_seed_gives_the_same_run_twice() {
    for seed in [1, 2, 3, 4, 5] {
        let (first, second) = (run(seed, InjectedBug::None, false), run(seed, InjectedBug::None, false));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.counts.contains_key("goal_accepted"), "seed {seed} did nothing: {first:?}");
    }
    assert_ne!(run(1, InjectedBug::None, false).hash, run(2, InjectedBug::None, false).hash);
}

#[test]
fn seeds_that_once_failed_do_not_fail_again() {
    let seeds = PAST.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect();
    explore(run, "no_seed", seeds);
}

#[test]
fn no_seed_finds_a_broken_promise() {
    let shown = explore_wanted(run, "no_seed", SEEDS);
    // Runs in which nothing happened would keep every promise, too.
    let must_happen = ["applied", "duplicate", "fenced", "gap", "turned back"];
    let must_end = ["plan_completed", "plan_failed", "plan_cancelled", "step_completed", "step_retrying"];
    for what in must_happen.into_iter().chain(must_end).filter(|_| shown.seeds >= SEEDS) {
        assert!(shown.counts.get(what).is_some_and(|count| *count > 10), "`{what}`: {shown:?}");
    }
}

#[test]
fn plans_keep_the_laws_whatever_fails() {
    let shown = explore_wanted(laws::run, "keep_the_laws", SEEDS_OF_LAWS);
    let must_happen = [("compared", 100), ("changed by faults, compared", 10), ("fenced", 1), ("turned back", 5)];
    for (what, least) in must_happen.into_iter().filter(|_| shown.seeds >= SEEDS_OF_LAWS) {
        assert!(shown.counts.get(what).is_some_and(|count| *count >= least), "`{what}`: {shown:?}");
    }
}

/// What many seeds add up to.
#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    calls: u64,
    virtual_ms: u64,
    counts: BTreeMap<&'static str, u64>,
}

/// Runs the seeds that the environment names, or so many. Nothing is checked of one seed but what it finds.
fn explore_wanted(run: Simulation, test: &str, seeds: u64) -> Sum {
    let number = |name| environment(name).map(|text| text.parse::<u64>().expect("it is a number"));
    if let Some(seed) = number("GOALMILL_SIM_SEED") {
        let shown = run(seed, InjectedBug::None, environment("GOALMILL_SIM_TRACE").is_some());
        eprintln!("{shown:#?}");
        assert_eq!(shown.found, Vec::<String>::new());
        return Sum::default();
    }
    let first = number("GOALMILL_SIM_FIRST").unwrap_or(1);
    explore(run, test, (first..first + number("GOALMILL_SIM_SEEDS").unwrap_or(seeds)).collect())
}

/// Runs seeds on all cores, and fails with all that they found.
fn explore(run: Simulation, test: &str, seeds: Vec<u64>) -> Sum {
    let next = AtomicU64::new(0);
    let sum = Mutex::new(Sum::default());
    let failed: Mutex<Vec<(u64, RunReport)>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) =
                    usize::try_from(next.fetch_add(1, Ordering::Relaxed)).ok().and_then(|place| seeds.get(place))
                {
                    let shown = run(*seed, InjectedBug::None, false);
                    let mut sum = sum.lock().expect("no thread panics with it");
                    sum.seeds += 1;
                    sum.calls += shown.calls;
                    for (what, count) in &shown.counts {
                        *sum.counts.entry(what).or_default() += count;
                    }
                    sum.virtual_ms += shown.virtual_ms;
                    if !shown.found.is_empty() {
                        failed.lock().expect("no thread panics with it").push((*seed, shown));
                    }
                }
            });
        }
    });
    let sum = sum.into_inner().expect("no thread panics with it");
    eprintln!("{sum:?}");
    let mut failed = failed.into_inner().expect("no thread panics with it");
    failed.sort_by_key(|(seed, _)| *seed);
    for (seed, shown) in failed.iter().take(10) {
        eprintln!("seed {seed}, {}:", shown.faults);
        shown.found.iter().for_each(|what| eprintln!("  {what}"));
        eprintln!("  again: GOALMILL_SIM_SEED={seed} cargo test -p goalmill-tests --test sim {test}");
    }
    let failed: Vec<u64> = failed.into_iter().map(|(seed, _)| seed).collect();
    assert_eq!(failed, Vec::<u64>::new(), "these seeds found something");
    sum
}
