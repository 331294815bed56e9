//! Measures a bare server, for comparison in benchmarks.

use std::time::Duration;

use goalmill_common::number::whole_u64;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::time::Instant;

use super::Result;
use super::error::to_broker_error;

/// Commands in one pipeline.
const DEPTH: usize = 100;
/// Connections at work.
const CONNECTIONS: usize = 2;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 300;
/// Rounds, of which the best counts: whatever else runs can only slow one down.
const ROUNDS: usize = 3;

/// Counters of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerStats {
    /// Commands so far, those inside functions included.
    pub commands: u64,
    /// User and system time so far, microseconds.
    pub cpu_us: u64,
    /// Memory that is allocated, bytes.
    pub memory_bytes: u64,
}

/// Reads the server's counters.
pub async fn stats(url: &str) -> Result<ServerStats> {
    let mut connection = dial(url).await?;
    let info: String =
        redis::cmd("INFO").arg("everything").query_async(&mut connection).await.map_err(to_broker_error)?;
    let number = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
    };
    let cpu = number("used_cpu_user") + number("used_cpu_sys");
    Ok(ServerStats {
        commands: whole_u64(number("total_commands_processed")),
        cpu_us: whole_u64(cpu * 1e6),
        memory_bytes: whole_u64(number("used_memory")),
    })
}

/// `XADD`s a second: pipelined, 300 bytes each, 100 deep, 2 connections; the best of 3 rounds of `entries`.
pub async fn raw_xadds_per_second(url: &str, entries: usize) -> Result<f64> {
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let each = entries / CONNECTIONS;
        let begun = Instant::now();
        let rounds = (0..CONNECTIONS).map(|n| flood(url, n, each));
        futures_util::future::try_join_all(rounds).await?;
        best = best.max((each * CONNECTIONS) as f64 / begun.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// One round trip on an idle connection, microseconds: the median of `samples`.
pub async fn raw_hop_us(url: &str, samples: usize) -> Result<f64> {
    let mut connection = dial(url).await?;
    let mut micros = Vec::with_capacity(samples);
    for _ in 0..samples {
        let begun = Instant::now();
        redis::cmd("PING").query_async::<()>(&mut connection).await.map_err(to_broker_error)?;
        micros.push(begun.elapsed().as_nanos() as f64 / 1e3);
    }
    micros.sort_unstable_by(f64::total_cmp);
    Ok(micros.get(samples / 2).copied().unwrap_or(0.0))
}

async fn flood(url: &str, n: usize, entries: usize) -> Result<()> {
    let mut connection = dial(url).await?;
    let key = format!("bench:probe:{n}");
    let payload = vec![b'x'; ENTRY_BYTES];
    let mut pipeline = redis::pipe();
    for _ in 0..DEPTH {
        pipeline.cmd("XADD").arg(&key).arg("*").arg("data").arg(payload.as_slice()).ignore();
    }
    for _ in 0..entries / DEPTH {
        pipeline.query_async::<()>(&mut connection).await.map_err(to_broker_error)?;
    }
    redis::cmd("UNLINK").arg(&key).query_async::<()>(&mut connection).await.map_err(to_broker_error)
}

async fn dial(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    let client = Client::open(url).map_err(to_broker_error)?;
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(to_broker_error)
}
