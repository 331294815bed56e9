//! The bridge: a worker for agents that run in a program of another language.
//!
//! ```text
//! program ──(hello, call, made, ended)──▶ bridge ─▶ executors ─▶ worker ─▶ Redis
//!         ◀─(ready, task, call, recorded)─
//! ```
//!
//! The program starts `goalmill worker --bridge` as its child and exchanges frames with it over the standard streams:
//! one JSON object a line, with one field, whose name is the kind of the frame ([`frames`]). Leases, heartbeats,
//! payloads, limits, recorded calls and reports are the worker's. The end of either stream is the end of both: the worker
//! reports the tasks that had begun as lost, and the program stops them.

pub mod frames;

mod bridged_agent;
mod calls;
mod link;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use frames::{Hello, VERSION};
use goalmill_common::id::AgentType;
use goalmill_worker::executor::Executor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{FramedRead, LinesCodec};

pub use link::ProgramLink;

use bridged_agent::BridgedAgent;

/// Bytes of one frame. A longer one ends the bridge; the packages refuse to send it.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// How long a program may take for its first frame.
const HELLO_MAX: Duration = Duration::from_secs(30);

/// Why a program cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error("the program sent no `hello` within {} s", HELLO_MAX.as_secs())]
    Silent,
    #[error("the program ended before its `hello`")]
    Ended,
    #[error("the first frame is no `hello`: {0}")]
    NoHello(String),
    #[error(
        "the program speaks version {0} of the bridge, this worker speaks {VERSION}; install the same release of both"
    )]
    Version(u32),
}

/// A program that has said what it serves.
pub struct Bridge {
    pub hello: Hello,
    link: ProgramLink,
}

impl Bridge {
    /// Reads the first frame of a program, and from then on all others.
    pub async fn connect(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Self, BridgeError> {
        let mut lines = FramedRead::new(input, LinesCodec::new_with_max_length(FRAME_BYTES_MAX));
        let first = tokio::time::timeout(HELLO_MAX, link::next_frame(&mut lines)).await;
        let hello = match first.map_err(|_| BridgeError::Silent)? {
            Some(Ok(frames::FromProgram::Hello(hello))) => hello,
            Some(Ok(_)) => return Err(BridgeError::NoHello("it is of another kind".into())),
            Some(Err(error)) => return Err(BridgeError::NoHello(error)),
            None => return Err(BridgeError::Ended),
        };
        if hello.version != VERSION {
            return Err(BridgeError::Version(hello.version));
        }
        Ok(Self { link: ProgramLink::start(lines, output, hello.slots), hello: *hello })
    }

    /// The executors of the program's agents.
    pub fn executors(&self) -> BTreeMap<AgentType, Arc<dyn Executor>> {
        let executor = |card: &goalmill_common::agent::Agent| {
            let agent = BridgedAgent::new(card.clone(), self.link.clone());
            (card.agent_type.clone(), Arc::new(agent) as Arc<dyn Executor>)
        };
        self.hello.agents.iter().map(executor).collect()
    }

    /// The connection to the program.
    pub fn link(&self) -> &ProgramLink {
        &self.link
    }
}
