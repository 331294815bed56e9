//! The routes: what each one takes, gives and refuses, who may use it, and the function that answers.

use goalmill_common::access::Role::{self, Admin, Approver, Operator, Scaler, Submitter, Viewer};
use goalmill_common::access::{NewToken, SessionView, SignIn, SignInMethods, TokenCreated, TokenView};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::goal::Goal;
use goalmill_common::id::ID_PATTERN;
use goalmill_common::layout::PlanLayout;
use goalmill_common::plan::Plan;
use goalmill_common::problem::ErrorCode::{
    self, DeadLetterNotFound, EventsTrimmed, IdempotencyKeyReused, InvalidEventId, InvalidGoal, InvalidIdempotencyKey,
    InvalidJson, InvalidPlan, IssuerUnavailable, MethodNotAllowed, NamespaceLimitReached, NotAllowed, NotFound,
    PlanFinal, PlanNotFound, PlanningFailed, QueueNotFound, StepNotFound, StoredPlanNotFound, StoredPlanRetired,
    TokenNotFound, TooManyFailures, Unauthenticated, Unroutable, WorkerNotFound,
};
use goalmill_common::quality::QualityReport;
use goalmill_common::revision::RevisionRecord;
use goalmill_common::stored_plan::{StoredPlanVersion, StoredPlanView};
use goalmill_common::view::{
    Accepted, BulkAnswer, DeadLetterView, EventReceipt, EventView, Explanation, ModelView, Overview, Page, PlanSummary,
    PlanView, PlannerView, Preview, QuestionView, QueueView, RefusedSubmissionView, Results, StepView, WaitView,
};
use serde_json::{Map, Value, json};

use super::RouteAccess;
use super::operation::{EVENT_STREAM, JSON, Operation, READERS, TEXT, YAML, delete, get, post};
use crate::api::{
    actions, approvals, bulk_actions, callbacks, dead_letters, event_feed, event_search, events, fork, health, mcp,
    oidc_sign_in, overview, plan_list, plans, registry, send_event, session, stats, steps, stored_plans, submit,
    tokens,
};

/// What a submission may be refused for.
const GOAL: &[ErrorCode] =
    &[InvalidJson, InvalidGoal, InvalidIdempotencyKey, IdempotencyKeyReused, NamespaceLimitReached];
const PLAN: &[ErrorCode] =
    &[InvalidJson, InvalidPlan, Unroutable, InvalidIdempotencyKey, IdempotencyKeyReused, NamespaceLimitReached];
const EXECUTE: &[ErrorCode] = &[
    InvalidJson, InvalidGoal, InvalidPlan, Unroutable, InvalidIdempotencyKey, IdempotencyKeyReused,
    NamespaceLimitReached, PlanNotFound, PlanFinal, NotAllowed,
];
const FORK: &[ErrorCode] = &[
    NotFound, PlanNotFound, StepNotFound, NotAllowed, InvalidGoal, InvalidPlan, InvalidIdempotencyKey,
    IdempotencyKeyReused, NamespaceLimitReached,
];
/// What steering a plan may be refused for.
const STEER: &[ErrorCode] = &[PlanNotFound, PlanFinal, NotAllowed];
const EDIT: &[ErrorCode] = &[PlanNotFound, PlanFinal, NotAllowed, InvalidPlan, Unroutable];
const STEER_STEP: &[ErrorCode] = &[PlanNotFound, StepNotFound, PlanFinal, NotAllowed, InvalidPlan];

/// Who may pause, resume, cancel and replan.
const STEERING: &[Role] = &[Submitter, Operator];

/// All that the API can do.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = submissions();
    all.extend(stored());
    all.extend(plan_actions());
    all.extend(looks());
    all.extend(bulk_steering());
    all.extend(steering());
    all.extend(step_steering());
    all.extend(installation());
    all.extend(access());
    all.extend(mcp());
    all
}

