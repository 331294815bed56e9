//! The server over standard input and output, one message a line.

use std::sync::Arc;

use goalmill_client::Client;
use rmcp::ServiceExt;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, duplex, stdin, stdout};
use tokio::sync::Mutex;

use crate::message_check::{CheckedMessage, check_message};
use crate::server::McpServer;

/// Bytes between the pipes and the server.
const PIPE_BYTES: usize = 64 << 10;

/// Why a server over standard input and output has ended.
#[derive(Debug, thiserror::Error)]
pub enum McpServerError {
    #[error("the client did not initialize: {0}")]
    Initialize(String),
    #[error("the session has failed: {0}")]
    Session(String),
}

/// Serves until standard input ends.
pub async fn serve_stdio(server: McpServer<Client>) -> Result<(), McpServerError> {
    serve_lines(server, stdin(), stdout()).await
}

/// Serves until `input` ends. Messages that the server cannot read are answered here.
async fn serve_lines(
    server: McpServer<Client>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Result<(), McpServerError> {
    let (requests, server_input) = duplex(PIPE_BYTES);
    let (server_output, answers) = duplex(PIPE_BYTES);
    let output = Arc::new(Mutex::new(output));
    let serving = async {
        let running = server.serve((server_input, server_output)).await;
        let running = running.map_err(|error| McpServerError::Initialize(error.to_string()))?;
        running.waiting().await.map_err(|error| McpServerError::Session(error.to_string()))
    };
    let pumping = async { tokio::join!(pass_requests(input, requests, &output), pass_answers(answers, &output)) };
    tokio::pin!(serving, pumping);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        (read, written) = &mut pumping => {
            read.and(written).map_err(|error| McpServerError::Session(error.to_string()))?;
            return serving.await.map(drop);
        }
    };
    ended.map(drop)
}

async fn pass_requests(
    input: impl AsyncRead + Unpin,
    mut requests: impl AsyncWrite + Unpin,
    output: &Mutex<impl AsyncWrite + Unpin>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(input).split(b'\n');
    while let Some(line) = lines.next_segment().await? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match check_message(&line) {
            CheckedMessage::Same => write_line(&mut requests, line).await?,
            CheckedMessage::Changed(line) => write_line(&mut requests, line).await?,
            CheckedMessage::Refused(answer) => write_line(&mut *output.lock().await, answer).await?,
        }
    }
    requests.shutdown().await
}

async fn pass_answers(answers: impl AsyncRead + Unpin, output: &Mutex<impl AsyncWrite + Unpin>) -> std::io::Result<()> {
    let mut lines = BufReader::new(answers).split(b'\n');
    while let Some(line) = lines.next_segment().await? {
        write_line(&mut *output.lock().await, line).await?;
    }
    Ok(())
}

async fn write_line(output: &mut (impl AsyncWrite + Unpin), mut line: Vec<u8>) -> std::io::Result<()> {
    line.push(b'\n');
    output.write_all(&line).await?;
    output.flush().await
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_message_that_cannot_be_read_does_not_end_the_session() {
        let clients = Client::new("http://127.0.0.1:1").expect("it is an address");
        let server = McpServer { clients, writes: false, how_to_allow_writes: "nothing" };
        let lines = [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"plan_status","arguments":"no"}}"#,
            "[]",
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#,
        ];
        let (mut input, server_side) = duplex(PIPE_BYTES);
        let (output, read_side) = duplex(PIPE_BYTES);
        let talk = async {
            let mut answers = BufReader::new(read_side).lines();
            let mut answered = Vec::new();
            for line in lines {
                write_line(&mut input, line.as_bytes().to_vec()).await.expect("the server reads");
                if !line.contains("notifications") {
                    let answer = answers.next_line().await.expect("it can be read").expect("there is an answer");
                    answered.push(serde_json::from_str::<Value>(&answer).expect("an answer is JSON"));
                }
            }
            drop(input);
            answered
        };
        let (served, answered) = tokio::join!(serve_lines(server, server_side, output), talk);
        served.expect("it ends with its input");
        assert_eq!(answered[0]["result"]["serverInfo"]["name"], "goalmill");
        assert_eq!((&answered[1]["id"], &answered[1]["error"]["code"]), (&2.into(), &(-32602).into()));
        assert_eq!(answered[2]["error"]["code"], -32600);
        assert!(answered[3]["result"]["tools"].is_array(), "{}", answered[3]);
    }
}
