//! Client of the HTTP API: one function per route, typed answers, problems as errors.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use goalmill_common::access::{NewToken, TokenCreated, TokenView};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::config::environment;
use goalmill_common::document_format::DocumentFormat;
use goalmill_common::id::{Namespace, PlanId, StepId, WorkerId, is_id};
use goalmill_common::quality::QualityReport;
use goalmill_common::revision::RevisionRecord;
use goalmill_common::stored_plan::{StoredPlanRef, StoredPlanVersion, StoredPlanView};
use goalmill_common::trace::is_traceparent;
use goalmill_common::view::{
    Accepted, BulkAnswer, DeadLetterView, EventReceipt, Explanation, ModelView, Page, PlanSummary, PlanView,
    PlannerView, Preview, QuestionView, QueueView, Results, StepView, WaitView,
};
use goalmill_http::client_failure;
use reqwest::{Certificate, Method, RequestBuilder, Response};
use serde_json::{Map, Value, json};

mod error;
mod exchange;
mod http;
mod logs;
mod plan_selector;
mod preview;
mod query;
mod retry;
mod transport;

pub use error::ClientError;
pub use query::{Candidates, Document, EventPage, EventQuery, LogQuery, PlanQuery, StatsQuery};
pub use retry::{Notice, RETRY_FOR};
pub use transport::{PendingResponse, Transport};

use http::{Http, IN_PROCESS_HTTP, builder};
use retry::RequestRetry;

/// Stands for the address of an API in the same program.
const IN_PROCESS: &str = "http://in-process.invalid";
/// Bytes of a file with certificates of authorities.
const CA_BYTES_MAX: u64 = 4 << 20;
/// The text of a token; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl From<String> for BearerToken {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

/// Speaks to one server.
#[derive(Clone, Debug)]
pub struct Client {
    /// Made for the first request: most machines' certificates are read for it.
    http: Arc<OnceLock<Http>>,
    base: String,
    token: Option<BearerToken>,
    /// The only authorities that are trusted; those of the machine without them.
    authorities: Option<Arc<Vec<Certificate>>>,
    namespace: Option<String>,
    /// Who acts, if it is not the user of this program.
    actor: Option<String>,
    /// What answers in place of the server.
    transport: Option<Arc<dyn Transport>>,
    retry: RequestRetry,
}

/// The trace context that this program was started with, as programs hand it on in `TRACEPARENT`.
pub fn traceparent() -> Option<String> {
    environment("TRACEPARENT").filter(|text| is_traceparent(text))
}

impl Client {
    /// Prepares a client; nothing is sent yet.
    pub fn new(server: &str) -> Result<Self, ClientError> {
        let base = server.trim_end_matches('/').to_owned();
        let base = if base.contains("://") { base } else { format!("http://{base}") };
        reqwest::Url::parse(&base)
            .map_err(|error| ClientError::InvalidAddress { server: server.to_owned(), reason: error.to_string() })?;
        Ok(Self::at_base(base))
    }

    /// A client of the API in this program: `transport` answers, nothing is sent over a network, and requests have nothing of
    /// this process's environment.
    ///
    /// - `actor`: who acts where the API does not know the caller.
    pub fn in_process(transport: Arc<dyn Transport>, actor: &str) -> Self {
        let http = IN_PROCESS_HTTP.clone();
        let made = Self { http, authorities: Some(Arc::default()), ..Self::at_base(IN_PROCESS.to_owned()) };
        let made = made.retrying(Duration::ZERO, None);
        Self { actor: Some(actor.to_owned()), transport: Some(transport), ..made }
    }

    fn at_base(base: String) -> Self {
        let (http, retry) = (Arc::default(), RequestRetry { limit: RETRY_FOR, notice: None });
        Self { http, base, token: None, authorities: None, namespace: None, actor: None, transport: None, retry }
    }

    /// The same with another time for which requests are repeated that may be repeated: reads, and submissions, which have
    /// an id. [`RETRY_FOR`] unless told otherwise.
    ///
    /// - `notice`: told once when a request takes long for that reason.
    #[must_use]
    pub fn retrying(self, limit: Duration, notice: Option<Notice>) -> Self {
        Self { retry: RequestRetry { limit, notice }, ..self }
    }

