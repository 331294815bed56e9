//! Plans a goal without running it, and looks whether the server still lives while it plans.

use std::time::Duration;

use goalmill_common::sse::SseParser;
use goalmill_common::view::{PlanningProgress, Preview};
use reqwest::Method;
use serde_json::Value;

use crate::{Client, ClientError};

/// The longest wait for a plan; planners have limits of their own.
const PLANNING: Duration = Duration::from_hours(1);
/// How often a server that is planning is asked whether it is alive, and how long it may take to say so.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// So many silent checks in a row end the wait.
const SILENT_MAX: u32 = 3;

impl Client {
    /// Plans a goal without running it. Waits as long as the planners may take, and as the server is alive.
    pub async fn preview(&self, goal: &Value) -> Result<Preview, ClientError> {
        let asked = self.read_answer(self.request(Method::POST, "/v1/plans:preview").timeout(PLANNING).json(goal));
        tokio::select! {
            answer = asked => answer,
            silence = self.await_silence() => Err(silence),
        }
    }

    /// As [`Self::preview`], and tells twice a second how far planning has come.
    pub async fn preview_with_progress(
        &self,
        goal: &Value,
        on_progress: impl FnMut(&PlanningProgress),
    ) -> Result<Preview, ClientError> {
        tokio::select! {
            answer = self.streamed_preview(goal, on_progress) => answer,
            silence = self.await_silence() => Err(silence),
        }
    }

    async fn streamed_preview(
        &self,
        goal: &Value,
        mut on_progress: impl FnMut(&PlanningProgress),
    ) -> Result<Preview, ClientError> {
        const PATH: &str = "/v1/plans:preview";
        let invalid =
            |reason: String| ClientError::InvalidAnswer { path: PATH.into(), server: self.base.clone(), reason };
        let request = self.with_credentials(self.http().client.post(format!("{}{PATH}", self.base)));
        let request = request.header("Accept", "text/event-stream, application/json").timeout(PLANNING).json(goal);
        let mut response = self.accept(request).await?;
        let media = response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !media.starts_with("text/event-stream") {
            // A server of an earlier version.
            let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
            return serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()));
        }
        let (mut parser, mut events) = (SseParser::default(), Vec::new());
        while let Some(bytes) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            parser.push(&bytes, &mut events);
            for event in events.drain(..) {
                let read = |error: serde_json::Error| invalid(error.to_string());
                match event.event.as_str() {
                    "progress" => on_progress(&serde_json::from_str(&event.data).map_err(read)?),
                    "preview" => return serde_json::from_str(&event.data).map_err(read),
                    "problem" => {
                        let problem = serde_json::from_str(&event.data).map_err(read)?;
                        return Err(ClientError::Problem(Box::new(problem)));
                    }
                    _ => {}
                }
            }
        }
        Err(invalid("the stream ended before the plan".into()))
    }

    /// Ends when the server has been silent for several checks in a row.
    async fn await_silence(&self) -> ClientError {
        let mut silent = 0;
        loop {
            tokio::time::sleep(ALIVE_EVERY).await;
            match self.send(self.request(Method::GET, "/livez").timeout(ALIVE_EVERY)).await {
                Ok(_) => silent = 0,
                Err(error) if silent + 1 == SILENT_MAX => return error,
                Err(_) => silent += 1,
            }
        }
    }
}
