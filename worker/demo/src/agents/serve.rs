//! The demo agents as a web service for `http` executors.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::booking::{self, Book, BookingAgent};
use super::{agents, executors};

/// Counted calls; above this the counts are reset.
const CALLS_MAX: usize = 10_000;

/// The shipped agents, on a port of this machine; it stops when this is dropped.
pub struct DemoServer {
    address: SocketAddr,
    book: Book,
    _stop: DropGuard,
}

/// Serves the shipped agents under `POST /<agent_type>` on a free port of 127.0.0.1.
pub async fn serve() -> io::Result<DemoServer> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let book = Book::default();
    let mut executors = executors();
    executors.insert(booking::NAME.into(), Arc::new(BookingAgent(book.clone())));
    let app = Arc::new(DemoApp { executors, calls: Mutex::default() });
    let router = Router::new().route("/{agent_type}", post(answer)).with_state(app);
    let stopped = stop.clone();
    TaskTracker::new().spawn(async move {
        tokio::select! {
            served = async { axum::serve(listener, router).await } => {
                if let Err(e) = served {
                    tracing::error!("the demo agents cannot be served: {e}");
                }
            }
            () = stopped.cancelled() => {}
        }
    });
    Ok(DemoServer { address, book, _stop: stop.drop_guard() })
}

impl DemoServer {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The book of the agent `booking_agent`.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// `http` executors for a worker's `agents` setting.
    pub fn settings(&self) -> BTreeMap<AgentType, Value> {
        agents()
            .into_iter()
            .map(|card| {
                let url = format!("http://{}/{}", self.address, card.agent_type);
                (card.agent_type.clone(), json!({"kind": "http", "url": url, "card": card}))
            })
            .collect()
    }
}

struct DemoApp {
    executors: BTreeMap<AgentType, Arc<dyn Executor>>,
    /// Attempts by idempotency key.
    calls: Mutex<BTreeMap<String, u32>>,
}

impl DemoApp {
    /// The number of this call among those with the same key, counted from 1.
    fn count(&self, key: &str) -> u32 {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= CALLS_MAX && !calls.contains_key(key) {
            calls.clear();
        }
        let count = calls.entry(key.to_owned()).or_default();
        *count += 1;
        *count
    }
}

#[derive(Deserialize)]
struct DemoCall {
    #[serde(default)]
    task: CallHead,
    #[serde(default)]
    inputs: Json,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallHead {
    action: String,
    description: String,
    expected_outputs: Vec<String>,
}

async fn answer(
    State(app): State<Arc<DemoApp>>,
    Path(agent_type): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(executor) = app.executors.get(agent_type.as_str()) else {
        let message = format!("there is no demo agent `{agent_type}`");
        return refuse(StatusCode::NOT_FOUND, &Failure::new(FailureClass::Permanent, "NO_SUCH_AGENT", message));
    };
    let call: DemoCall = match serde_json::from_slice(&body) {
        Ok(call) => call,
        Err(e) => {
            let failure = Failure::new(FailureClass::Permanent, "INVALID_JSON", e.to_string());
            return refuse(StatusCode::BAD_REQUEST, &failure);
        }
    };
    let key = headers.get("idempotency-key").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let task = task(agent_type.as_str().into(), call, app.count(&key), key);
    match executor.execute(&task, &Progress::default(), &CancellationToken::new()).await {
        Ok(outcome) => axum::Json(envelope(outcome)).into_response(),
        Err(failure) => refuse(status_of(failure.class), &failure),
    }
}

fn envelope(outcome: ExecutionResult) -> Value {
    let ExecutionResult { outputs, cost, tokens, currency, measures, .. } = outcome;
    let mut answer = json!({"outputs": outputs});
    if cost > 0.0 || tokens > 0 || !measures.is_empty() {
        answer["cost"] = cost.into();
        answer["tokens"] = tokens.into();
        answer["measures"] = json!(measures);
    }
    if let Some(currency) = currency {
        answer["currency"] = currency.into();
    }
    answer
}

/// The parts of a task that the demo agents read.
fn task(agent_type: AgentType, call: DemoCall, attempt: u32, idempotency_key: String) -> Task {
    Task {
        plan: "".into(),
        family: None,
        step: "".into(),
        attempt,
        token: "".into(),
        agent_type,
        action: call.task.action,
        description: call.task.description,
        inputs: call.inputs,
        expected_outputs: call.task.expected_outputs,
        expected_output: String::new(),
        output_schema: None,
        timeout_ms: 0,
        lease_ms: 0,
        reply: String::new(),
        idempotency_key,
        calls: Vec::new(),
        callback: None,
        budget: None,
        traceparent: None,
    }
}

fn status_of(class: FailureClass) -> StatusCode {
    match class {
        FailureClass::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        FailureClass::Transient | FailureClass::Lost => StatusCode::SERVICE_UNAVAILABLE,
        FailureClass::Timeout => StatusCode::GATEWAY_TIMEOUT,
        FailureClass::Permanent | FailureClass::ConstraintViolation => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn refuse(status: StatusCode, failure: &Failure) -> Response {
    (status, axum::Json(json!({"error": failure}))).into_response()
}
