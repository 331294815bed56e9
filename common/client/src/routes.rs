//! The calls of the HTTP API, one function per route.

use std::num::NonZeroUsize;

use goalmill_common::access::{NewToken, TokenCreated, TokenView};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::{PlanId, StepId, WorkerId};
use goalmill_common::quality::QualityReport;
use goalmill_common::revision::RevisionRecord;
use goalmill_common::stored_plan::{StoredPlanRef, StoredPlanVersion, StoredPlanView};
use goalmill_common::view::{
    Accepted, BulkAnswer, DeadLetterView, EventReceipt, Explanation, ModelView, Page, PlanSummary, PlanView,
    PlannerView, Preview, QuestionView, QueueView, RefusedSubmissionView, Results, StepView, WaitView,
};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Map, Value, json};

use crate::{Candidates, Client, ClientError, Document, EventPage, EventQuery, PlanQuery, StatsQuery, escaped};

impl Client {
    pub async fn submit_goal(&self, goal: &Value, key: &str) -> Result<Accepted, ClientError> {
        self.read_answer(self.submission("/v1/goals", key).json(goal)).await
    }

    pub async fn submit_plan(&self, plan: &Document, key: &str) -> Result<Accepted, ClientError> {
        self.read_answer(document(self.submission("/v1/plans", key), plan)).await
    }

    /// Stores a plan as the next version of its name; its newest version again gives that version.
    pub async fn put_stored_plan(&self, name: &str, plan: &Document) -> Result<StoredPlanView, ClientError> {
        self.read_answer(document(
            self.request(Method::POST, &format!("/v1/stored-plans/{}/versions", escaped(name))),
            plan,
        ))
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
        self.read_answer(request.json(&json!({ "inputs": inputs }))).await
    }

    pub async fn retire_stored_plan(&self, plan: &StoredPlanRef, reason: &str) -> Result<StoredPlanView, ClientError> {
        let request = self.request(Method::POST, &format!("/v1/stored-plans/{plan}:retire"));
        self.read_answer(request.json(&self.signed(json!({ "reason": reason })))).await
    }

    pub async fn validate(&self, plan: &Document) -> Result<Preview, ClientError> {
        self.read_answer(document(self.request(Method::POST, "/v1/plans:validate"), plan)).await
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

    /// What waits for an answer.
    pub async fn questions(&self, plan: &PlanId) -> Result<Page<QuestionView>, ClientError> {
        self.get(&format!("/v1/plans/{plan}/questions")).await
    }

    /// `verb` is one of `pause`, `resume`, `cancel`, `approve`, `reject`, `edit`, `replan`.
    pub async fn steer_plan(&self, plan: &PlanId, verb: &str, body: Value) -> Result<PlanSummary, ClientError> {
        self.read_answer(self.request(Method::POST, &format!("/v1/plans/{plan}:{verb}")).json(&self.signed(body))).await
    }

    /// `verb` is one of `cancel`, `pause`, `resume`, `replan`; `body` chooses the plans.
    pub async fn steer_plans(&self, verb: &str, body: Value) -> Result<BulkAnswer, ClientError> {
        self.read_answer(self.request(Method::POST, &format!("/v1/plans:{verb}")).json(&self.signed(body))).await
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
        self.read_answer(self.request(Method::POST, &path).json(&self.signed(body))).await
    }

    /// Sends a plan an event from outside.
    pub async fn send_event(&self, plan: &PlanId, body: Value) -> Result<EventReceipt, ClientError> {
        self.read_answer(self.request(Method::POST, &format!("/v1/plans/{plan}/events")).json(&self.signed(body))).await
    }

    /// Sends an event from outside to the plans that wait for it.
    pub async fn publish_event(&self, body: Value) -> Result<EventReceipt, ClientError> {
        self.read_answer(self.request(Method::POST, "/v1/events").json(&self.signed(body))).await
    }

    /// Steps that wait for events from outside.
    pub async fn waits(&self) -> Result<Page<WaitView>, ClientError> {
        self.get("/v1/waits").await
    }

    /// Answers what a plan asks.
    pub async fn answer(&self, plan: &PlanId, question: &str, body: Value) -> Result<PlanSummary, ClientError> {
        let path = format!("/v1/plans/{plan}/questions/{}:answer", escaped(question));
        self.read_answer(self.request(Method::POST, &path).json(&self.signed(body))).await
    }

    /// Begins a plan that continues from another one.
    pub async fn fork(&self, plan: &PlanId, body: Value, key: &str) -> Result<Accepted, ClientError> {
        let request = self.submission(&format!("/v1/plans/{plan}:fork"), key);
        self.read_answer(request.json(&self.signed(body))).await
    }

    pub async fn agents(&self) -> Result<Page<Agent>, ClientError> {
        self.get("/v1/agents").await
    }

    pub async fn register(&self, agent: &Agent) -> Result<Value, ClientError> {
        self.read_answer(self.request(Method::POST, "/v1/agents").json(agent)).await
    }

    /// - `top_k`: candidates at most; all without it.
    pub async fn route(&self, text: &str, top_k: Option<NonZeroUsize>) -> Result<Candidates, ClientError> {
        let request = serde_json::json!({ "text": text, "top_k": top_k });
        self.read_answer(self.request(Method::POST, "/v1/agents:route").json(&request)).await
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
        self.read_answer(self.request(Method::POST, &format!("/v1/workers/{worker}:drain"))).await
    }

    /// `verb` is `pause` or `resume`.
    pub async fn steer_queue(&self, agent_type: &str, verb: &str) -> Result<QueueView, ClientError> {
        self.read_answer(self.request(Method::POST, &format!("/v1/queues/{agent_type}:{verb}"))).await
    }

    pub async fn retry_letter(&self, agent_type: &str, entry: &str) -> Result<Accepted, ClientError> {
        self.read_answer(self.request(Method::POST, &format!("/v1/dead-letters/{agent_type}/{entry}:retry"))).await
    }

    pub async fn discard_letter(&self, agent_type: &str, entry: &str) -> Result<Value, ClientError> {
        self.read_answer(self.request(Method::POST, &format!("/v1/dead-letters/{agent_type}/{entry}:discard"))).await
    }

    /// Measures of the plans that ended in a period.
    pub async fn stats(&self, query: &StatsQuery) -> Result<QualityReport, ClientError> {
        self.get(&format!("/v1/stats?since_ms={}&plans={}", query.since_ms, query.plans)).await
    }

    /// Creates a token; the answer has its text.
    pub async fn create_token(&self, new: &NewToken) -> Result<TokenCreated, ClientError> {
        self.read_answer(self.request(Method::POST, "/v1/tokens").json(new)).await
    }

    pub async fn tokens(&self) -> Result<Page<TokenView>, ClientError> {
        self.get("/v1/tokens").await
    }

    pub async fn revoke_token(&self, id: &str) -> Result<TokenView, ClientError> {
        self.read_answer(self.request(Method::DELETE, &format!("/v1/tokens/{}", escaped(id)))).await
    }

    pub async fn queues(&self) -> Result<Page<QueueView>, ClientError> {
        self.get("/v1/queues").await
    }

    pub async fn dead_letters(&self, agent_type: &str) -> Result<Page<DeadLetterView>, ClientError> {
        self.get(&format!("/v1/dead-letters/{agent_type}")).await
    }

    /// The newest submissions by stream that were refused.
    pub async fn refused_submissions(&self) -> Result<Page<RefusedSubmissionView>, ClientError> {
        self.get("/v1/refused-submissions").await
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
