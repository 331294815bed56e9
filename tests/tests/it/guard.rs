//! Hosts and origins that are answered, and time limits of requests.

use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_tests::installation::{Installation, settings};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_is_not_answered() -> Result<()> {
    let it = Installation::embedded().await?;
    let ask = async |name: &str, value: &str| -> Result<(u16, Value, bool)> {
        let answer = it.http.get(it.url("/v1/plans")).header(name, value).send().await?;
        let shared = answer.headers().contains_key("access-control-allow-origin");
        Ok((answer.status().as_u16(), answer.json().await?, shared))
    };
    let (status, problem, _) = ask("Host", "evil.example").await?;
    assert_eq!((status, &problem["code"]), (421, &"MISDIRECTED_REQUEST".into()));
    let (status, problem, shared) = ask("Origin", "http://evil.example").await?;
    assert_eq!((status, &problem["code"], shared), (403, &"FOREIGN_ORIGIN".into(), false));
    let own = it.url("");
    assert_eq!(ask("Origin", &own).await?.0, 200);
    assert_eq!(ask("Host", "localhost:1").await?.0, 200);
    it.stop().await;
    Ok(())
}

/// Sends `text`, then nothing, and reads until the server closes the connection.
async fn say_and_wait(it: &Installation, text: &str) -> Result<String> {
    let api = it.schedulers[0].api().context("the settings name an address")?;
    let mut line = TcpStream::connect(api).await?;
    line.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    tokio::time::timeout(LIMIT, line.read_to_string(&mut answer)).await.context("the server waits for ever")??;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_go_on_is_let_go() -> Result<()> {
    let mut settings = settings();
    (settings.api.head_ms, settings.api.body_ms) = (300, 300);
    let broker = goalmill_broker::embedded::open(None, goalmill_common::clock::Clock::system())?;
    let it = Installation::start(broker, settings).await?;
    let head = "POST /v1/plans HTTP/1.1\r\nHost: localhost\r\n";
    let answer = say_and_wait(&it, head).await?;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "half a head: {answer}");
    let answer = say_and_wait(&it, &format!("{head}Content-Length: 100\r\n\r\n{{\"steps\"")).await?;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("REQUEST_TIMEOUT"), "half a body: {answer}");
    let answer = say_and_wait(&it, &format!("{head}Content-Length: 99999999999\r\n\r\n")).await?;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("BODY_TOO_LARGE"), "an endless body: {answer}");
    assert_eq!(it.http.get(it.url("/livez")).send().await?.status(), 200, "others are served");
    it.stop().await;
    Ok(())
}
