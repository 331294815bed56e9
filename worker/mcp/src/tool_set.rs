//! The tools of an MCP server, for an executor or for an agent that calls them itself.

use std::time::Duration;

use goalmill_common::callback::TaskCallback;
use goalmill_common::clock::Clock;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::AgentType;
use goalmill_common::number::whole_u64;
use goalmill_common::retry_after::read_retry_after;
use goalmill_worker::executor::{ExecutionResult, clip};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData, GetMeta, JsonObject, ServerResult, Tool,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::connection::{McpConnection, McpPeer};
use crate::settings::McpSettings;
use crate::{failure, outputs};

/// Milliseconds for one call, unless the settings say otherwise.
const TIMEOUT_MS: u64 = 300_000;

/// The tools of one server that may be called.
pub struct McpToolSet {
    pub(crate) connection: McpConnection,
    /// All when empty.
    names: Vec<String>,
    timeout: Duration,
}

/// Name of the idempotency key of a call in its `_meta`.
const IDEMPOTENCY_KEY: &str = "goalmill/idempotency_key";
/// Name of the callback of a call in its `_meta`: an object with `url` and `token`.
const CALLBACK: &str = "goalmill/callback";

/// What a server says of one of its tools.
#[derive(Clone, Debug, PartialEq)]
pub struct McpToolInfo {
    /// The server's name of it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Whether the server says that a call changes nothing (`readOnlyHint`).
    pub is_read_only: bool,
}

impl McpToolSet {
    /// Reads the settings of a server; the error is a sentence for people. Nothing is connected yet.
    ///
    /// - `owner`: the agent type, for messages.
    pub fn new(owner: &AgentType, settings: &Value) -> Result<Self, String> {
        let settings: McpSettings = serde_json::from_value(settings.clone()).map_err(|error| error.to_string())?;
        settings.check_address()?;
        Ok(Self {
            names: settings.tools.clone(),
            timeout: Duration::from_millis(settings.timeout_ms.unwrap_or(TIMEOUT_MS)),
            connection: McpConnection::new(owner.clone(), settings),
        })
    }

    /// The tools as the server lists them now; connects if there is no connection.
    pub async fn list(&self) -> Result<Vec<McpToolInfo>, Failure> {
        self.connection.peer().await?;
        let known = self.connection.tools();
        let tools = known.iter().flat_map(|known| &known.1).filter(|tool| self.is_offered(tool));
        let info = |tool: &Tool| McpToolInfo {
            name: tool.name.to_string(),
            description: tool.description.as_deref().map(clip).unwrap_or_default(),
            parameters: Value::Object(tool.input_schema.as_ref().clone()),
            is_read_only: tool.annotations.as_ref().is_some_and(|hints| hints.read_only_hint == Some(true)),
        };
        Ok(tools.map(info).collect())
    }

    /// Calls a tool; a cancelled task, and a dropped future, cancel the call at the server.
    ///
    /// - `idempotency_key`: sent as `_meta`, so that a server can recognise a call that is made again.
    /// - `callback`: sent as `_meta`: where the outcome may go later.
    pub async fn call(
        &self,
        tool: String,
        arguments: JsonObject,
        idempotency_key: &str,
        callback: Option<&TaskCallback>,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let peer = self.connection.peer().await?;
        let request = CallToolRequest::new(CallToolRequestParams::new(tool).with_arguments(arguments));
        let mut request = ClientRequest::CallToolRequest(request);
        request.get_meta_mut().insert(IDEMPOTENCY_KEY.into(), idempotency_key.into());
        if let Some(callback) = callback {
            request.get_meta_mut().insert(CALLBACK.into(), json!(callback));
        }
        let result = send(&peer, request, self.timeout, cancelled).await;
        if matches!(result, Err(ServiceError::TransportClosed | ServiceError::TransportSend(_))) {
            self.connection.close().await;
        }
        let refused = |message: &str| Err(failure(FailureClass::Permanent, "MCP_REFUSED", message));
        let result = result.map_err(|error| failure_of(&error, self.timeout))?;
        if let ServerResult::CallToolResult(result) = result {
            outputs::parse_result(result)
        } else if let ServerResult::InputRequiredResult(_) = result {
            refused("the tool asks a person, and nobody is there")
        } else {
            refused("the server answered with something else")
        }
    }

    pub(crate) fn is_offered(&self, tool: &Tool) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| *name == tool.name)
    }
}

/// A request that is cancelled at the server when it is dropped before its answer.
struct PendingRequest(Option<RequestHandle<RoleClient>>);

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            drop(runtime.spawn(handle.cancel(Some("nobody waits for it".into()))));
        }
    }
}