/// MCP. Which tools a caller may use is decided by the routes that they stand for.
fn mcp() -> Vec<Operation> {
    vec![
        post(
            "/mcp",
            "sendMcpMessage",
            "Takes a message of MCP (JSON-RPC); each tool needs the role of its route",
            mcp::serve,
        )
        .access(RouteAccess::SignedIn)
        .takes::<Map<String, Value>>()
        .gives::<Map<String, Value>>()
        .gives_as::<String>(EVENT_STREAM)
        .refuses(&[NotFound]),
        get("/mcp", "openMcpStream", "Opens the stream of a session of MCP", mcp::serve)
            .access(RouteAccess::SignedIn)
            .gives_as::<String>(EVENT_STREAM)
            .refuses(&[NotFound, MethodNotAllowed]),
        delete("/mcp", "endMcpSession", "Ends a session of MCP", mcp::serve)
            .access(RouteAccess::SignedIn)
            .status(204)
            .refuses(&[NotFound, MethodNotAllowed]),
    ]
}

fn access() -> Vec<Operation> {
    vec![
        post("/v1/tokens", "createToken", "Creates a token; its text is served this once", tokens::create)
            .takes::<NewToken>()
            .gives::<TokenCreated>()
            .status(201)
            .refuses(&[NotAllowed]),
        get("/v1/tokens", "listTokens", "The tokens, without their secrets", tokens::list)
            .roles(&[Admin])
            .gives::<Page<TokenView>>(),
        delete("/v1/tokens/{id}", "revokeToken", "Makes a token invalid at once", tokens::revoke)
            .gives::<TokenView>()
            .refuses(&[TokenNotFound]),
        get("/v1/session", "getSession", "Who the caller is", session::get)
            .access(RouteAccess::SignedIn)
            .gives::<SessionView>(),
        post("/v1/session", "signIn", "Opens a session for a token, in a cookie", session::sign_in)
            .access(RouteAccess::Public)
            .takes::<SignIn>()
            .gives::<SessionView>()
            .refuses(&[Unauthenticated, TooManyFailures, IssuerUnavailable]),
        get("/v1/session/methods", "getSignInMethods", "How people may sign in at the web page", oidc_sign_in::methods)
            .access(RouteAccess::Public)
            .gives::<SignInMethods>(),
        delete("/v1/session", "signOut", "Ends the session", session::sign_out)
            .access(RouteAccess::SignedIn)
            .status(204),
    ]
}

fn submissions() -> Vec<Operation> {
    vec![
        post("/v1/goals", "submitGoal", "Submits a goal", submit::submit_goal)
            .roles(&[Submitter])
            .headers(&["Idempotency-Key", "traceparent", "Prefer"])
            .takes::<Goal>()
            .gives::<Accepted>()
            .status(202)
            .refuses(GOAL),
        post("/v1/plans", "submitPlan", "Submits a plan", submit::submit_plan)
            .roles(&[Submitter])
            .headers(&["Idempotency-Key", "traceparent", "Prefer"])
            .takes_as::<Plan>(&[JSON, YAML])
            .gives::<Accepted>()
            .status(202)
            .refuses(PLAN),
        post("/v1/plans:validate", "validatePlan", "Checks and prices a plan, and runs nothing", plans::validate)
            .roles(&[Submitter, Approver, Operator])
            .takes_as::<Plan>(&[JSON, YAML])
            .gives::<Preview>()
            .refuses(&[InvalidJson]),
        post("/v1/plans:preview", "previewPlan", "Plans a goal, and runs nothing", plans::preview)
            .roles(&[Submitter])
            .takes::<Goal>()
            .gives::<Preview>()
            .gives_as::<String>(EVENT_STREAM)
            .refuses(&[InvalidJson, InvalidGoal, PlanningFailed]),
        post(
            "/v1/events",
            "sendEvent",
            "Gives an event from outside to the plans that wait for it, and keeps it",
            send_event::send,
        )
        .roles(STEERING)
        .takes::<send_event::EventBody>()
        .gives::<EventReceipt>()
        .refuses(&[InvalidJson, NamespaceLimitReached]),
        post(
            callbacks::PATH,
            "reportCallback",
            "Takes the outcome of a task that an agent accepted; the token of the task is the credential",
            callbacks::report,
        )
        .access(RouteAccess::Public)
        .headers(&["Goalmill-Callback-Token"])
        .takes::<callbacks::CallbackBody>()
        .gives::<callbacks::CallbackReceipt>()
        .refuses(&[NotFound, TooManyFailures, PlanFinal, NotAllowed]),
        post("/v1/plans/{id}:fork", "forkPlan", "Begins a plan that goes on from where this one stood", plans::act)
            .roles(&[Submitter])
            .headers(&["Idempotency-Key", "traceparent"])
            .takes::<fork::ForkBody>()
            .gives::<Accepted>()
            .status(202)
            .refuses(FORK),
    ]
}

