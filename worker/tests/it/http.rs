//! The `http` executor against a service of this process.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use goalmill_common::callback::TaskCallback;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::limits::Limits;
use goalmill_common::task::Task;
use goalmill_worker::executor::http::{HttpExecutor, HttpSettings};
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::task;

type Seen = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

/// A service whose path says how it answers.
async fn service() -> (String, Seen) {
    let seen: Seen = Arc::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let router = Router::new().route("/{how}", post(answer)).with_state(seen.clone());
    tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}"), seen)
}

async fn answer(State(seen): State<Seen>, Path(how): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    seen.lock().expect("nobody panics here").push((headers, body.clone()));
    let told = json!({"error": {"class": "permanent", "code": "NO_ROOM", "message": "full", "retry_after_ms": 5}});
    match how.as_str() {
        "plain" => axum::Json(json!({"hotels": [1]})).into_response(),
        "priced" => axum::Json(json!({"outputs": {"a": body["inputs"]}, "cost": 0.5, "tokens": 3})).into_response(),
        "html" => "<html>".into_response(),
        "seconds" => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")], "").into_response(),
        "fraction" => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0.5")], "").into_response(),
        "milliseconds" => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after-ms", "40")], "").into_response(),
        "accepted" => (StatusCode::ACCEPTED, axum::Json(json!({"outputs": {"a": 1}}))).into_response(),
        "empty" => StatusCode::OK.into_response(),
        "nothing" => axum::Json(json!({"outputs": null})).into_response(),
        "field" => {
            let said = json!({"detail": [{"loc": ["body", "city"], "msg": "field required"}]});
            (StatusCode::UNPROCESSABLE_ENTITY, axum::Json(said)).into_response()
        }
        "expired" => {
            let said = json!({"detail": "the token secret-value of Bearer abcdef is expired"});
            (StatusCode::UNAUTHORIZED, axum::Json(said)).into_response()
        }
        "later" => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "2")], "").into_response(),
        "told" => (StatusCode::SERVICE_UNAVAILABLE, axum::Json(told)).into_response(),
        "away" => Redirect::temporary("http://localhost:1/elsewhere").into_response(),
        "loop" => Redirect::temporary("/loop").into_response(),
        "huge" => axum::Json("x".repeat(3 << 20)).into_response(),
        "never" => std::future::pending().await,
        status => status.parse().ok().and_then(|s| StatusCode::from_u16(s).ok()).unwrap_or_default().into_response(),
    }
}

async fn ask(url: &str, task: &Task) -> Result<ExecutionResult, Failure> {
    let timeout_ms = if url.ends_with("/never") { 100 } else { 20_000 };
    let settings = json!({"url": url, "headers": {"authorization": "Bearer secret-value"}, "timeout_ms": timeout_ms});
    let settings: HttpSettings = serde_json::from_value(settings).expect("they are valid");
    let http = HttpExecutor::new(settings, &Limits::default()).expect("it is made");
    http.execute(task, &Progress::default(), &CancellationToken::new()).await
}

