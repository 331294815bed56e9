//! Fetches documents over HTTP for prompts, within limits of time and size.

use std::time::Duration;

use goalmill_http::{BodyError, client_failure, read_body};
use reqwest::redirect;

/// HTTP client for documents. Redirects are not followed, so that nothing is read but the given addresses.
#[derive(Debug)]
pub struct DocumentClient(reqwest::Client);

impl DocumentClient {
    /// - `timeout`: for one document, from the request to its end.
    /// - `is_secure`: whether an address is `https`.
    pub fn new(timeout: Duration, is_secure: bool) -> Result<Self, String> {
        let builder = goalmill_http::client(is_secure).timeout(timeout).redirect(redirect::Policy::none());
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
        let bytes = read_body(response, bytes_max).await.map_err(|error| match error {
            BodyError::TooLarge(_) => error.to_string(),
            BodyError::Failed(error) => failed(error),
        })?;
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
