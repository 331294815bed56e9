//! The agent of all plans: a web service that does what the scripts say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::Result;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use goalmill_spec::{Act, Ask, Does, Script};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::installation::Installation;

/// Before a worker is killed: what it has reported before is on its way, and `started` is not yet.
const KILL_AFTER: Duration = Duration::from_millis(100);

/// The scripts of the plans, by the prefixes of their actions, and what was asked.
#[derive(Default)]
pub struct Agent {
    plans: Mutex<BTreeMap<String, (Script, Vec<Ask>)>>,
    /// Whose workers it kills.
    pub installation: OnceLock<Arc<Installation>>,
}

impl Agent {
    /// Begins a plan.
    pub fn add(&self, prefix: &str, script: Script) {
        self.plans.lock().expect("nobody panics with it").insert(prefix.into(), (script, Vec::new()));
    }

    /// Ends a plan. Returns what was asked for it.
    pub fn remove(&self, prefix: &str) -> Vec<Ask> {
        self.plans.lock().expect("nobody panics with it").remove(prefix).unwrap_or_default().1
    }

    /// Takes a question; one of a plan that has ended is never answered.
    fn ask(&self, action: &str, inputs: &Value) -> Act {
        let prefix = action.find('-').map_or(action, |end| &action[..=end]);
        let mut plans = self.plans.lock().expect("nobody panics with it");
        let Some((script, asks)) = plans.get_mut(prefix) else {
            return Act::new(0, Does::Silent);
        };
        let time = asks.iter().filter(|ask| ask.action == action).count();
        asks.push(Ask { at_ms: 0, action: action.into(), inputs: inputs.clone() });
        script.act(action, time)
    }
}

/// Serves an agent until the future is dropped.
pub async fn serve(listener: tokio::net::TcpListener, agent: Arc<Agent>) -> Result<()> {
    let router = Router::new().route("/{worker}", axum::routing::post(answer)).with_state(agent);
    Ok(axum::serve(listener, router).await?)
}

async fn answer(State(agent): State<Arc<Agent>>, Path(worker): Path<usize>, Json(call): Json<Value>) -> Response {
    let Act { after_ms, does, tokens, .. } =
        agent.ask(call["task"]["action"].as_str().unwrap_or_default(), &call["inputs"]);
    if does != Does::Lost {
        sleep(Duration::from_millis(after_ms)).await;
    }
    let error = |class, code| {
        let error = json!({"class": class, "code": code, "message": "as the script says"});
        Json(json!({"error": error, "tokens": tokens})).into_response()
    };
    match does {
        Does::Answer(outputs) => Json(json!({"outputs": outputs, "tokens": tokens})).into_response(),
        Does::Busy => error("transient", "AGENT_BUSY"),
        Does::Refuse => error("permanent", "AGENT_REFUSED"),
        Does::Cut if after_ms % 2 == 0 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Does::Cut => {
            let cut = futures_util::stream::once(async { Err::<&[u8], _>(std::io::Error::other("cut")) });
            Body::from_stream(cut).into_response()
        }
        Does::Lost => {
            sleep(KILL_AFTER).await;
            // This call ends with the worker.
            let kill = move || agent.installation.get().map(|installation| installation.replace_worker(worker));
            drop(tokio::task::spawn_blocking(kill).await);
            std::future::pending().await
        }
        Does::Silent => std::future::pending().await,
    }
}
