//! `kill -9` of a scheduler while it archives.

use anyhow::{Context, Result};
use goalmill_archive::{ArchiveStore, SqliteArchive};
use goalmill_common::event::Record;
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::installation::step;
use goalmill_tests::wait::{SOON, until};
use serde_json::json;

use crate::{machine, number};

const PLANS: usize = 240;
/// Kills in the midst of archiving, at the least.
const KILLS_MIN: usize = 12;

/// Each plan is a transaction of its own, so that there are many moments to be killed in.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_while_it_archives_loses_and_duplicates_nothing() -> Result<()> {
    let _machine = machine().await;
    let seed = number("GOALMILL_CHAOS_SEED").unwrap_or(7);
    let random = Random::seeded(seed);
    let mut cluster = Cluster::start(Options { schedulers: 1, workers: 1, slots: 64, ..Options::default() }).await?;
    let steps = [step("a", "echo", &[], json!({})), step("b", "echo", &["a"], json!({}))];
    let mut plans = Vec::new();
    for n in 0..PLANS {
        let plan = json!({"name": format!("plan {n}"), "steps": steps});
        plans.push(cluster.submit(&format!("plan-{n}"), &plan, SOON).await?);
    }
    for plan in &plans {
        cluster.await_end(plan, SOON).await?;
    }
    let file = cluster.dir.path().join("archive.sqlite");
    let store = SqliteArchive::open(&file).await?;
    for (name, value) in [("STORE", "sqlite"), ("INTERVAL_MS", "10"), ("BATCH_EVENTS", "1")] {
        let name: &'static str = format!("GOALMILL__ARCHIVE__{name}").leak();
        cluster.options.environment.push((name, value.to_owned()));
    }
    cluster.options.environment.push(("GOALMILL__ARCHIVE__PATH", file.display().to_string()));
    let (mut wanted, mut kills) = (0, 0);
    loop {
        cluster.replace_scheduler(0).await?;
        wanted += 1 + usize::try_from(random.below(20))?;
        until(SOON, async || archived(&store, &plans).await >= wanted.min(PLANS)).await;
        if archived(&store, &plans).await == PLANS {
            break;
        }
        kills += 1;
    }
    eprintln!("seed {seed}: killed {kills} times");
    assert!(kills >= KILLS_MIN, "only {kills} kills came before all was archived");
    for plan in &plans {
        let log: Vec<String> = cluster.log(plan).await?.iter().map(Record::to_line).collect();
        let rows = store.log(plan, 0, 1_000).await.context("the archive answers")?;
        assert_eq!(rows.into_iter().map(|row| row.line).collect::<Vec<_>>(), log, "plan {plan}");
    }
    Ok(())
}

async fn archived(store: &SqliteArchive, plans: &[PlanId]) -> usize {
    store.archived(plans).await.expect("the archive answers").len()
}