/// Plans under names.
fn stored() -> Vec<Operation> {
    const RUN: &[ErrorCode] = &[
        InvalidJson, InvalidPlan, InvalidGoal, Unroutable, InvalidIdempotencyKey, IdempotencyKeyReused,
        NamespaceLimitReached, StoredPlanNotFound, StoredPlanRetired,
    ];
    vec![
        get("/v1/stored-plans", "listStoredPlans", "The newest version of every stored plan", stored_plans::list)
            .gives::<Page<StoredPlanView>>(),
        get("/v1/stored-plans/{stored}", "getStoredPlan", "A version of a stored plan", stored_plans::get)
            .gives::<StoredPlanVersion>()
            .refuses(&[StoredPlanNotFound]),
        get(
            "/v1/stored-plans/{stored}/versions",
            "listStoredPlanVersions",
            "The versions of a stored plan, the newest first",
            stored_plans::versions,
        )
        .gives::<Page<StoredPlanView>>()
        .refuses(&[StoredPlanNotFound]),
        post(
            "/v1/stored-plans/{stored}/versions",
            "putStoredPlan",
            "Stores a plan as the next version of a name; the newest version again is that version",
            stored_plans::put,
        )
        .roles(STEERING)
        .takes_as::<Plan>(&[JSON, YAML])
        .gives::<StoredPlanView>()
        .status(201)
        .refuses(&[
            InvalidJson, InvalidPlan, InvalidGoal, NamespaceLimitReached, StoredPlanNotFound, StoredPlanRetired,
        ]),
        post("/v1/stored-plans/{stored}:run", "runStoredPlan", "Begins a plan from a version", stored_plans::act)
            .roles(&[Submitter])
            .headers(&["Idempotency-Key", "traceparent", "Prefer"])
            .takes::<stored_plans::RunStoredBody>()
            .gives::<Accepted>()
            .status(202)
            .refuses(RUN),
        post(
            "/v1/stored-plans/{stored}:retire",
            "retireStoredPlan",
            "Lets no new plan begin from a version; those that run go on",
            stored_plans::act,
        )
        .roles(&[Operator])
        .takes::<stored_plans::RetireBody>()
        .gives::<StoredPlanView>()
        .refuses(&[StoredPlanNotFound]),
    ]
}

/// The verbs of plan-action formats.
fn plan_actions() -> Vec<Operation> {
    vec![
        post(
            "/v1/actions/decompose",
            "decomposeGoal",
            "Plans a goal and runs nothing; in the shape of plan actions",
            actions::decompose,
        )
        .roles(&[Submitter])
        .takes::<actions::DecomposeBody>()
        .gives::<actions::Decomposed>()
        .refuses(&[InvalidJson, InvalidGoal, PlanningFailed]),
        post(
            "/v1/actions/execute",
            "executePlan",
            "Runs a plan and waits for its end; in the shape of plan actions",
            actions::execute,
        )
        .roles(&[Submitter])
        .headers(&["Idempotency-Key", "traceparent"])
        .takes::<actions::ExecuteBody>()
        .gives::<actions::Executed>()
        .refuses(EXECUTE),
        post(
            "/v1/actions/replan",
            "replanAction",
            "Asks for another way; in the shape of plan actions",
            actions::replan,
        )
        .roles(&[Submitter])
        .takes::<actions::ReplanActionBody>()
        .gives::<actions::Replanned>()
        .refuses(STEER),
        post(
            "/v1/actions/status",
            "getActionStatus",
            "Where a plan stands; in the shape of plan actions",
            actions::status,
        )
        .roles(READERS)
        .takes::<actions::StatusBody>()
        .gives::<actions::ActionStatus>()
        .refuses(&[PlanNotFound]),
    ]
}

