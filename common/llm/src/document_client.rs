//! Fetches documents over HTTP for prompts, within limits of time and size.

use std::time::Duration;

use futures_util::StreamExt;
use goalmill_common::tls_error::client_failure;
use reqwest::redirect;

use crate::provider_client::install_tls;

/// HTTP client for documents. Redirects are not followed, so that nothing is read but the given addresses.
#[derive(Debug)]
pub struct DocumentClient(reqwest::Client);

impl DocumentClient {
    /// - `timeout`: for one document, from the request to its end.
    /// - `is_secure`: whether an address is `https`; loading the system certificates is slow and not needed otherwise.
    pub fn new(timeout: Duration, is_secure: bool) -> Result<Self, String> {
        install_tls();
        let mut builder = reqwest::Client::builder()
            .timeout(timeout)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("goalmill/", env!("CARGO_PKG_VERSION")));
        if !is_secure {
            builder = builder.tls_certs_only([]);
        }
        builder.build().map(Self).map_err(|error| client_failure(&error))
    }

    /// The text at an address; bytes that are no UTF-8 are replaced. The error is a message for users, without the
    /// address.
    pub async fn fetch(&self, url: &str, bytes_max: usize) -> Result<String, String> {
        let failed = |error: reqwest::Error| client_failure(&error.without_url());
        let response = self.0.get(url).send().await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(format!("the server answered {}", response.status()));
        }
        let mut bytes = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece.map_err(failed)?);
            if bytes.len() > bytes_max {
                return Err(format!("it has more than {bytes_max} bytes"));
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn documents_are_bounded_and_redirects_are_not_followed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let at = format!("http://{}", listener.local_addr().expect("it has an address"));
        let serve = async {
            for answer in [
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
                "HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            ] {
                let (mut socket, _) = listener.accept().await.expect("a client comes");
                let mut request = [0; 4_096];
                let received = socket.read(&mut request).await.expect("it sends a request");
                assert!(received > 0, "the request is not empty");
                socket.write_all(answer.as_bytes()).await.expect("it is there");
            }
        };
        let ask = async {
            let client = DocumentClient::new(Duration::from_secs(10), false).expect("a client can be made");
            assert_eq!(client.fetch(&at, 5).await, Ok("hello".to_owned()));
            assert!(client.fetch(&at, 4).await.is_err());
            assert!(client.fetch(&at, 5).await.expect_err("it is a redirect").contains("302"));
        };
        tokio::join!(serve, ask);
    }
}
