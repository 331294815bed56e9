//! Compares real processes on Redis with the laws, while workers and schedulers are killed.

mod agent;
mod driver;
mod installation;

use std::io::{Write, stderr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use goalmill_spec::{Case, Confluent, Does, Outcome, confluent, hurry, run};

use driver::{Driver, check_seeds};

/// Plans of a run of CI.
const PLANS: u32 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn real_processes_keep_the_laws_whatever_is_killed() -> Result<()> {
    let driver = Arc::new(Driver::start().await?);
    let tally = check_seeds(&driver, 0.., PLANS).await?;
    // The harness hides what the macros print if the test passes.
    writeln!(stderr(), "{}", tally.summary(&driver.installation))?;
    ensure!(tally.findings.is_empty(), "{}", tally.findings.join("\n\n"));
    ensure!(driver.installation.kills_of_workers.load(Ordering::Relaxed) > 0, "no worker was killed");
    ensure!(driver.installation.kills_of_schedulers.load(Ordering::Relaxed) > 0, "no scheduler was killed");
    finds_another_answer(&driver).await
}

/// An agent that does something else than the laws were asked about is found.
async fn finds_another_answer(driver: &Driver) -> Result<()> {
    let prefix = "x-";
    let changed = |confluent: Confluent| {
        let mut script = confluent.case.script.clone();
        let first = script.acts.get_mut("x-a1")?.first_mut()?;
        matches!(first.does, Does::Answer(_)).then(|| first.does = Does::Refuse)?;
        let by_laws = run(&confluent.case.plan().ok()?, &script, &[], None).ok()?;
        let case = Case { script, ..confluent.case };
        (Outcome::of(&by_laws, prefix) != confluent.expected).then_some(Confluent { case, ..confluent })
    };
    let mut cases = (0..).filter_map(|seed| confluent(&hurry(seed, prefix, 1), prefix, 1).ok());
    let case = cases.find_map(changed).context("there is one")?;
    let found = driver.check(&case, prefix).await?;
    ensure!(found.is_some_and(|text| text.starts_with("by the laws")), "it is not found");
    Ok(())
}
