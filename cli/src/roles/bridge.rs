//! `goalmill worker --bridge`: serves the agents of the parent process, until either ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use goalmill_bridge::{Bridge, BridgeError};
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

pub async fn run(settings: Settings) -> CommandResult {
    let (input, output) = (input().map_err(unusable)?, output().map_err(unusable)?);
    let bridge = Bridge::connect(input, output).await.map_err(refused)?;
    let hello = &bridge.hello;
    let mut worker = settings.worker;
    worker.slots = hello.slots.max(1);
    worker.agents.clear();
    worker.id = hello.name.clone().unwrap_or(worker.id);
    worker.drain_ms = hello.drain_ms.unwrap_or(worker.drain_ms);
    worker.heartbeat_ms = hello.heartbeat_ms.unwrap_or(worker.heartbeat_ms);
    let mut signals = Signals::listen()?;
    let broker = goalmill_broker::redis::connect(&settings.redis).await?;
    let nesting_max = settings.limits.nesting_max;
    let options = WorkerOptions {
        settings: worker,
        limits: settings.limits,
        broker,
        clock: Clock::system(),
        random: Random::system(),
        executors: bridge.executors(),
        kinds: Kinds::new(),
    };
    let running = goalmill_worker::start(options).await.map_err(super::worker::failed)?;
    info!("worker {} serves {}", running.id(), bridge.hello.package);
    let link = bridge.link();
    link.send_ready(running.id().as_str(), nesting_max);
    tokio::select! {
        () = signals.next() => {}
        () = link.drain_asked() => {}
        () = running.draining() => {}
        () = link.ended() => {}
        reason = running.failed() => return Err(super::works_no_more(reason)),
    }
    link.send_draining();
    drain(&running, &bridge, &mut signals).await?;
    info!("worker {} has ended", running.id());
    Ok(Exit::Done)
}

/// Finishes the tasks that run, and hands them back at the second request or if the program has ended.
async fn drain(running: &RunningWorker, bridge: &Bridge, signals: &mut Signals) -> Result<(), Failed> {
    let drain = async {
        tokio::select! {
            () = running.drain() => {}
            () = signals.next() => running.release_all().await,
            () = bridge.link().drain_asked() => running.release_all().await,
            () = bridge.link().ended() => running.release_all().await,
        }
    };
    tokio::select! {
        () = drain => Ok(()),
        reason = running.failed() => Err(super::works_no_more(reason)),
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

fn refused(error: BridgeError) -> Failed {
    Failed::new(Exit::Usage, error.to_string())
        .help("`goalmill worker --bridge` is started by the packages for Python and TypeScript: see docs/protocol.md")
}