#[tokio::test]
async fn the_service_gets_the_task_but_not_its_token() {
    let (base, seen) = service().await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let task = Task {
        traceparent: Some(traceparent.into()),
        description: "find a hotel".into(),
        expected_outputs: vec!["a".into()],
        expected_output: "a hotel in the centre".into(),
        output_schema: Some(json!({"type": "object"}).into()),
        ..task("a", "x", json!({"q": 1}))
    };
    let outcome = ask(&format!("{base}/priced"), &task).await.expect("it answers");
    assert_eq!((outcome.outputs.text(), outcome.cost, outcome.tokens), (r#"{"a":{"q":1}}"#, 0.5, 3));
    let (headers, body) = seen.lock().expect("nobody panics here")[0].clone();
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    assert_eq!(header("idempotency-key"), Some("key-a"));
    assert_eq!(header("traceparent"), Some(traceparent));
    assert_eq!(header("authorization"), Some("Bearer secret-value"));
    assert_eq!((&body["task"]["step"], &body["task"]["attempt"]), (&json!("a"), &json!(1)));
    assert_eq!(
        (&body["task"]["description"], &body["task"]["expected_outputs"]),
        (&json!("find a hotel"), &json!(["a"]))
    );
    assert_eq!(body["task"]["expected_output"], "a hotel in the centre");
    assert_eq!(body["task"]["output_schema"], json!({"type": "object"}));
    assert!(!body.to_string().contains("token-a"));
    let outcome = ask(&format!("{base}/plain"), &task).await.expect("it answers");
    assert_eq!(outcome.outputs.text(), r#"{"hotels":[1]}"#);
}

#[tokio::test]
async fn every_answer_has_its_class() {
    let (base, _) = service().await;
    let task = task("a", "x", json!({}));
    let (transient, permanent) = (FailureClass::Transient, FailureClass::Permanent);
    for (how, class, code, retry_after_ms) in [
        ("408", transient, "HTTP_408", None),
        ("425", transient, "HTTP_425", None),
        ("429", FailureClass::RateLimited, "HTTP_429", None),
        ("500", transient, "HTTP_500", None),
        ("503", transient, "HTTP_503", None),
        ("400", permanent, "HTTP_400", None),
        ("404", permanent, "HTTP_404", None),
        ("304", permanent, "HTTP_304", None),
        ("seconds", FailureClass::RateLimited, "HTTP_429", Some(7_000)),
        ("later", FailureClass::RateLimited, "HTTP_503", Some(2_000)),
        ("529", FailureClass::RateLimited, "HTTP_529", None),
        ("fraction", FailureClass::RateLimited, "HTTP_429", Some(500)),
        ("milliseconds", FailureClass::RateLimited, "HTTP_503", Some(40)),
        ("accepted", permanent, "HTTP_202", None),
        ("empty", permanent, "ANSWER_EMPTY", None),
        ("nothing", permanent, "ANSWER_EMPTY", None),
        ("told", permanent, "NO_ROOM", Some(5)),
        ("html", permanent, "ANSWER_INVALID", None),
        ("away", permanent, "HTTP_307", None),
        ("loop", permanent, "HTTP_REDIRECTS", None),
        ("huge", permanent, "OUTPUT_TOO_LARGE", None),
        ("never", FailureClass::Timeout, "HTTP_TIMEOUT", None),
    ] {
        let failure = ask(&format!("{base}/{how}"), &task).await.expect_err(how);
        assert_eq!(
            (failure.class, failure.code.as_str(), failure.retry_after_ms),
            (class, code, retry_after_ms),
            "{how}"
        );
        assert!(!failure.message.contains(&base), "{how}: {}", failure.message);
    }
}

#[tokio::test]
async fn a_failure_quotes_what_the_service_said_without_secrets() {
    let (base, _) = service().await;
    let task = task("a", "x", json!({}));
    let said = |how: &'static str| {
        let (url, task) = (format!("{base}/{how}"), task.clone());
        async move { ask(&url, &task).await.expect_err(how).message }
    };
    assert_eq!(said("field").await, "the agent answered 422: body.city: field required");
    let expired = said("expired").await;
    assert!(expired.starts_with("the agent answered 401: the token [redacted]"), "{expired}");
    assert!(!expired.contains("secret-value") && !expired.contains("abcdef"), "{expired}");
    assert!(said("html").await.contains("it begins with `<html>`"));
    assert!(said("accepted").await.contains("docs/protocol.md"));
}

#[tokio::test]
async fn a_202_accepts_a_task_with_a_callback() {
    let (base, seen) = service().await;
    let callback = TaskCallback { url: "http://api/v1/callbacks/p/a/1".into(), token: "t".into() };
    let task = Task { callback: Some(callback), ..task("a", "x", json!({})) };
    let accepted = ask(&format!("{base}/accepted"), &task).await.expect("it is accepted");
    assert_eq!(accepted.outputs.text(), r#"{"accepted":true}"#);
    let body = seen.lock().expect("nobody panics here")[0].1.clone();
    assert_eq!(body["task"]["callback"], json!({"url": "http://api/v1/callbacks/p/a/1", "token": "t"}));
}

#[tokio::test]
async fn a_service_without_outputs_answers_204() {
    let (base, _) = service().await;
    let result = ask(&format!("{base}/204"), &task("a", "x", json!({}))).await.expect("it is done");
    assert_eq!(result.outputs.text(), "{}");
}

#[tokio::test]
async fn a_service_that_is_not_there_may_come_back() {
    // Bound and not listened on: nobody else can be given the port meanwhile.
    let port = tokio::net::TcpSocket::new_v4().expect("a socket can be made");
    port.bind("127.0.0.1:0".parse().expect("it is an address")).expect("a port is free");
    let address = port.local_addr().expect("it has an address");
    let failure = ask(&format!("http://{address}/x"), &task("a", "x", json!({}))).await.expect_err("nobody is there");
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Transient, "HTTP_UNREACHABLE"));
    assert!(!failure.may_be_done(), "nothing was sent");
}

#[tokio::test]
async fn a_failure_says_whether_the_agent_may_have_done_its_work() {
    let (base, _) = service().await;
    let task = task("a", "x", json!({}));
    let unknown = ["500", "503", "504", "accepted", "empty", "nothing", "html", "huge", "never"];
    let known = ["400", "404", "408", "429", "later", "529", "told", "away", "loop"];
    for (how, may_be_done) in unknown.map(|how| (how, true)).into_iter().chain(known.map(|how| (how, false))) {
        let failure = ask(&format!("{base}/{how}"), &task).await.expect_err(how);
        assert_eq!(failure.may_be_done(), may_be_done, "{how}: {failure:?}");
    }
    // The request was read, and the connection breaks.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    tokio_util::task::TaskTracker::new().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.readable().await.expect("the request comes");
            drop(stream);
        }
    });
    let failure = ask(&format!("http://{address}/x"), &task).await.expect_err("no answer comes");
    assert!(failure.may_be_done() && failure.code == "HTTP_UNREACHABLE", "{failure:?}");
}
