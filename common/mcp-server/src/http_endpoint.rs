//! The server over streamable HTTP: what one address of an HTTP server answers.
//!
//! Every request stands for itself, so any of several servers may answer it. Only clients of protocols before 2026-07-28 get
//! a session, and only because such a server can ask a person in no other way. A request of a session that this server does
//! not have, or that belongs to another caller, is answered without it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::message_check::{CheckedMessage, check_message};
use crate::server::{CallerClient, McpServer};
use crate::sessions::BoundedSessions;

/// The media types that the library wants a client to take.
const BOTH: &str = "application/json, text/event-stream";
/// Names the session of a request.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// What clients may use up.
#[derive(Clone, Copy, Debug)]
pub struct EndpointLimits {
    /// Bytes of a message.
    pub body_bytes_max: usize,
    /// Most open sessions; 0 for none.
    pub sessions_max: usize,
    /// A session ends when nothing has happened in it for so long.
    pub idle: Duration,
}

/// Answers the requests of one address.
pub struct HttpEndpoint<C> {
    stateless: StreamableHttpService<McpServer<C>, NeverSessionManager>,
    sessions: Option<SessionService<C>>,
}

struct SessionService<C> {
    service: StreamableHttpService<McpServer<C>, BoundedSessions>,
    open: Arc<BoundedSessions>,
}

impl<C: CallerClient> HttpEndpoint<C> {
    /// The caller of this function has checked `Host`, `Origin` and credentials of each request.
    ///
    /// - `stop`: ends open streams and sessions.
    pub fn new(server: &McpServer<C>, limits: EndpointLimits, stop: &CancellationToken) -> Self {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(limits.body_bytes_max)
            .with_cancellation_token(stop.clone());
        let copy = |server: &McpServer<C>| {
            let server = server.clone();
            move || Ok(server.clone())
        };
        let alone = config.clone().with_legacy_session_mode(false).with_json_response(true);
        let sessions = (limits.sessions_max > 0).then(|| {
            let open = Arc::new(BoundedSessions::new(limits.sessions_max, limits.idle));
            SessionService { service: StreamableHttpService::new(copy(server), open.clone(), config), open }
        });
        Self { stateless: StreamableHttpService::new(copy(server), Arc::default(), alone), sessions }
    }

    /// Answers a request.
    ///
    /// - `caller`: whose the session is that the request may begin.
    pub async fn answer(&self, request: Request<Bytes>, caller: &str) -> Response<BoxBody<Bytes, Infallible>> {
        let kind = request.headers().get(CONTENT_TYPE);
        let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let mut response = self.pass_on(request, caller).await;
        // The library also says 415 of JSON that is not a message.
        if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        response
    }

    /// Passes a request on to the library, to the service that fits it.
    async fn pass_on(&self, mut request: Request<Bytes>, caller: &str) -> Response<BoxBody<Bytes, Infallible>> {
        let takes_streams = accepts(&request, "text/event-stream");
        if request.method() == Method::POST {
            match check_message(request.body()) {
                CheckedMessage::Same => {}
                CheckedMessage::Changed(body) => *request.body_mut() = body.into(),
                CheckedMessage::Refused(answer) => return bad_request(answer),
            }
            if !takes_streams && accepts(&request, "application/json") {
                // The library wants both; the answer of a request that stands for itself is JSON.
                request.headers_mut().insert(ACCEPT, HeaderValue::from_static(BOTH));
                return self.answer_alone(request).await;
            }
        }
        let Some(sessions) = &self.sessions else { return self.answer_alone(request).await };
        let session = request.headers().get(SESSION).and_then(|value| value.to_str().ok());
        if session.is_some_and(|session| sessions.open.is_of(session, caller)) {
            let ends = request.method() == Method::DELETE;
            let mut response = sessions.service.handle(request.map(Full::new)).await;
            // Clients take 202 for a failure.
            if ends && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            return response;
        }
        if !is_initialize(request.body()) {
            return self.answer_alone(request).await;
        }
        request.headers_mut().remove(SESSION);
        let response = sessions.service.handle(request.map(Full::new)).await;
        if let Some(session) = response.headers().get(SESSION).and_then(|value| value.to_str().ok()) {
            sessions.open.set_caller(session, caller);
        }
        response
    }

    async fn answer_alone(&self, mut request: Request<Bytes>) -> Response<BoxBody<Bytes, Infallible>> {
        request.headers_mut().remove(SESSION);
        self.stateless.handle(request.map(Full::new)).await
    }
}

