//! An installation of real processes: Redis, schedulers, and workers that do one task at a time.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use goalmill_spec::LEASE_MS;
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// Schedulers: one takes over while the other is dead.
pub const SCHEDULERS: usize = 2;
/// How long a call is tried again.
const CALL_LIMIT: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);

/// A process, and how often it was started.
struct Process {
    child: Child,
    generation: u32,
}

/// Real processes; all are killed when it is dropped.
pub struct Installation {
    dir: PathBuf,
    redis_port: u16,
    redis: Child,
    api_ports: Vec<u16>,
    schedulers: Vec<Mutex<Process>>,
    workers: Vec<Mutex<Process>>,
    pub kills_of_schedulers: AtomicU32,
    pub kills_of_workers: AtomicU32,
    http: reqwest::Client,
}

impl Installation {
    /// Starts Redis, schedulers and workers. Worker `n` asks the agent at `/n` of `agent_port`.
    pub async fn start(dir: &Path, agent_port: u16, workers: usize) -> Result<Self> {
        let redis_port = free_port()?;
        let redis = Command::new(std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()))
            .args(["--port", &redis_port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("redis.log"))?)
            .spawn()
            .context("`redis-server` must be on PATH")?;
        let http = goalmill_http::client(false).timeout(CALL_LIMIT).build()?;
        let api_ports = (0..SCHEDULERS).map(|_| free_port()).collect::<Result<_>>()?;
        let (schedulers, counts) = (Vec::new(), [0, 0].map(AtomicU32::new));
        let [kills_of_schedulers, kills_of_workers] = counts;
        let dir = dir.to_owned();
        let mut made = Self {
            dir,
            redis_port,
            redis,
            api_ports,
            schedulers,
            workers: Vec::new(),
            kills_of_schedulers,
            kills_of_workers,
            http,
        };
        made.await_redis().await?;
        for n in 0..SCHEDULERS {
            made.schedulers.push(Mutex::new(made.spawn_scheduler(n, 0)?));
        }
        // A worker waits for the first scheduler, which prepares Redis.
        for n in 0..workers {
            let url = format!("[worker.agents.w]\nkind = \"http\"\nurl = \"http://127.0.0.1:{agent_port}/{n}\"\n");
            std::fs::write(made.dir.join(format!("worker-{n}.toml")), url)?;
            made.workers.push(Mutex::new(made.spawn_worker(n, 0)?));
        }
        Ok(made)
    }

    async fn await_redis(&self) -> Result<()> {
        let end = Instant::now() + CALL_LIMIT;
        while tokio::net::TcpStream::connect(("127.0.0.1", self.redis_port)).await.is_err() {
            anyhow::ensure!(Instant::now() < end, "redis-server does not answer");
            sleep(PAUSE).await;
        }
        Ok(())
    }

    fn spawn_scheduler(&self, n: usize, generation: u32) -> Result<Process> {
        let listen = format!("127.0.0.1:{}", self.api_ports[n]);
        self.spawn(&format!("scheduler-{n}"), generation, &["scheduler", "--listen", &listen, "--metrics", "off"])
    }

    fn spawn_worker(&self, n: usize, generation: u32) -> Result<Process> {
        let (id, settings) = (format!("worker-{n}-{generation}"), format!("worker-{n}.toml"));
        let arguments = ["worker", "--agents", "w", "--slots", "1", "--id", &id, "--config", &settings];
        self.spawn(&format!("worker-{n}"), generation, &arguments)
    }

    fn spawn(&self, name: &str, generation: u32, arguments: &[&str]) -> Result<Process> {
        let log = File::options().create(true).append(true).open(self.dir.join(format!("{name}.log")))?;
        let child = Command::new(binary()?)
            .args(arguments)
            .args(["--redis", &format!("redis://127.0.0.1:{}", self.redis_port)])
            .current_dir(&self.dir)
            .env("HOME", &self.dir)
            .env("GOALMILL__SCHEDULER__HEARTBEAT_MS", "300")
            .env("GOALMILL__SCHEDULER__SHARD_LEASE_MS", "2000")
            .env("GOALMILL__SCHEDULER__TASK_LEASE_MS", LEASE_MS.to_string())
            .env("GOALMILL__SCHEDULER__RECLAIM_MS", "200")
            // What only waits is parked and read again.
            .env("GOALMILL__SCHEDULER__PARK_MS", "500")
            .env("GOALMILL__WORKER__LEASE_MARGIN_MS", "500")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Process { child, generation })
    }

    /// `kill -9` of a worker; another one takes its place.
    pub fn replace_worker(&self, n: usize) -> Result<()> {
        let mut worker = self.workers[n].lock().expect("no thread panics with it");
        kill(&mut worker.child);
        self.kills_of_workers.fetch_add(1, Ordering::Relaxed);
        *worker = self.spawn_worker(n, worker.generation + 1)?;
        Ok(())
    }

    /// `kill -9` of a scheduler, which is started again after a while.
    pub async fn restart_scheduler(&self, n: usize, pause: Duration) -> Result<()> {
        let generation = {
            let mut scheduler = self.schedulers[n].lock().expect("no thread panics with it");
            kill(&mut scheduler.child);
            scheduler.generation + 1
        };
        self.kills_of_schedulers.fetch_add(1, Ordering::Relaxed);
        sleep(pause).await;
        *self.schedulers[n].lock().expect("no thread panics with it") = self.spawn_scheduler(n, generation)?;
        Ok(())
    }

    /// Calls the API until a scheduler answers and is ready to.
    ///
    /// - `body`: of a `POST`; without one it is a `GET`.
    pub async fn call(&self, path: &str, body: Option<&Value>, key: &str) -> Result<(u16, Value)> {
        let end = Instant::now() + CALL_LIMIT;
        for n in 0.. {
            let url = format!("http://127.0.0.1:{}{path}", self.api_ports[n % SCHEDULERS]);
            let request = match body {
                Some(body) => self.http.post(&url).header("idempotency-key", key).json(body),
                None => self.http.get(&url),
            };
            match request.send().await {
                Ok(answer) if answer.status().as_u16() < 500 => {
                    let status = answer.status().as_u16();
                    if let Ok(body) = answer.json().await {
                        return Ok((status, body));
                    }
                }
                Ok(answer) if Instant::now() > end => bail!("{path}: {}", answer.text().await?),
                Err(error) if Instant::now() > end => bail!("{path}: {error}"),
                Ok(_) | Err(_) => {}
            }
            sleep(PAUSE).await;
        }
        unreachable!("the loop has no end");
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let locked = self.workers.iter_mut().chain(&mut self.schedulers);
        locked.filter_map(|process| process.get_mut().ok()).for_each(|process| kill(&mut process.child));
        kill(&mut self.redis);
    }
}

fn kill(child: &mut Child) {
    // It may have ended by itself.
    child.kill().ok();
    child.wait().ok();
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The program: that of `GOALMILL_BINARY`, or the one that was built beside this one.
fn binary() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("GOALMILL_BINARY") {
        return Ok(binary.into());
    }
    let this = std::env::current_exe()?;
    let profile = this.ancestors().nth(2).context("it runs from `target/<profile>/deps` or `examples`")?;
    let binary = profile.join(format!("goalmill{}", std::env::consts::EXE_SUFFIX));
    anyhow::ensure!(binary.exists(), "`{}` is missing: run `cargo build -p goalmill` first", binary.display());
    Ok(binary)
}