fn looks() -> Vec<Operation> {
    const PLAN: &[ErrorCode] = &[PlanNotFound];
    vec![
        get("/v1/plans", "listPlans", "Lists plans, last changed first", plan_list::list)
            .query::<plan_list::ListQuery>()
            .headers(&["If-None-Match"])
            .gives::<Page<PlanSummary>>(),
        get("/v1/plans/{id}", "getPlan", "The plan with its steps", plans::get)
            .query::<plans::PlanViewQuery>()
            .headers(&["If-None-Match"])
            .gives::<PlanView>()
            .refuses(PLAN),
        get("/v1/plans/{id}/graph", "getGraph", "The plan as a document that can be submitted", plans::graph)
            .query::<plans::RevisionParameters>()
            .headers(&["If-None-Match"])
            .gives::<Plan>()
            .refuses(&[PlanNotFound, NotFound, NotAllowed]),
        get("/v1/plans/{id}/layout", "getLayout", "Where the steps stand in a drawing of the plan", plans::layout)
            .query::<plans::RevisionParameters>()
            .gives::<PlanLayout>()
            .refuses(&[PlanNotFound, NotFound]),
        get("/v1/plans/{id}/results", "getResults", "What the steps gave", plans::results)
            .query::<plans::OutputsQuery>()
            .headers(&["If-None-Match"])
            .gives::<Results>()
            .refuses(PLAN),
        get("/v1/plans/{id}/explain", "explainPlan", "Why the plan is not moving", plans::explain)
            .gives::<Explanation>()
            .refuses(PLAN),
        get(
            "/v1/plans/{id}/events",
            "listEvents",
            "The plan's log: in pages, or live as server-sent events",
            events::list,
        )
        .query::<events::EventsQuery>()
        .headers(&["Last-Event-Number"])
        .gives::<Page<EventView>>()
        .gives_as::<String>(EVENT_STREAM)
        .refuses(&[PlanNotFound, InvalidEventId, EventsTrimmed]),
        get("/v1/plans/{id}/revisions", "listRevisions", "What was changed, by whom and why", approvals::revisions)
            .gives::<Page<RevisionRecord>>()
            .refuses(PLAN),
        get("/v1/plans/{id}/questions", "listQuestions", "What waits for an answer", approvals::questions)
            .gives::<Page<QuestionView>>()
            .refuses(PLAN),
        get("/v1/plans/{id}/steps/{step}", "getStep", "One step", steps::get)
            .query::<plans::OutputsQuery>()
            .gives::<StepView>()
            .refuses(&[PlanNotFound, StepNotFound]),
        get(
            "/v1/events",
            "listAllEvents",
            "The events of all plans: in pages as `/v1/logs`, or live as server-sent events",
            event_feed::list,
        )
        .query::<event_search::LogsQuery>()
        .headers(&["Last-Event-ID"])
        .gives::<Page<EventView>>()
        .gives_as::<String>(EVENT_STREAM)
        .refuses(&[PlanNotFound, InvalidEventId]),
        get(
            "/v1/waits",
            "listWaits",
            "The steps that wait for events; in a page of at most 1,000 the soonest end comes first",
            send_event::waits,
        )
        .query::<send_event::WaitsQuery>()
        .gives::<Page<WaitView>>(),
        get(
            "/v1/overview",
            "getOverview",
            "The numbers of all plans, and those that wait for people, most urgent first",
            overview::get,
        )
        .query::<overview::OverviewQuery>()
        .headers(&["If-None-Match"])
        .gives::<Overview>(),
        get(
            "/v1/stats",
            "getStats",
            "Measures of planning and execution, of the plans that ended in a period",
            stats::report,
        )
        .query::<stats::MeasureQuery>()
        .gives::<QualityReport>(),
        get("/v1/logs", "listLogs", "The newest events of all plans, or of one, oldest first", event_search::list)
            .query::<event_search::LogsQuery>()
            .gives::<Page<EventView>>()
            .refuses(PLAN),
    ]
}

/// Verbs on many plans.
fn bulk_steering() -> Vec<Operation> {
    let many = |path, id, summary| {
        post(path, id, summary, bulk_actions::act)
            .roles(&[Operator])
            .takes::<bulk_actions::BulkBody>()
            .gives::<BulkAnswer>()
            .refuses(&[NotAllowed])
    };
    vec![
        many("/v1/plans:cancel", "cancelPlans", "Ends the plans that a filter finds"),
        many("/v1/plans:pause", "pausePlans", "Starts no further steps of the plans that a filter finds"),
        many("/v1/plans:resume", "resumePlans", "Goes on with the plans that a filter finds"),
        many("/v1/plans:replan", "replanPlans", "Asks the planners for another way, for the plans that a filter finds"),
    ]
}