/// Whether the client takes answers of a media type; all, if it does not say.
fn accepts<B>(request: &Request<B>, media_type: &str) -> bool {
    let given = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = given.flat_map(|value| value.split(',')).map(|one| one.split(';').next().unwrap_or("").trim());
    let is_json = media_type == "application/json";
    let fits = |one: &str| one.eq_ignore_ascii_case(media_type) || (is_json && matches!(one, "*/*" | "application/*"));
    if request.headers().contains_key(ACCEPT) { types.any(fits) } else { is_json }
}

/// The answer to a message that cannot be read: an error of JSON-RPC.
fn bad_request(error: Vec<u8>) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(BoxBody::new(Full::new(error.into())));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Whether a message begins a session.
fn is_initialize(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    // A list is no message, though a type can be read from one.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    is_object && serde_json::from_slice::<Message>(body).is_ok_and(|message| message.method == "initialize")
}

#[cfg(test)]
mod tests {
    use goalmill_client::Client;

    use super::*;

    const INITIALIZE: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}"#;

    fn endpoint(sessions_max: usize) -> HttpEndpoint<Client> {
        let clients = Client::new("http://127.0.0.1:1").expect("it is an address");
        let server = McpServer { clients, writes: false, how_to_allow_writes: "nothing" };
        let limits = EndpointLimits { body_bytes_max: 10_000, sessions_max, idle: Duration::from_mins(1) };
        HttpEndpoint::new(&server, limits, &CancellationToken::new())
    }

    fn request(method: &str, session: Option<&str>, body: &'static str) -> Request<Bytes> {
        let made = Request::builder().method(method).uri("http://localhost/mcp").header("host", "localhost");
        let made =
            made.header("accept", "application/json, text/event-stream").header("content-type", "application/json");
        let made = session.into_iter().fold(made, |made, session| made.header(SESSION, session));
        made.body(Bytes::from_static(body.as_bytes())).expect("it is a request")
    }

    async fn begin(endpoint: &HttpEndpoint<Client>) -> Option<String> {
        let answer = endpoint.answer(request("POST", None, INITIALIZE), "ann").await;
        assert_eq!(answer.status(), StatusCode::OK);
        answer.headers().get(SESSION).map(|session| session.to_str().expect("it is a text").to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_idle() {
        let endpoint = endpoint(10);
        let session = begin(&endpoint).await.expect("a session begins");
        let open = &endpoint.sessions.as_ref().expect("there are sessions").open;
        tokio::time::sleep(Duration::from_secs(50)).await;
        let answer = endpoint.answer(request("GET", Some(&session), ""), "ann").await;
        assert_eq!(answer.status(), StatusCode::OK, "it has a stream");
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert!(open.is_of(&session, "ann"), "the stream was a use");
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert!(!open.is_of(&session, "ann"));
        let answer = endpoint.answer(request("GET", Some(&session), ""), "ann").await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn without_sessions_each_request_stands_for_itself() {
        let endpoint = endpoint(0);
        assert_eq!(begin(&endpoint).await, None);
        let list = r#"{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}"#;
        let answer = endpoint.answer(request("POST", Some("gone"), list), "ann").await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "application/json");
    }

    #[tokio::test]
    async fn a_client_that_takes_json_alone_gets_json() {
        let endpoint = endpoint(10);
        let list = r#"{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}"#;
        for accept in [Some("application/json"), Some("*/*"), None] {
            for body in [INITIALIZE, list] {
                let mut request = request("POST", None, body);
                request.headers_mut().remove(ACCEPT);
                if let Some(accept) = accept {
                    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
                }
                let answer = endpoint.answer(request, "ann").await;
                assert_eq!(answer.status(), StatusCode::OK, "{accept:?}");
                assert_eq!(answer.headers()["content-type"], "application/json", "{accept:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_batch_is_answered_with_an_error_of_json_rpc() {
        let answer = endpoint(10).answer(request("POST", None, r#"[{"jsonrpc": "2.0"}]"#), "ann").await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert_eq!(answer.headers()["content-type"], "application/json");
    }

    #[test]
    fn only_the_first_message_of_a_session_is_one() {
        assert!(is_initialize(br#"{"jsonrpc": "2.0", "id": 1, "method": "initi\u0061lize", "params": {}}"#));
        for other in [&br#"{"method": "tools/list"}"#[..], br#"{"id": 1, "result": {}}"#, br#"["initialize"]"#, b""] {
            assert!(!is_initialize(other));
        }
    }
}
