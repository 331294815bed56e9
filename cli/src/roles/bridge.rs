//! `goalmill worker --bridge`: serves the agents of the parent process, until either ends.

use std::future::pending;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::sync::Arc;
use std::time::Duration;

use goalmill_bridge::{Bridge, BridgeError};
use goalmill_broker::Broker;
use goalmill_common::clock::Clock;
use goalmill_common::config::Settings;
use goalmill_common::random::Random;
use goalmill_worker::executor::Kinds;
use goalmill_worker::{RunningWorker, WorkerOptions};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tracing::info;

use super::signals::Signals;
use crate::exit::{CommandResult, Exit, Failed};

/// How often the parent is looked at: a process that it has forked may hold the streams open.
const PARENT_CHECK: Duration = Duration::from_secs(1);

pub async fn run(settings: Settings) -> CommandResult {
    let parent = parent_id();
    let bridge = connect().await?;
    let mut signals = Signals::listen()?;
    let broker = goalmill_broker::redis::connect(&settings.redis).await?;
    let running = start(&bridge, settings, broker, Clock::system()).await?;
    tokio::select! {
        served = serve(&bridge, &running, Some(&mut signals)) => served?,
        () = orphaned(parent) => {
            bridge.link().end();
            serve(&bridge, &running, Some(&mut signals)).await?;
        }
    }
    info!("worker {} has ended", running.id());
    ended(&bridge)
}

/// Connects to the parent process over the standard streams.
pub async fn connect() -> Result<Bridge, Failed> {
    let (input, output) = (input().map_err(unusable)?, output().map_err(unusable)?);
    Bridge::connect(input, output).await.map_err(refused)
}

/// What the end of a program means for this one.
pub fn ended(bridge: &Bridge) -> CommandResult {
    match bridge.link().failure() {
        Some(reason) => Err(Failed::new(Exit::Other, format!("the program cannot be served any more: {reason}"))),
        None => Ok(Exit::Done),
    }
}

/// Starts the worker of a program.
pub async fn start(
    bridge: &Bridge,
    settings: Settings,
    broker: Arc<dyn Broker>,
    clock: Clock,
) -> Result<RunningWorker, Failed> {
    let (hello, mut worker) = (&bridge.hello, settings.worker);
    if hello.agents.is_empty() {
        return Err(Failed::new(Exit::Usage, "the program serves no agents"));
    }
    worker.slots = hello.slots.max(1);
    worker.agents.clear();
    worker.id = hello.name.clone().unwrap_or(worker.id);
    worker.drain_ms = hello.drain_ms.unwrap_or(worker.drain_ms);
    let nesting_max = settings.limits.nesting_max;
    let options = WorkerOptions {
        settings: worker,
        limits: settings.limits,
        broker,
        clock,
        random: Random::system(),
        executors: bridge.executors(),
        kinds: Kinds::new(),
    };
    let running = goalmill_worker::start(options).await.map_err(super::start_failed)?;
    info!("worker {} serves {}", running.id(), hello.package);
    bridge.link().send_ready(running.id().as_str(), nesting_max);
    Ok(running)
}

/// Serves a program until it, or a signal, asks for a drain, or it has ended. The second request hands back what runs.
pub async fn serve(bridge: &Bridge, running: &RunningWorker, mut signals: Option<&mut Signals>) -> Result<(), Failed> {
    let link = bridge.link();
    tokio::select! {
        () = next(&mut signals) => {}
        () = link.drain_asked() => {}
        () = running.draining() => {}
        () = link.ended() => {}
        reason = running.failed() => return Err(super::works_no_more(reason)),
    }
    link.send_draining();
    let drain = async {
        tokio::select! {
            () = running.drain() => {}
            () = next(&mut signals) => running.release_all().await,
            () = link.drain_asked() => running.release_all().await,
            () = link.ended() => running.release_all().await,
        }
    };
    tokio::select! {
        () = drain => Ok(()),
        reason = running.failed() => Err(super::works_no_more(reason)),
    }
}

async fn next(signals: &mut Option<&mut Signals>) {
    match signals {
        Some(signals) => signals.next().await,
        None => pending().await,
    }
}

/// Waits until the process that has started this one is gone.
async fn orphaned(parent: u32) {
    while parent_id() == parent {
        tokio::time::sleep(PARENT_CHECK).await;
    }
}

/// Standard input: a pipe, or a socket.
fn input() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let stream = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(match pipe::Receiver::from_owned_fd(stream.try_clone()?) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(socket(stream)?),
    })
}

/// Standard output: a pipe, or a socket.
fn output() -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let stream = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(match pipe::Sender::from_owned_fd(stream.try_clone()?) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(socket(stream)?),
    })
}

fn socket(stream: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn unusable(error: io::Error) -> Failed {
    Failed::new(Exit::Usage, format!("the standard streams cannot be used: {error}"))
}

/// A program that cannot be served.
fn refused(error: BridgeError) -> Failed {
    Failed::new(Exit::Usage, error.to_string())
        .help("`goalmill worker --bridge` is started by the packages for Python and TypeScript: see docs/protocol.md")
}
