//! Kills processes of a cluster at random times and starts others in their place.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use goalmill_common::random::Random;
use tokio_util::sync::CancellationToken;

use crate::submit::Submitter;
use goalmill_tests::cluster::Cluster;

/// Shortest and longest time between two kills, in milliseconds.
const PAUSE_MS: (u64, u64) = (100, 1_500);
/// Longest downtime of Redis, in milliseconds.
const AWAY_MS_MAX: u64 = 1_000;

/// Kills with `kill -9`, chosen by a seed.
pub struct Killer {
    random: Random,
    killed: BTreeMap<&'static str, u32>,
}

impl Killer {
    pub fn new(random: Random) -> Self {
        Self { random, killed: BTreeMap::new() }
    }

    /// Kills by kind of process.
    pub fn counts(&self) -> &BTreeMap<&'static str, u32> {
        &self.killed
    }

    /// Kills until `done`; returns when everything runs again.
    pub async fn kill_until(
        &mut self,
        cluster: &mut Cluster,
        submitter: &Submitter,
        done: &CancellationToken,
    ) -> Result<()> {
        loop {
            let pause = Duration::from_millis(PAUSE_MS.0 + self.random.below(PAUSE_MS.1 - PAUSE_MS.0));
            tokio::select! {
                () = done.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            let what = self.kill(cluster).await?;
            *self.killed.entry(what).or_default() += 1;
            submitter.update_urls(cluster);
        }
        cluster.wait_ready().await
    }

    async fn kill(&mut self, cluster: &mut Cluster) -> Result<&'static str> {
        let place = |nodes: usize| usize::try_from(self.random.below(nodes as u64)).unwrap_or(0);
        // Workers twice: between an action and its report is a kill does the most harm.
        match self.random.below(5) {
            0 => {
                cluster.replace_scheduler(place(cluster.schedulers.len())).await?;
                Ok("scheduler")
            }
            1 | 2 => {
                cluster.replace_worker(place(cluster.workers.len())).await?;
                Ok("worker")
            }
            3 => {
                cluster.redis.kill9();
                tokio::time::sleep(Duration::from_millis(self.random.below(AWAY_MS_MAX))).await;
                cluster.redis.restart().await?;
                Ok("redis")
            }
            _ => {
                cluster.replace_everything().await?;
                Ok("everything")
            }
        }
    }
}
