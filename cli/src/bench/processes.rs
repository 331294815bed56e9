//! The processes under measurement: redis-server, one scheduler, one worker.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// A child process that ends with its owner.
pub struct Process(Child);

impl Process {
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A directory for logs and data, kept on request.
pub struct Workplace {
    pub path: PathBuf,
    keep: bool,
}

impl Workplace {
    pub fn new(kept: Option<&Path>, name: &str) -> Result<Self> {
        let (path, keep) = match kept {
            Some(dir) => (dir.join(name), true),
            None => (std::env::temp_dir().join(format!("goalmill-bench-{}-{name}", std::process::id())), false),
        };
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path, keep })
    }

    fn log(&self, name: &str) -> Result<File> {
        let path = self.path.join(format!("{name}.log"));
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if !self.keep {
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// The Redis at `url`, or a private one that is started; returns its URL too.
pub fn redis_at(url: Option<&str>, workplace: &Workplace) -> Result<(Option<Process>, String)> {
    if let Some(url) = url {
        return Ok((None, url.to_owned()));
    }
    let (server, url) = redis(workplace)?;
    Ok((Some(server), url))
}

/// Starts a private redis-server with an append-only file synced every second; returns its URL too.
fn redis(workplace: &Workplace) -> Result<(Process, String)> {
    let port = free_port()?;
    let data = workplace.path.join("redis");
    std::fs::create_dir_all(&data)?;
    let child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "everysec", "--dir"])
        .arg(&data)
        .stdin(Stdio::null())
        .stdout(workplace.log("redis")?)
        .stderr(Stdio::null())
        .spawn();
    match child {
        Ok(child) => Ok((Process(child), format!("redis://127.0.0.1:{port}"))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("there is no redis-server on the PATH: install it (apt-get install redis-server) or give --redis URL")
        }
        Err(error) => Err(error).context("cannot start redis-server"),
    }
}

/// Starts one role of this binary.
pub fn role(workplace: &Workplace, name: &str, args: &[&str]) -> Result<Process> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let log = workplace.log(name)?;
    let child = Command::new(program)
        .arg(name)
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start the {name}"))?;
    Ok(Process(child))
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}