async fn send(
    peer: &McpPeer,
    request: ClientRequest,
    timeout: Duration,
    cancelled: &CancellationToken,
) -> Result<ServerResult, ServiceError> {
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut pending = PendingRequest(Some(handle));
    let Some(handle) = pending.0.as_mut() else { return Err(ServiceError::TransportClosed) };
    let reason = tokio::select! {
        biased;
        answer = &mut handle.rx => {
            pending.0 = None;
            return answer.unwrap_or(Err(ServiceError::TransportClosed));
        }
        () = cancelled.cancelled() => "the attempt was cancelled",
        () = tokio::time::sleep(timeout) => "it took too long",
    };
    if let Some(handle) = pending.0.take() {
        handle.cancel(Some(reason.to_owned())).await?;
    }
    Err(ServiceError::Timeout { timeout })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
fn failure_of(error: &ServiceError, timeout: Duration) -> Failure {
    match error {
        ServiceError::McpError(error) if let Some(limited) = rate_limit(error) => limited,
        ServiceError::McpError(error) => {
            failure(FailureClass::Permanent, "MCP_REFUSED", format!("the server refused the call: {}", error.message))
        }
        ServiceError::Timeout { .. } => {
            let message = format!("the tool did not answer within {} ms", timeout.as_millis());
            failure(FailureClass::Timeout, "MCP_TIMEOUT", message)
        }
        ServiceError::TransportSend(sent) if let Some((status, wait)) = http_status(sent) => {
            let is_wait = matches!(status, 429 | 529) || (status == 503 && wait.is_some());
            let (class, code) = match is_wait {
                true => (FailureClass::RateLimited, "MCP_RATE_LIMITED"),
                false => (FailureClass::Transient, "MCP_UNREACHABLE"),
            };
            let failure =
                Failure { retry_after_ms: wait, ..failure(class, code, format!("the server answered {status}")) };
            if !is_wait && status >= 500 { failure.with_unknown_outcome() } else { failure }
        }
        error => failure(FailureClass::Transient, "MCP_UNREACHABLE", format!("the call broke off: {error}"))
            .with_unknown_outcome(),
    }
}

/// The failure if an error says that the server has a rate limit: there is no code for it, so servers use 429 or say
/// so in `data`.
fn rate_limit(error: &ErrorData) -> Option<Failure> {
    let field = |name: &str| error.data.as_ref().and_then(|data| data.get(name));
    let milliseconds = field("retry_after_ms").and_then(Value::as_u64);
    let seconds = field("retry_after").or_else(|| field("retryAfter")).and_then(Value::as_f64);
    let wait = milliseconds.or_else(|| seconds.map(|seconds| whole_u64((seconds * 1_000.0).ceil())));
    let says_so = field("class").and_then(Value::as_str) == Some("rate_limited");
    if !(says_so || wait.is_some() || matches!(error.code.0, 429 | 529)) {
        return None;
    }
    let message = format!("the server asks to wait: {}", error.message);
    Some(Failure { retry_after_ms: wait, ..failure(FailureClass::RateLimited, "MCP_RATE_LIMITED", message) })
}

/// The status with which an HTTP server refused a message, and how long it asks to wait.
fn http_status(sent: &DynamicTransportError) -> Option<(u16, Option<u64>)> {
    let refused: &StreamableHttpError<reqwest::Error> = sent.error.downcast_ref()?;
    let StreamableHttpError::HttpStatus(refused) = refused else { return None };
    let retry_after = |name: &str| refused.retry_after.as_deref().filter(|_| name == "retry-after");
    Some((refused.status, read_retry_after(retry_after, Clock::system().now_ms())))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;
    use rmcp::transport::streamable_http_client::HttpStatusError;

    use super::*;

    fn class_of(error: ServiceError) -> (FailureClass, Option<u64>) {
        let failure = failure_of(&error, Duration::from_secs(1));
        (failure.class, failure.retry_after_ms)
    }

    #[test]
    fn a_server_that_asks_to_wait_is_heard() {
        let refused = |code: i32, data| ServiceError::McpError(ErrorData::new(ErrorCode(code), "slow down", data));
        let waits = FailureClass::RateLimited;
        assert_eq!(class_of(refused(429, None)), (waits, None));
        assert_eq!(class_of(refused(-32000, Some(json!({"retry_after_ms": 40})))), (waits, Some(40)));
        assert_eq!(class_of(refused(-32000, Some(json!({"retryAfter": 1.5})))), (waits, Some(1_500)));
        assert_eq!(class_of(refused(-32000, Some(json!({"class": "rate_limited"})))), (waits, None));
        assert_eq!(class_of(refused(-32602, None)), (FailureClass::Permanent, None));
        let http = |status, retry_after: Option<&str>| {
            let refused = HttpStatusError::new(status, retry_after.map(str::to_owned));
            let error: StreamableHttpError<reqwest::Error> = refused.into();
            let type_id = std::any::TypeId::of::<()>();
            ServiceError::TransportSend(DynamicTransportError::from_parts("http", type_id, Box::new(error)))
        };
        assert_eq!(class_of(http(429, Some("2"))), (waits, Some(2_000)));
        assert_eq!(class_of(http(503, Some("0.5"))), (waits, Some(500)));
        assert_eq!(class_of(http(503, None)), (FailureClass::Transient, None));
    }
}
