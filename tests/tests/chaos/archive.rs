//! `kill -9` of a scheduler, or of the database, while plans are archived.

use anyhow::{Context, Result};
use goalmill_archive::{ArchiveStore, PostgresArchive, PostgresLimits, SqliteArchive};
use goalmill_common::event::Record;
use goalmill_common::id::PlanId;
use goalmill_common::random::Random;
use goalmill_postgres::test_server::PostgresServer;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::installation::step;
use goalmill_tests::wait::{SOON, until};
use serde_json::json;

use crate::{machine, number};

/// Kills in the midst of archiving, at the least; `GOALMILL_CHAOS_KILLS` sets another number.
const KILLS: u64 = 12;
/// Plans archived between two kills, at most.
const PLANS_BETWEEN_MAX: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_while_it_archives_loses_and_duplicates_nothing() -> Result<()> {
    let _machine = machine().await;
    let mut archiving = Archiving::start().await?;
    let file = archiving.cluster.dir.path().join("archive.sqlite");
    let store = SqliteArchive::open(&file).await?;
    archiving.set("STORE", "sqlite");
    archiving.set("PATH", &file.display().to_string());
    archiving.cluster.replace_scheduler(0).await?;
    while !archiving.is_done(&store).await? {
        archiving.kills += 1;
        archiving.cluster.replace_scheduler(0).await?;
    }
    archiving.check(&store).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_and_a_database_killed_at_random_lose_and_duplicate_nothing() -> Result<()> {
    let _machine = machine().await;
    let Some(mut server) = PostgresServer::start().await else { return Ok(()) };
    let mut archiving = Archiving::start().await?;
    let store = PostgresArchive::open(&server.url(), "its address", PostgresLimits::default()).await?;
    archiving.set("STORE", "postgres");
    archiving.cluster.options.environment.push(("GOALMILL_ARCHIVE_URL", server.url()));
    archiving.cluster.replace_scheduler(0).await?;
    while !archiving.is_done(&store).await? {
        archiving.kills += 1;
        if archiving.random.below(2) == 0 {
            archiving.cluster.replace_scheduler(0).await?;
        } else {
            server.kill9();
            server.restart().await;
        }
    }
    archiving.check(&store).await
}

/// Plans that have ended, for an archive that is configured afterwards.
struct Archiving {
    cluster: Cluster,
    plans: Vec<PlanId>,
    random: Random,
    kills_min: u64,
    kills: u64,
    wanted: usize,
}

impl Archiving {
    async fn start() -> Result<Self> {
        let random = Random::seeded(number("GOALMILL_CHAOS_SEED").unwrap_or(7));
        let kills_min = number("GOALMILL_CHAOS_KILLS").unwrap_or(KILLS);
        let cluster = Cluster::start(Options { schedulers: 1, workers: 1, slots: 64, ..Options::default() }).await?;
        let steps = [step("a", "echo", &[], json!({})), step("b", "echo", &["a"], json!({}))];
        let mut plans = Vec::new();
        for n in 0..kills_min * PLANS_BETWEEN_MAX {
            let plan = json!({"name": format!("plan {n}"), "steps": steps});
            plans.push(cluster.submit(&format!("plan-{n}"), &plan, SOON).await?);
        }
        for plan in &plans {
            cluster.await_end(plan, SOON).await?;
        }
        let mut archiving = Self { cluster, plans, random, kills_min, kills: 0, wanted: 0 };
        // Each plan is a transaction of its own, so that there are many moments to be killed in.
        archiving.set("INTERVAL_MS", "10");
        archiving.set("BATCH_EVENTS", "1");
        Ok(archiving)
    }

    /// A setting under `archive` for the schedulers that start from now on.
    fn set(&mut self, name: &str, value: &str) {
        let name: &'static str = format!("GOALMILL__ARCHIVE__{name}").leak();
        self.cluster.options.environment.push((name, value.to_owned()));
    }

    /// Waits until some more plans are archived; says whether all are.
    async fn is_done(&mut self, store: &dyn ArchiveStore) -> Result<bool> {
        self.wanted += 1 + usize::try_from(self.random.below(PLANS_BETWEEN_MAX))?;
        let wanted = self.wanted.min(self.plans.len());
        let archived = async || store.archived(&self.plans).await.map_or(0, |found| found.len());
        until(SOON, async || archived().await >= wanted).await;
        Ok(archived().await == self.plans.len())
    }

    /// Compares the rows with the logs.
    async fn check(&self, store: &dyn ArchiveStore) -> Result<()> {
        eprintln!("killed {} times", self.kills);
        assert!(self.kills >= self.kills_min, "only {} kills came before all was archived", self.kills);
        for plan in &self.plans {
            let log: Vec<String> = self.cluster.log(plan).await?.iter().map(Record::to_line).collect();
            let rows = store.log(plan, 0, 1_000).await.context("the archive answers")?;
            assert_eq!(rows.into_iter().map(|row| row.line).collect::<Vec<_>>(), log, "plan {plan}");
        }
        Ok(())
    }
}