    /// The same, with a token in each request; an empty one counts as none.
    pub fn with_token(self, token: Option<BearerToken>) -> Result<Self, ClientError> {
        let token = token.filter(|token| !token.0.is_empty());
        if token.as_ref().is_some_and(|token| !token.0.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(ClientError::InvalidToken);
        }
        Ok(Self { token, ..self })
    }

    /// The same, limited to a namespace; an empty one counts as none.
    pub fn in_namespace(self, namespace: Option<String>) -> Result<Self, ClientError> {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        match namespace {
            Some(name) if !is_id(&name) => Err(ClientError::InvalidNamespace(name)),
            namespace => Ok(Self { namespace, ..self }),
        }
    }

    /// The same, trusting only the authorities whose certificates are in a PEM file. Without one, or with an empty name,
    /// those of the machine are trusted.
    pub fn with_ca_file(self, file: Option<&Path>) -> Result<Self, ClientError> {
        let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) else { return Ok(self) };
        let invalid = |reason: String| ClientError::InvalidCaFile { file: path.display().to_string(), reason };
        let mut text = Vec::new();
        let opened = File::open(path).map_err(|error| invalid(error.to_string()))?;
        opened.take(CA_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| invalid(error.to_string()))?;
        if text.len() as u64 > CA_BYTES_MAX {
            return Err(invalid(format!("it has more than {CA_BYTES_MAX} bytes")));
        }
        let found = Certificate::from_pem_bundle(&text).unwrap_or_default();
        if found.is_empty() {
            return Err(invalid("it has none in PEM form".into()));
        }
        // Reads each certificate: a damaged one must not first be met by a request.
        let built = builder().tls_certs_only(found.iter().cloned()).build();
        built.map_err(|error| invalid(client_failure(&error)))?;
        Ok(Self { http: Arc::default(), authorities: Some(Arc::new(found)), ..self })
    }

    /// The namespace that it is limited to.
    pub fn namespace(&self) -> Option<Namespace> {
        self.namespace.as_deref().map(Into::into)
    }

    /// The same for another server, with the same token, authorities and namespace.
    pub fn at(&self, server: &str) -> Result<Self, ClientError> {
        let Self { token, authorities, namespace, retry, .. } = self.clone();
        Ok(Self { token, authorities, namespace, retry, ..Self::new(server)? })
    }

    fn http(&self) -> &Http {
        self.http.get_or_init(|| Http::new(self.authorities.as_ref().map(|all| all.as_slice())))
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub async fn submit_goal(&self, goal: &Value, key: &str) -> Result<Accepted, ClientError> {
        self.read(self.submission("/v1/goals", key).json(goal)).await
    }

    pub async fn submit_plan(&self, plan: &Document, key: &str) -> Result<Accepted, ClientError> {
        self.read(document(self.submission("/v1/plans", key), plan)).await
    }

    /// Stores a plan as the next version of its name; its newest version again gives that version.
    pub async fn put_stored_plan(&self, name: &str, plan: &Document) -> Result<StoredPlanView, ClientError> {
        self.read(document(self.request(Method::POST, &format!("/v1/stored-plans/{}/versions", escaped(name))), plan))
            .await
    }

    /// The newest version of every stored plan.
    pub async fn stored_plans(&self) -> Result<Page<StoredPlanView>, ClientError> {
        self.get("/v1/stored-plans").await
    }

    pub async fn stored_plan_versions(&self, name: &str) -> Result<Page<StoredPlanView>, ClientError> {
        self.get(&format!("/v1/stored-plans/{}/versions", escaped(name))).await
    }

    pub async fn stored_plan(&self, plan: &StoredPlanRef) -> Result<StoredPlanVersion, ClientError> {
        self.get(&format!("/v1/stored-plans/{plan}")).await
    }

    pub async fn run_stored_plan(
        &self,
        plan: &StoredPlanRef,
        inputs: &Map<String, Value>,
        key: &str,
    ) -> Result<Accepted, ClientError> {
        let request = self.submission(&format!("/v1/stored-plans/{plan}:run"), key);
        self.read(request.json(&json!({ "inputs": inputs }))).await
    }

    pub async fn retire_stored_plan(&self, plan: &StoredPlanRef, reason: &str) -> Result<StoredPlanView, ClientError> {
        let request = self.request(Method::POST, &format!("/v1/stored-plans/{plan}:retire"));
        self.read(request.json(&self.signed(json!({ "reason": reason })))).await
    }

    pub async fn validate(&self, plan: &Document) -> Result<Preview, ClientError> {
        self.read(document(self.request(Method::POST, "/v1/plans:validate"), plan)).await
    }

    pub async fn plans(&self, query: &PlanQuery) -> Result<Page<PlanSummary>, ClientError> {
        let mut url = format!("/v1/plans?limit={}", query.limit);
        if let Some(cursor) = &query.cursor {
            url.push_str("&cursor=");
            url.push_str(&escaped(cursor));
        }
        if let Some(status) = query.status {
            url.push_str(&format!("&status={status}"));
        }
        if let Some(search) = &query.search {
            url.push_str("&q=");
            url.push_str(&escaped(search));
        }
        if !query.conditions.is_empty() {
            url.push_str("&where=");
            url.push_str(&escaped(&query.conditions));
        }
        self.get(&url).await
    }

    pub async fn plan(&self, plan: &PlanId) -> Result<PlanView, ClientError> {
        self.get(&format!("/v1/plans/{plan}")).await
    }

    /// The plan with its state, as a document of another planner.
    pub async fn plan_as(&self, plan: &PlanId, format: DocumentFormat) -> Result<Value, ClientError> {
        self.get(&format!("/v1/plans/{plan}?format={format}")).await
    }

    pub async fn results(&self, plan: &PlanId) -> Result<Results, ClientError> {
        self.get(&format!("/v1/plans/{plan}/results")).await
    }

    /// The results with large outputs in the place of their references.
    pub async fn whole_results(&self, plan: &PlanId) -> Result<Results, ClientError> {
        self.get(&format!("/v1/plans/{plan}/results?whole=true")).await
    }

    /// A step with large outputs in the place of their references.
    ///
    /// - `step`: an id, which needs no encoding.
    pub async fn whole_step(&self, plan: &PlanId, step: &str) -> Result<StepView, ClientError> {
        self.get(&format!("/v1/plans/{plan}/steps/{step}?whole=true")).await
    }

    pub async fn explain(&self, plan: &PlanId) -> Result<Explanation, ClientError> {
        self.get(&format!("/v1/plans/{plan}/explain")).await
    }

    /// The plan as a document, every field as the server wrote it.
    pub async fn graph(&self, plan: &PlanId) -> Result<Value, ClientError> {
        self.get(&format!("/v1/plans/{plan}/graph")).await
    }

    pub async fn events(&self, plan: &PlanId, after: u64, limit: usize) -> Result<EventPage, ClientError> {
        self.filtered_events(plan, after, limit, &EventQuery::default()).await
    }

    /// The same, only those that are looked for.
    pub async fn filtered_events(
        &self,
        plan: &PlanId,
        after: u64,
        limit: usize,
        query: &EventQuery,
    ) -> Result<EventPage, ClientError> {
        let mut url = format!("/v1/plans/{plan}/events?after={after}&limit={limit}");
        let types = query.types.join(",");
        for (name, value) in [("types", &types), ("step", &query.step), ("phase", &query.phase)] {
            if !value.is_empty() {
                url.push_str(&format!("&{name}={}", escaped(value)));
            }
        }
        self.get(&url).await
    }

    /// Opens the event stream after event `after`.
    pub async fn event_stream(&self, plan: &PlanId, after: u64) -> Result<Response, ClientError> {
        let request = self.http().client.get(format!("{}/v1/plans/{plan}/events?after={after}", self.base));
        let request = self
            .with_credentials(request)
            .header("Accept", "text/event-stream")
            .header("Last-Event-ID", after.to_string());
        self.accept(request).await
    }

    /// The plan as it was at a revision, as a document.
    pub async fn graph_at(&self, plan: &PlanId, revision: u32) -> Result<Value, ClientError> {
        self.get(&format!("/v1/plans/{plan}/graph?revision={revision}")).await
    }

    pub async fn revisions(&self, plan: &PlanId) -> Result<Page<RevisionRecord>, ClientError> {
        self.get(&format!("/v1/plans/{plan}/revisions")).await
    }

    /// The revisions of a plan in the form of another planner.
    pub async fn revisions_as(&self, plan: &PlanId, format: DocumentFormat) -> Result<Value, ClientError> {
        self.get(&format!("/v1/plans/{plan}/revisions?format={format}")).await
    }

    /// What waits for an answer.
    pub async fn questions(&self, plan: &PlanId) -> Result<Page<QuestionView>, ClientError> {
        self.get(&format!("/v1/plans/{plan}/questions")).await
    }

    /// `verb` is one of `pause`, `resume`, `cancel`, `approve`, `reject`, `edit`, `replan`.
    pub async fn steer_plan(&self, plan: &PlanId, verb: &str, body: Value) -> Result<PlanSummary, ClientError> {
        self.read(self.request(Method::POST, &format!("/v1/plans/{plan}:{verb}")).json(&self.signed(body))).await
    }

    /// `verb` is one of `cancel`, `pause`, `resume`, `replan`; `body` chooses the plans.
    pub async fn steer_plans(&self, verb: &str, body: Value) -> Result<BulkAnswer, ClientError> {
        self.read(self.request(Method::POST, &format!("/v1/plans:{verb}")).json(&self.signed(body))).await
    }

    /// `verb` is one of `retry`, `skip`, `complete`, `approve`, `reject`, `answer`.
    pub async fn steer_step(
        &self,
        plan: &PlanId,
        step: &StepId,
        verb: &str,
        body: Value,
    ) -> Result<StepView, ClientError> {
        let path = format!("/v1/plans/{plan}/steps/{step}:{verb}");
        self.read(self.request(Method::POST, &path).json(&self.signed(body))).await
    }

    /// Sends a plan an event from outside.
    pub async fn send_event(&self, plan: &PlanId, body: Value) -> Result<EventReceipt, ClientError> {
        self.read(self.request(Method::POST, &format!("/v1/plans/{plan}/events")).json(&self.signed(body))).await
    }

    /// Sends an event from outside to the plans that wait for it.
    pub async fn publish_event(&self, body: Value) -> Result<EventReceipt, ClientError> {
        self.read(self.request(Method::POST, "/v1/events").json(&self.signed(body))).await
    }

    /// Steps that wait for events from outside.
    pub async fn waits(&self) -> Result<Page<WaitView>, ClientError> {
        self.get("/v1/waits").await
    }

    /// Answers what a plan asks.
    pub async fn answer(&self, plan: &PlanId, question: &str, body: Value) -> Result<PlanSummary, ClientError> {
        let path = format!("/v1/plans/{plan}/questions/{}:answer", escaped(question));
        self.read(self.request(Method::POST, &path).json(&self.signed(body))).await
    }

    /// Begins a plan that goes on from another one.
    pub async fn fork(&self, plan: &PlanId, body: Value, key: &str) -> Result<Accepted, ClientError> {
        let request = self.submission(&format!("/v1/plans/{plan}:fork"), key);
        self.read(request.json(&self.signed(body))).await
    }

    pub async fn agents(&self) -> Result<Page<Agent>, ClientError> {
        self.get("/v1/agents").await
    }

    pub async fn register(&self, agent: &Agent) -> Result<Value, ClientError> {
        self.read(self.request(Method::POST, "/v1/agents").json(agent)).await
    }

    /// - `top_k`: candidates at most; all without it.
    pub async fn route(&self, text: &str, top_k: Option<NonZeroUsize>) -> Result<Candidates, ClientError> {
        let request = serde_json::json!({ "text": text, "top_k": top_k });
        self.read(self.request(Method::POST, "/v1/agents:route").json(&request)).await
    }

    pub async fn planners(&self) -> Result<Page<PlannerView>, ClientError> {
        self.get("/v1/planners").await
    }

    pub async fn models(&self) -> Result<Page<ModelView>, ClientError> {
        self.get("/v1/models").await
    }

    pub async fn workers(&self) -> Result<Page<WorkerBeat>, ClientError> {
        self.get("/v1/workers").await
    }

    pub async fn drain(&self, worker: &WorkerId) -> Result<WorkerBeat, ClientError> {
        self.read(self.request(Method::POST, &format!("/v1/workers/{worker}:drain"))).await
    }

    /// `verb` is `pause` or `resume`.
    pub async fn steer_queue(&self, agent_type: &str, verb: &str) -> Result<QueueView, ClientError> {
        self.read(self.request(Method::POST, &format!("/v1/queues/{agent_type}:{verb}"))).await
    }

    pub async fn retry_letter(&self, agent_type: &str, entry: &str) -> Result<Accepted, ClientError> {
        self.read(self.request(Method::POST, &format!("/v1/dead-letters/{agent_type}/{entry}:retry"))).await
    }

    pub async fn discard_letter(&self, agent_type: &str, entry: &str) -> Result<Value, ClientError> {
        self.read(self.request(Method::POST, &format!("/v1/dead-letters/{agent_type}/{entry}:discard"))).await
    }

    /// Measures of the plans that ended in a period.
    pub async fn stats(&self, query: &StatsQuery) -> Result<QualityReport, ClientError> {
        self.get(&format!("/v1/stats?since_ms={}&plans={}", query.since_ms, query.plans)).await
    }

    /// Creates a token; the answer has its text.
    pub async fn create_token(&self, new: &NewToken) -> Result<TokenCreated, ClientError> {
        self.read(self.request(Method::POST, "/v1/tokens").json(new)).await
    }

    pub async fn tokens(&self) -> Result<Page<TokenView>, ClientError> {
        self.get("/v1/tokens").await
    }

    pub async fn revoke_token(&self, id: &str) -> Result<TokenView, ClientError> {
        self.read(self.request(Method::DELETE, &format!("/v1/tokens/{}", escaped(id)))).await
    }

    pub async fn queues(&self) -> Result<Page<QueueView>, ClientError> {
        self.get("/v1/queues").await
    }

    pub async fn dead_letters(&self, agent_type: &str) -> Result<Page<DeadLetterView>, ClientError> {
        self.get(&format!("/v1/dead-letters/{agent_type}")).await
    }

    /// Whether the server is alive, and ready; the second answer's text says why not.
    pub async fn health(&self) -> Result<(bool, bool, String), ClientError> {
        let live = self.send(self.request(Method::GET, "/livez")).await?.status().is_success();
        let ready = self.send(self.request(Method::GET, "/readyz")).await?;
        let is_ready = ready.status().is_success();
        Ok((live, is_ready, ready.text().await.unwrap_or_default()))
    }

    /// Whether the server has a page for people.
    pub async fn has_page(&self) -> bool {
        matches!(self.send(self.request(Method::GET, "/")).await, Ok(answer) if answer.status().is_success())
    }
}

