//! A request and its answer: credentials, repetition, and failures as errors.

use std::time::Duration;

use goalmill_common::config::environment;
use goalmill_common::problem::Problem;
use reqwest::{Method, Request, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Client, ClientError, traceparent};

/// A request that got no answer by then is given up.
const ANSWER: Duration = Duration::from_mins(1);
/// How the library begins to say that a server's certificate is refused.
const INVALID_CERTIFICATE: &str = "invalid peer certificate";
/// Characters of a person's name in the log.
const NAME_CHARS: usize = 64;

impl Client {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http().client.request(method, format!("{}{path}", self.base));
        self.with_credentials(request).header("Accept", "application/json").timeout(ANSWER)
    }

    pub(crate) fn with_credentials(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match &self.namespace {
            Some(namespace) => request.header("Goalmill-Namespace", namespace),
            None => request,
        };
        match &self.token {
            Some(token) => request.bearer_auth(&token.0),
            None => request,
        }
    }

    /// What begins a plan: as part of the trace that the command runs in, if it runs in one.
    pub(crate) fn submission(&self, path: &str, key: &str) -> RequestBuilder {
        let request = self.request(Method::POST, path).header("Idempotency-Key", key);
        match traceparent().filter(|_| self.transport.is_none()) {
            Some(traceparent) => request.header("traceparent", traceparent),
            None => request,
        }
    }

    /// A request with who makes it.
    pub(crate) fn signed(&self, mut body: Value) -> Value {
        let actor = self.actor.clone();
        body["actor"] =
            actor.unwrap_or_else(|| user_actor(environment("USER").or_else(|| environment("LOGNAME")))).into();
        body
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read_answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn read_answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let request = request.build().map_err(|error| self.unreachable(&error))?;
        let mut repetitions = self.retry.begin(&request);
        loop {
            match self.read_once(copy(&request)).await {
                Err(error) => repetitions.wait(error).await?,
                answer => return answer,
            }
        }
    }

    async fn read_once<T: DeserializeOwned>(&self, request: Request) -> Result<T, ClientError> {
        let response = self.accept_once(request).await?;
        let url = response.url().path().to_owned();
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::InvalidAnswer {
            path: url,
            server: self.base.clone(),
            reason: error.to_string(),
        })
    }

    /// Sends, and turns an answer that is no success into a failure.
    pub(crate) async fn accept(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let request = request.build().map_err(|error| self.unreachable(&error))?;
        let mut repetitions = self.retry.begin(&request);
        loop {
            match self.accept_once(copy(&request)).await {
                Err(error) => repetitions.wait(error).await?,
                answer => return answer,
            }
        }
    }

    async fn accept_once(&self, request: Request) -> Result<Response, ClientError> {
        let response = self.send_once(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let path = response.url().path().to_owned();
        let text = response.text().await.unwrap_or_default();
        if let Ok(problem) = serde_json::from_str::<Problem>(&text) {
            return Err(ClientError::Problem(Box::new(problem)));
        }
        let body: String = text.trim().chars().take(200).collect();
        Err(ClientError::Status { path, server: self.base.clone(), status, body })
    }

    /// Sends once; whatever the answer is, it is given back.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        self.send_once(request.build().map_err(|error| self.unreachable(&error))?).await
    }

    async fn send_once(&self, request: Request) -> Result<Response, ClientError> {
        if let Some(transport) = &self.transport {
            return transport.send(request).await.map_err(|error| self.unreachable(&error));
        }
        if let Some(why) = &self.http().plain_only
            && self.base.starts_with("https")
        {
            return Err(ClientError::NoCertificates { server: self.base.clone(), reason: why.clone() });
        }
        self.http().client.execute(request).await.map_err(|error| self.unreachable(&error))
    }

    pub fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let server = self.base.clone();
        if error.is_timeout() && !error.is_connect() {
            return ClientError::TimedOut { server };
        }
        let reason = if error.is_timeout() { "no connection in time".to_owned() } else { cause.to_string() };
        if reason.starts_with(INVALID_CERTIFICATE) {
            return ClientError::UntrustedCertificate { server, reason };
        }
        ClientError::Unreachable { server, reason }
    }
}

/// The request once more. Bodies are texts in memory, so there is always a copy.
fn copy(request: &Request) -> Request {
    request.try_clone().expect("no request has a body that is a stream")
}

/// `cli:ann`; letters that an id cannot have become `-`.
fn user_actor(user: Option<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    match user {
        Some(user) => format!("cli:{}", user.chars().take(NAME_CHARS).map(plain).collect::<String>()),
        None => "cli".into(),
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::id::is_id;

    use super::*;

    #[test]
    fn who_asks_is_an_id() {
        assert_eq!(user_actor(Some("ann".into())), "cli:ann");
        assert_eq!(user_actor(Some("Änn Smith".into())), "cli:-nn-Smith");
        assert_eq!(user_actor(None), "cli");
        assert!(is_id(&user_actor(Some("x".repeat(500)))));
    }
}