fn steering() -> Vec<Operation> {
    let because = |path, id, summary| {
        post(path, id, summary, plans::act).takes::<plans::VerbBody>().gives::<PlanSummary>().refuses(STEER)
    };
    let said = |path, id, summary| {
        post(path, id, summary, plans::act).takes::<approvals::EditBody>().gives::<PlanSummary>().refuses(EDIT)
    };
    vec![
        because("/v1/plans/{id}:pause", "pausePlan", "Starts no further steps").roles(STEERING),
        because("/v1/plans/{id}:resume", "resumePlan", "Goes on").roles(STEERING),
        because("/v1/plans/{id}:cancel", "cancelPlan", "Ends the plan").roles(STEERING),
        because("/v1/plans/{id}:reject", "rejectPlan", "Refuses the plan, or the revision that is proposed")
            .roles(&[Approver]),
        said(
            "/v1/plans/{id}:approve",
            "approvePlan",
            "Agrees to the plan or the revision that is proposed, as it is or with changes",
        )
        .roles(&[Approver]),
        said("/v1/plans/{id}:edit", "editPlan", "Changes the plan").roles(&[Approver, Operator]),
        said("/v1/plans/{id}:replan", "replanPlan", "Asks the planners for another way to do what remains")
            .roles(STEERING),
        post(
            "/v1/plans/{id}/events",
            "sendPlanEvent",
            "Gives the plan an event from outside",
            send_event::send_to_plan,
        )
        .roles(STEERING)
        .takes::<send_event::EventBody>()
        .gives::<EventReceipt>()
        .refuses(&[InvalidJson, PlanNotFound, PlanFinal, NotAllowed, InvalidPlan]),
        post(
            "/v1/plans/{id}/questions/{question}:answer",
            "answerQuestion",
            "Answers what the plan asks",
            approvals::answer_question,
        )
        .roles(&[Approver])
        .takes::<approvals::QuestionAnswer>()
        .gives::<PlanSummary>()
        .refuses(&[PlanNotFound, PlanFinal, NotAllowed, InvalidPlan]),
    ]
}

fn step_steering() -> Vec<Operation> {
    let step_verb = |path, id, summary| {
        post(path, id, summary, steps::act).takes::<steps::StepVerbBody>().gives::<StepView>().refuses(STEER_STEP)
    };
    vec![
        step_verb(
            "/v1/plans/{id}/steps/{step}:retry",
            "retryStep",
            "Makes the next attempt at once, or starts a failed or skipped step again",
        )
        .roles(&[Operator]),
        step_verb("/v1/plans/{id}/steps/{step}:skip", "skipStep", "Does without the step").roles(&[Operator]),
        step_verb("/v1/plans/{id}/steps/{step}:complete", "completeStep", "Records what the step gave, by hand")
            .roles(&[Operator]),
        step_verb("/v1/plans/{id}/steps/{step}:approve", "approveStep", "Lets the step start").roles(&[Approver]),
        step_verb("/v1/plans/{id}/steps/{step}:reject", "rejectStep", "Lets the step fail before it starts")
            .roles(&[Approver]),
        post("/v1/plans/{id}/steps/{step}:answer", "answerStep", "Answers what the step asks", steps::act)
            .roles(&[Approver])
            .takes::<approvals::QuestionAnswer>()
            .gives::<StepView>()
            .refuses(STEER_STEP),
    ]
}

