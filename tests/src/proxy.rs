//! A TCP proxy between a client and Redis that injects network failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Failure mode of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fair,
    /// Connections end, new ones too.
    Cut,
    /// Connections stay and nothing passes.
    BlackHole,
    /// Everything is late.
    Slow(Duration),
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
}

/// One message to lose, and its connection with it.
#[derive(Clone, Debug)]
enum Ambush {
    /// The next one that goes this way, after so many others.
    Nth { way: Way, after: u32 },
    /// The reply to the next request that contains these bytes.
    ReplyTo(Vec<u8>),
    /// Everything is held back from the next request that contains these bytes on: with it, or after it.
    HoldAt { text: Vec<u8>, with: bool },
}

/// A TCP proxy to one server on this machine; stopped when dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    target: u16,
    weather: watch::Sender<Weather>,
    ambush: Mutex<Option<Ambush>>,
    connections: AtomicU64,
    open: AtomicU64,
}

impl Proxy {
    /// Listens on a free port and passes everything to `target`, a port of 127.0.0.1.
    pub async fn start(target: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let weather = watch::Sender::new(Weather::Fair);
        let shared = Arc::new(Shared {
            target,
            weather,
            ambush: Mutex::default(),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
        });
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and aborted with the proxy")]
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, accepting })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends all connections, and new ones until [`Self::heal`].
    pub fn cut(&self) {
        self.shared.weather.send_replace(Weather::Cut);
    }

    /// Holds everything back until [`Self::heal`]; connections stay open.
    pub fn black_hole(&self) {
        self.shared.weather.send_replace(Weather::BlackHole);
    }

    /// Makes each message wait.
    pub fn delay(&self, by: Duration) {
        self.shared.weather.send_replace(Weather::Slow(by));
    }

    /// Lets everything pass again.
    pub fn heal(&self) {
        self.shared.weather.send_replace(Weather::Fair);
        *self.shared.ambush() = None;
    }

    /// Loses the reply to the next request that contains `text`: the server has done it, the client gets a
    /// closed connection.
    pub fn lose_reply_to(&self, text: &str) {
        *self.shared.ambush() = Some(Ambush::ReplyTo(text.into()));
    }

    /// Holds everything back from the next request that contains `text` on, as [`Self::black_hole`] does.
    ///
    /// - `with`: holds the request back too; otherwise the server gets it, and the client gets no reply.
    pub fn hold_at(&self, text: &str, with: bool) {
        *self.shared.ambush() = Some(Ambush::HoldAt { text: text.into(), with });
    }

    /// Loses the message that goes `way` after `after` others, and closes its connection.
    pub fn lose_nth(&self, way: Way, after: u32) {
        *self.shared.ambush() = Some(Ambush::Nth { way, after });
    }

    /// Whether a message to lose is still awaited.
    pub fn is_armed(&self) -> bool {
        self.shared.ambush().is_some()
    }

    /// Connections that stand.
    pub fn open(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Connections since the start.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Shared {
    fn ambush(&self) -> std::sync::MutexGuard<'_, Option<Ambush>> {
        self.ambush.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this message is to be lost; `true` once.
    fn loses(&self, way: Way, bytes: &[u8], doomed: &Mutex<bool>) -> bool {
        let mut doomed = doomed.lock().unwrap_or_else(PoisonError::into_inner);
        if way == Way::Reply && std::mem::take(&mut *doomed) {
            return true;
        }
        let mut ambush = self.ambush();
        match &mut *ambush {
            Some(Ambush::Nth { way: its, after: 0 }) if *its == way => {
                *ambush = None;
                true
            }
            Some(Ambush::Nth { way: its, after }) if *its == way => {
                *after -= 1;
                false
            }
            Some(Ambush::ReplyTo(text)) if way == Way::Request && contains(bytes, text) => {
                *ambush = None;
                *doomed = true;
                false
            }
            Some(Ambush::HoldAt { text, with: true }) if way == Way::Request && contains(bytes, text) => {
                self.weather.send_replace(Weather::BlackHole);
                *ambush = None;
                false
            }
            Some(Ambush::Nth { .. } | Ambush::ReplyTo(_) | Ambush::HoldAt { .. }) | None => false,
        }
    }

    /// Holds the replies back once the server has this request.
    fn hold_after(&self, way: Way, bytes: &[u8]) {
        let mut ambush = self.ambush();
        if let Some(Ambush::HoldAt { text, with: false }) = &*ambush
            && way == Way::Request
            && contains(bytes, text)
        {
            self.weather.send_replace(Weather::BlackHole);
            *ambush = None;
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends when either end closes, or with the cut that the proxy ends with"
        )]
        tokio::spawn(async move {
            shared.open.fetch_add(1, Ordering::SeqCst);
            serve(client, Arc::clone(&shared)).await;
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Passes messages both ways until either end closes or the network cuts.
async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let mut weather = shared.weather.subscribe();
    if *weather.borrow() == Weather::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", shared.target)).await else { return };
    // An error only means that small messages may be late.
    client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).ok();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let doomed = Mutex::new(false);
    tokio::select! {
        () = pass(Way::Request, from_client, to_server, &shared, &doomed) => {}
        () = pass(Way::Reply, from_server, to_client, &shared, &doomed) => {}
        _ = weather.wait_for(|weather| *weather == Weather::Cut) => {}
    }
}

async fn pass(way: Way, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, doomed: &Mutex<bool>) {
    let mut weather = shared.weather.subscribe();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let message = &buffer[..length];
        if shared.loses(way, message, doomed) {
            return;
        }
        let now = *weather.borrow();
        if let Weather::Slow(by) = now {
            tokio::time::sleep(by).await;
        }
        // What was held back when the network is cut is lost with it.
        match weather.wait_for(|weather| *weather != Weather::BlackHole).await.map(|now| *now) {
            Ok(Weather::Fair | Weather::Slow(_)) => {}
            Ok(Weather::Cut | Weather::BlackHole) | Err(_) => return,
        }
        // Before it is written: no reply may overtake. This message has passed the check.
        shared.hold_after(way, message);
        if to.write_all(message).await.is_err() {
            return;
        }
    }
}
