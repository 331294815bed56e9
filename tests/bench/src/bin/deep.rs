//! Measures deep decompositions: prints a line for each size.
//!
//! `cargo run --release -p goalmill-bench --bin deep -- [GUESTS …]`; five actions a guest.

#![expect(clippy::print_stdout, reason = "figures for whoever runs it")]

use anyhow::{Result, anyhow, bail};
use goalmill_bench::htn_checker::check;
use goalmill_htn::{SearchLimits, SearchOutcome, parse_domain, parse_problem, solve};
use tokio::time::Instant;

#[path = "../../../../scheduler/htn/tests/plans/fixtures.rs"]
mod fixtures;

/// Guests when none are given.
const GUESTS: [usize; 4] = [100, 500, 1_000, 2_000];

fn main() -> Result<()> {
    let mut sizes = std::env::args().skip(1).map(|size| size.parse()).collect::<Result<Vec<usize>, _>>()?;
    if sizes.is_empty() {
        sizes.extend(GUESTS);
    }
    let domain = parse_domain(fixtures::MEALS)?;
    for guests in sizes {
        let problem = parse_problem(&domain, &fixtures::meals(guests))?;
        let begun = Instant::now();
        let outcome = solve(&domain, &problem, SearchLimits::default(), &mut || false);
        let took = begun.elapsed();
        let SearchOutcome::Solved { solution, nodes } = outcome else { bail!("{guests} guests: {outcome:?}") };
        check(&domain, &problem, &solution).map_err(|flaw| anyhow!("{flaw}"))?;
        println!("{} actions in {:.1} ms, {nodes} nodes", solution.actions().count(), took.as_secs_f64() * 1e3);
    }
    Ok(())
}