fn document(request: RequestBuilder, document: &Document) -> RequestBuilder {
    request.header("Content-Type", document.media).body(document.text.clone())
}

/// Escapes everything but unreserved characters (RFC 3986).
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_completed() {
        assert_eq!(Client::new("http://h:1/").expect("it is an address").base(), "http://h:1");
        assert_eq!(Client::new("h:1").expect("a host and port are enough").base(), "http://h:1");
        let refused = Client::new("http://:99999").expect_err("no such port");
        assert!(matches!(refused, ClientError::InvalidAddress { .. }), "{refused}");
    }

    #[test]
    fn a_token_is_printable_ascii_and_never_printed() {
        let client =
            |token: &str| Client::new("http://h:1").and_then(|made| made.with_token(Some(token.to_owned().into())));
        assert!(!format!("{:?}", client("gm_a_hush").expect("it is a token")).contains("hush"));
        assert!(client("").expect("it counts as none").token.is_none());
        for bad in ["a b", "a\nb", "ä"] {
            let refused = client(bad).expect_err("it is no token");
            assert!(!refused.to_string().contains(bad), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unreachable() {
        let client = Client::new("http://127.0.0.1:1").expect("it is an address").retrying(Duration::ZERO, None);
        let failed = client.plans(&PlanQuery::default()).await.expect_err("nobody listens on port 1");
        assert!(matches!(failed, ClientError::Unreachable { .. }), "{failed}");
        assert!(failed.to_string().contains("http://127.0.0.1:1"), "{failed}");
    }

    #[test]
    fn cursors_are_escaped() {
        assert_eq!(escaped("a b/1~"), "a%20b%2F1~");
    }
}
