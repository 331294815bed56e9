//! Errors of requests of the client.

use goalmill_common::id::PlanId;
use goalmill_common::problem::Problem;
use reqwest::StatusCode;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("`{server}` is no address of a server: {reason}")]
    InvalidAddress { server: String, reason: String },
    #[error("`{0}` is no namespace")]
    InvalidNamespace(String),
    #[error("the token has characters that no token has")]
    InvalidToken,
    /// The file of `GOALMILL_CA_FILE` or `--ca-file`.
    #[error("`{file}` has no certificates that the client can use: {reason}")]
    InvalidCaFile { file: String, reason: String },
    /// The server's certificate is of an unknown authority, for another name, or expired.
    #[error("the scheduler at {server} is not trusted: {reason}")]
    UntrustedCertificate { server: String, reason: String },
    /// The server did not answer, or no connection could be made.
    #[error("the scheduler at {server} cannot be reached: {reason}")]
    Unreachable { server: String, reason: String },
    /// The server has the request, and did not answer within the time of the client.
    #[error("the scheduler at {server} did not answer in time")]
    TimedOut { server: String },
    /// The machine has no CA certificates: only `http://` works.
    #[error("the scheduler at {server} cannot be asked: {reason}")]
    NoCertificates { server: String, reason: String },
    /// The server refused the request and said why.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// The server refused the request without a problem object.
    #[error("`{path}` at {server} answered {status}{}", colon(body))]
    Status { path: String, server: String, status: StatusCode, body: String },
    #[error("the answer of `{path}` at {server} cannot be read: {reason}")]
    InvalidAnswer { path: String, server: String, reason: String },
    #[error("the event `{event}` cannot be read: {reason}")]
    InvalidEvent { event: String, reason: String },
    #[error("`{0}` is no plan id")]
    InvalidSelector(String),
    #[error("`{selector}` is not unique: it may mean `{first}` or `{second}`")]
    AmbiguousSelector { selector: String, first: PlanId, second: PlanId },
    #[error("no plan is called `{0}`")]
    UnknownPlan(String),
    #[error("there is no plan yet")]
    NoPlans,
    #[error("no plan has failed")]
    NoFailedPlan,
}

fn colon(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}