fn installation() -> Vec<Operation> {
    const LETTER: &[ErrorCode] = &[NotFound, DeadLetterNotFound];
    vec![
        get("/v1/agents", "listAgents", "The agent types that are known", registry::agents).gives::<Page<Agent>>(),
        post("/v1/agents", "registerAgent", "Declares what an agent type can do", registry::register)
            .roles(&[Operator])
            .takes::<Agent>()
            .gives::<Agent>()
            .status(201),
        post("/v1/agents:route", "routeText", "Whom the router would choose for a text", registry::route)
            .roles(READERS)
            .takes::<registry::RouteRequest>()
            .gives::<registry::RouteAnswer>(),
        get(
            "/v1/planners",
            "listPlanners",
            "The planners in their order, their rules and what they match",
            registry::planners,
        )
        .gives::<Page<PlannerView>>(),
        get("/v1/models", "listModels", "The language models with their live rates", registry::models)
            .gives::<Page<ModelView>>(),
        get("/v1/workers", "listWorkers", "The workers that live", registry::workers).gives::<Page<WorkerBeat>>(),
        post(
            "/v1/workers/{id}:drain",
            "drainWorker",
            "Lets a worker finish what it has, and end",
            registry::act_on_worker,
        )
        .roles(&[Operator])
        .gives::<WorkerBeat>()
        .refuses(&[WorkerNotFound]),
        get("/v1/queues", "listQueues", "What waits and what runs, by agent type", registry::queues)
            .gives::<Page<QueueView>>(),
        post("/v1/queues/{agent_type}:pause", "pauseQueue", "Puts nothing new on a queue", registry::act_on_queue)
            .roles(&[Operator])
            .gives::<QueueView>()
            .refuses(&[NotFound, QueueNotFound]),
        post("/v1/queues/{agent_type}:resume", "resumeQueue", "Puts tasks on a queue again", registry::act_on_queue)
            .roles(&[Operator])
            .gives::<QueueView>()
            .refuses(&[NotFound, QueueNotFound]),
        get(
            "/v1/dead-letters",
            "listAllDeadLetters",
            "Tasks that were given up on, of all agent types; 100 at most",
            dead_letters::list_all,
        )
        .gives::<Page<DeadLetterView>>(),
        get("/v1/dead-letters/{agent_type}", "listDeadLetters", "The same of one agent type", dead_letters::list)
            .gives::<Page<DeadLetterView>>()
            .refuses(&[NotFound]),
        get(
            "/v1/refused-submissions",
            "listRefusedSubmissions",
            "Submissions by stream that were refused in the last week, newest first; 100 at most",
            dead_letters::list_refused,
        )
        .gives::<Page<RefusedSubmissionView>>(),
        post(
            "/v1/dead-letters/{agent_type}/{entry}:retry",
            "retryDeadLetter",
            "Does the task once more, as a plan of its own",
            dead_letters::act,
        )
        .roles(&[Operator])
        .gives::<Accepted>()
        .status(202)
        .refuses(&[NotFound, DeadLetterNotFound, NotAllowed, NamespaceLimitReached]),
        post(
            "/v1/dead-letters/{agent_type}/{entry}:discard",
            "discardDeadLetter",
            "Drops the letter",
            dead_letters::act,
        )
        .roles(&[Operator])
        .gives::<DeadLetterView>()
        .refuses(LETTER),
        get("/v1/scaling/{agent_type}", "getScaling", "What an autoscaler reads: always numbers", registry::scaling)
            .roles(&[Viewer, Submitter, Approver, Operator, Scaler])
            .gives::<registry::Scaling>()
            .refuses(&[NotFound]),
        get("/v1/schemas/{name}", "getSchema", "One of the JSON Schemas", registry::schema)
            .gives::<Map<String, Value>>()
            .refuses(&[NotFound]),
        get("/livez", "isAlive", "Whether the process answers", health::livez)
            .access(RouteAccess::Public)
            .gives_as::<String>(TEXT),
        get("/readyz", "isReady", "Whether it can work", health::readyz)
            .access(RouteAccess::Public)
            .gives::<health::Ready>(),
        get("/openapi.json", "getDescription", "This document", super::serve)
            .access(RouteAccess::Public)
            .gives::<Map<String, Value>>(),
    ]
}

/// Headers that operations name.
pub(super) fn headers() -> Value {
    let header = |name: &str, description: &str| json!({"name": name, "in": "header", "required": false, "description": description, "schema": {"type": "string"}});
    let id = |name: &str, description: &str| {
        let mut header = header(name, description);
        header["schema"]["pattern"] = ID_PATTERN.into();
        header
    };
    let mut number = header("Last-Event-ID", "The number of the last event that is known; goes before `after`");
    number["schema"]["pattern"] = "^[0-9]{1,19}$".into();
    json!({
        "Goalmill-Callback-Token": header("Goalmill-Callback-Token", "The token of the task's `callback`, if the body does not have it"),
        "Idempotency-Key": id("Idempotency-Key", "The same key with the same body gives the same plan"),
        "traceparent": header("traceparent", "W3C Trace Context; handed on to agents"),
        "Goalmill-Namespace": id("Goalmill-Namespace", "Limits a caller of all namespaces to one"),
        "Prefer": header("Prefer", "`wait=10` (RFC 7240): the answer comes when the plan has ended, or after so many seconds, at most 300"),
        "If-None-Match": header("If-None-Match", "The `ETag` of the copy that the client has; 304 if it is still right"),
        "Last-Event-Number": number,
        "Last-Event-ID": header("Last-Event-ID", "The id of the last event that is known; goes before `after`"),
    })
}
