//! Tests of the requests that a client sends again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use goalmill_client::{Client, ClientError, PlanQuery};
use goalmill_common::problem::{ErrorCode, Problem};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const ACCEPTED: &str = r#"{"plan_id": "p0-1", "status": "planning"}"#;
const NO_PLANS: &str = r#"{"items": []}"#;

/// What a server does with a connection.
#[derive(Clone)]
enum Reply {
    Answer(u16, String),
    /// Closes the connection without an answer.
    Reset,
}

fn problem(code: ErrorCode, retry_after_s: Option<u64>) -> Reply {
    let problem = Problem { retry_after_s, ..Problem::new(code, "soon") };
    Reply::Answer(code.status(), serde_json::to_string(&problem).expect("it has a JSON text"))
}

/// Requests in the order of their arrival: the first line and the idempotency key.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server that gives one reply after the other, the last one for ever.
async fn server(replies: Vec<Reply>) -> (Client, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let seen = Seen::default();
    let requests = seen.clone();
    #[expect(clippy::disallowed_methods, reason = "it ends with the runtime of the test")]
    tokio::spawn(async move {
        for n in 0.. {
            let (stream, _) = listener.accept().await.expect("it listens");
            serve(stream, &replies[n.min(replies.len() - 1)], &requests).await;
        }
    });
    (Client::new(&format!("http://{address}")).expect("it is an address"), seen)
}

async fn serve(mut stream: TcpStream, reply: &Reply, seen: &Seen) {
    let mut text = String::new();
    while !text.contains("\r\n\r\n") {
        let mut bytes = [0; 4_096];
        let count = stream.read(&mut bytes).await.expect("the client writes");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    let key = text.lines().find(|line| line.to_ascii_lowercase().starts_with("idempotency-key")).unwrap_or_default();
    seen.lock().expect("it is free").push(format!("{} {key}", text.lines().next().unwrap_or_default()));
    if let Reply::Answer(status, body) = reply {
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("the client reads");
    }
}

fn requests(seen: &Seen) -> Vec<String> {
    seen.lock().expect("it is free").clone()
}

#[tokio::test]
async fn a_submission_with_an_id_is_sent_again_until_a_scheduler_is_ready() {
    let replies = vec![
        problem(ErrorCode::NotReady, None),
        Reply::Reset,
        problem(ErrorCode::StoreUnavailable, Some(1)),
        Reply::Answer(503, "no upstream".into()),
        Reply::Answer(202, ACCEPTED.into()),
    ];
    let (client, seen) = server(replies).await;
    let client = client.retrying(Duration::from_mins(1), None);
    let accepted = client.submit_goal(&json!({"description": "x"}), "key-1").await.expect("it is accepted in the end");
    assert_eq!(accepted.plan_id.as_str(), "p0-1");
    let requests = requests(&seen);
    assert_eq!(requests.len(), 5, "{requests:?}");
    assert!(requests.iter().all(|request| request.contains("/v1/goals") && request.ends_with("key-1")), "{requests:?}");
}

#[tokio::test]
async fn reads_are_sent_again_and_what_changes_something_is_not() {
    let (client, seen) = server(vec![Reply::Reset, Reply::Answer(200, NO_PLANS.into())]).await;
    client.plans(&PlanQuery::default()).await.expect("the second one is answered");
    assert_eq!(requests(&seen).len(), 2);
    let (client, seen) = server(vec![problem(ErrorCode::NotReady, None)]).await;
    let failed = client.steer_plan(&"p0-1".into(), "cancel", json!({})).await.expect_err("it is refused");
    assert!(matches!(failed, ClientError::Problem(problem) if problem.code == ErrorCode::NotReady));
    assert_eq!(requests(&seen).len(), 1, "whoever cancels decides whether to do so again");
}

#[tokio::test]
async fn other_refusals_and_waits_that_are_too_long_end_at_once() {
    for reply in [problem(ErrorCode::PlanNotFound, None), problem(ErrorCode::NotReady, Some(3_600))] {
        let (client, seen) = server(vec![reply]).await;
        client.plans(&PlanQuery::default()).await.expect_err("it is refused");
        assert_eq!(requests(&seen).len(), 1);
    }
}

#[tokio::test]
async fn the_time_of_repetitions_is_limited_and_a_person_is_told_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = told.clone();
    let (client, seen) = server(vec![problem(ErrorCode::NotReady, None)]).await;
    let notice = move |text: &str| notes.lock().expect("it is free").push(text.to_owned());
    let client = client.retrying(Duration::from_secs(2), Some(Arc::new(notice)));
    let failed = client.plans(&PlanQuery::default()).await.expect_err("it is never ready");
    assert!(matches!(failed, ClientError::Problem(problem) if problem.code == ErrorCode::NotReady));
    assert!(told.lock().expect("it is free").len() <= 1 && !requests(&seen).is_empty());
    let (client, seen) = server(vec![problem(ErrorCode::NotReady, None)]).await;
    client.retrying(Duration::ZERO, None).plans(&PlanQuery::default()).await.expect_err("it is not ready");
    assert_eq!(requests(&seen).len(), 1);
}

#[tokio::test]
async fn a_scheduler_that_starts_late_gets_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    drop(listener);
    let (told, seen) = (Arc::new(Notify::new()), Seen::default());
    let waits = told.clone();
    let notice = move |_: &str| waits.notify_one();
    let client = Client::new(&format!("http://{address}")).expect("it is an address");
    let client = client.retrying(Duration::from_mins(1), Some(Arc::new(notice)));
    let late = async {
        told.notified().await;
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let (stream, _) = listener.accept().await.expect("it listens");
        serve(stream, &Reply::Answer(200, NO_PLANS.into()), &seen).await;
    };
    let query = PlanQuery::default();
    let (plans, ()) = tokio::join!(client.plans(&query), late);
    plans.expect("it is answered");
}
