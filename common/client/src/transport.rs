//! Transport to an API that is part of the same program.

use std::fmt;
use std::pin::Pin;

use reqwest::{Error, Request, Response};

/// The answer to a request, to be awaited. An error says why the request cannot be sent.
pub type PendingResponse = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;

/// Answers requests in place of a server at an address.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Answers a request; only method, path, query, headers and body count.
    fn send(&self, request: Request) -> PendingResponse;
}
