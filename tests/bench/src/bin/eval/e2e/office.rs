//! The tools as a web service, as an agent's owner runs it: outside of Goalmill, and with a memory for what was done.
//!
//! An action is known by its idempotency key. The second time it is asked for, the first answer is given again and
//! nothing is done; a worker that ended between the action and its report therefore does no harm.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use goalmill_common::random::Random;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::tools::{Arguments, Desk};

/// The service; every plan has a workplace of its own, which begins like the first.
pub struct Office {
    first: Desk,
    /// Longest time between an action and its answer, in milliseconds: room for a kill.
    pause_ms_max: u64,
    random: Random,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    desks: BTreeMap<String, Desk>,
    answers: BTreeMap<String, Result<String, String>>,
    /// How often each step of each plan was really done.
    done: BTreeMap<(String, String), u32>,
    /// Calls that asked for what had been done.
    repeated: u64,
}

/// What a worker posts.
#[derive(Deserialize)]
struct Asked {
    task: Head,
    inputs: Arguments,
}

#[derive(Deserialize)]
struct Head {
    plan: String,
    step: String,
    agent_type: String,
    action: String,
    idempotency_key: String,
}

impl Office {
    pub fn new(first: Desk, pause_ms_max: u64, random: Random) -> Arc<Self> {
        Arc::new(Self { first, pause_ms_max, random, books: Mutex::default() })
    }

    /// Serves until the program ends; returns the address for workers.
    pub async fn open(self: &Arc<Self>) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/tools", post(answer)).with_state(self.clone());
        #[expect(clippy::disallowed_methods, reason = "it serves until the program ends")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(format!("http://{address}/tools"))
    }

    /// A plan's workplace as it is.
    pub fn desk(&self, plan: &str) -> Desk {
        self.books().desks.get(plan).cloned().unwrap_or_else(|| self.first.clone())
    }

    /// Steps of a plan that were done more than once.
    pub fn done_twice(&self, plan: &str) -> usize {
        self.books().done.iter().filter(|((of, _), times)| of == plan && **times > 1).count()
    }

    pub fn repeated(&self) -> u64 {
        self.books().repeated
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, asked: &Asked) -> Result<String, String> {
        let mut books = self.books();
        let key = &asked.task.idempotency_key;
        if let Some(answer) = books.answers.get(key).cloned() {
            books.repeated += 1;
            return answer;
        }
        let plan = asked.task.plan.clone();
        *books.done.entry((plan.clone(), asked.task.step.clone())).or_default() += 1;
        let desk = books.desks.entry(plan).or_insert_with(|| self.first.clone());
        let answer = desk.call(&format!("{}.{}", asked.task.agent_type, asked.task.action), &asked.inputs);
        books.answers.insert(key.clone(), answer.clone());
        answer
    }
}

async fn answer(State(office): State<Arc<Office>>, Json(asked): Json<Asked>) -> (StatusCode, Json<Value>) {
    let answer = office.act(&asked);
    let pause_ms = office.random.below(office.pause_ms_max + 1);
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    match answer {
        Ok(result) => (StatusCode::OK, Json(json!({"outputs": {"result": result}}))),
        Err(message) => (StatusCode::BAD_REQUEST, Json(json!({"error": {"code": "TOOL_UNKNOWN", "message": message}}))),
    }
}
