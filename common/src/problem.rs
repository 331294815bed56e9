//! Errors for clients: RFC 9457 problem objects with stable codes.

use serde::{Deserialize, Serialize};

use crate::json::Json;

/// Most single errors that one problem lists.
pub const ERRORS_MAX: usize = 50;

/// The reason of a refusal, for programs and people (RFC 9457, `application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Problem {
    /// `https://goalmill.dev/errors/<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for every problem with this code.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// The code, for programs.
    pub code: ErrorCode,
    /// What happened in this case, for people.
    pub detail: String,
    /// Every place that is wrong, at most [`ERRORS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Issue>,
    /// Seconds after which the same request may succeed, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// Where no planner made a plan: what each of them was asked and answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_trace: Option<Json>,
}

/// One error in a document: code, place, description, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Issue {
    /// Stable, upper case: `PLAN_CYCLE`.
    pub code: String,
    /// JSON Pointer (RFC 6901) to the place: `/steps/2/dependencies/0`.
    pub pointer: String,
    /// What is wrong.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl Problem {
    /// A problem with the title and status of its code, and no places yet.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("https://goalmill.dev/errors/{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_s: None,
            planning_trace: None,
        }
    }

    /// Attaches the single errors, the first [`ERRORS_MAX`] of them.
    #[must_use]
    pub fn with_errors(mut self, mut errors: Vec<Issue>) -> Self {
        errors.truncate(ERRORS_MAX);
        self.errors = errors;
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}]", self.detail, self.code.as_str())?;
        for e in &self.errors {
            write!(f, "\n  {} at {}: {}", e.code, if e.pointer.is_empty() { "/" } else { &e.pointer }, e.detail)?;
            if !e.hint.is_empty() {
                write!(f, "\n    help: {}", e.hint)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $retry:literal, $title:literal;)+) => {
        /// Every error a client can meet; the words are API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[expect(missing_docs, reason = "the titles say it, and a list of plain words stays one in the schema")]
        pub enum ErrorCode { $($(#[$doc])* #[serde(rename = $text)] $variant,)+ }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that programs go by: `PLAN_NOT_FOUND`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
            /// The HTTP status it answers with.
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }
            /// Whether the same request may succeed later.
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retry,)+ }
            }
            fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

codes! {
    InvalidJson = "INVALID_JSON", 400, false, "The text is not JSON";
    InvalidEntry = "INVALID_ENTRY", 400, false, "The stream entry is not a submission";
    UnsupportedType = "UNSUPPORTED_TYPE", 422, false, "The message type is not known here";
    InvalidGoal = "INVALID_GOAL", 422, false, "The goal cannot be accepted";
    InvalidPlan = "INVALID_PLAN", 422, false, "The plan cannot be accepted";
    InvalidRequest = "INVALID_REQUEST", 400, false, "The request is not valid";
    InvalidIdempotencyKey = "INVALID_IDEMPOTENCY_KEY", 400, false, "The idempotency key is not valid";
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED", 409, false, "The idempotency key belongs to another request";
    BodyTooLarge = "BODY_TOO_LARGE", 413, false, "The body is too large";
    RequestTimeout = "REQUEST_TIMEOUT", 408, true, "The request was not sent in time";
    MisdirectedRequest = "MISDIRECTED_REQUEST", 421, false, "The request was meant for another host";
    ForeignOrigin = "FOREIGN_ORIGIN", 403, false, "The request comes from another site's page";
    Unauthenticated = "UNAUTHENTICATED", 401, false, "The request needs valid credentials";
    Forbidden = "FORBIDDEN", 403, false, "The caller lacks the role";
    IssuerUnavailable = "ISSUER_UNAVAILABLE", 503, true, "The identity provider cannot be reached";
    TooManyFailures = "TOO_MANY_FAILURES", 429, true, "Too many requests with invalid credentials";
    NamespaceLimitReached = "NAMESPACE_LIMIT_REACHED", 429, true, "The namespace has reached a limit";
    TokenNotFound = "TOKEN_NOT_FOUND", 404, false, "There is no such token";
    DeadLetterNotFound = "DEAD_LETTER_NOT_FOUND", 404, false, "There is no such dead letter";
    WorkerNotFound = "WORKER_NOT_FOUND", 404, false, "There is no such worker";
    QueueNotFound = "QUEUE_NOT_FOUND", 404, false, "There is no such queue";
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", 415, false, "The content type is not supported";
    NotFound = "NOT_FOUND", 404, false, "There is no such resource";
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405, false, "The method is not allowed here";
    PlanNotFound = "PLAN_NOT_FOUND", 404, false, "There is no such plan";
    StoredPlanNotFound = "STORED_PLAN_NOT_FOUND", 404, false, "There is no such stored plan";
    StoredPlanRetired = "STORED_PLAN_RETIRED", 409, false, "The version of the stored plan is retired";
    StepNotFound = "STEP_NOT_FOUND", 404, false, "There is no such step";
    PlanFinal = "PLAN_FINAL", 409, false, "The plan has ended";
    PlanQuarantined = "PLAN_QUARANTINED", 409, false, "The plan is in quarantine";
    NotAllowed = "NOT_ALLOWED", 409, false, "The plan's status does not allow this";
    PlanningFailed = "PLANNING_FAILED", 422, false, "No planner could make a valid plan";
    Unroutable = "UNROUTABLE", 422, false, "No agent type fits a step";
    InvalidEventId = "INVALID_EVENT_ID", 400, false, "The event id is not valid";
    EventsTrimmed = "EVENTS_TRIMMED", 410, false, "The events are no longer kept";
    StoreUnavailable = "STORE_UNAVAILABLE", 503, true, "The store cannot be reached";
    StoreRefused = "STORE_REFUSED", 503, true, "Redis answers and cannot be used";
    MemoryPressure = "REDIS_MEMORY_PRESSURE", 503, true, "Redis is short of memory";
    DataLost = "REDIS_DATA_LOST", 503, true, "Redis holds other data than before";
    UnsafeStore = "REDIS_UNSAFE", 503, false, "Redis is set up in a way that can lose data";
    NotReady = "NOT_READY", 503, true, "The scheduler is not ready";
    Internal = "INTERNAL", 500, true, "Something went wrong here";
}
