//! One settings struct per concern; every field has a default and names its unit.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::archive::{self, ArchiveSettings};
use super::hook::{self, HookSettings};
use super::llm::{self, LlmSettings};
use super::mcp::McpApiSettings;
use super::model::{self, ModelSettings};
use super::namespace_limits::{self, NamespaceSettings};
use super::oidc::{self, OidcSettings};
use super::tls::{self, TlsSettings};
use super::weight::WeightSettings;
use crate::agent::{HEARTBEATS_MISSED_MAX, SILENCE_MS_MAX};
use crate::id::AgentType;
use crate::keys::is_prefix;
use crate::limits::Limits;
use crate::redaction::Redaction;

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The store.
    pub redis: RedisSettings,
    /// Shards, leases, retention.
    pub scheduler: SchedulerSettings,
    /// The HTTP interface.
    pub api: ApiSettings,
    /// Where Prometheus reads.
    pub metrics: MetricsSettings,
    /// Goals to plans.
    pub planner: PlannerSettings,
    /// Language models that planners may ask.
    pub models: Vec<ModelSettings>,
    /// The router, which selects an agent type for `auto` steps.
    pub router: RouterSettings,
    /// Workers and the agents that they serve.
    pub worker: WorkerSettings,
    /// Webhooks that are notified of changes of plans, or decide about them.
    pub hooks: Vec<HookSettings>,
    /// What the log keeps of what agents receive.
    pub record: RecordSettings,
    /// Where finished plans are kept for longer.
    pub archive: ArchiveSettings,
    /// Events from outside that are kept until a plan waits for them.
    pub events: EventSettings,
    /// Plans that are stored under names.
    pub stored_plans: StoredPlanSettings,
    /// Limits of sizes and counts.
    pub limits: Limits,
    /// What namespaces may use: by namespace, and under `*` for each of the others.
    pub namespaces: BTreeMap<String, NamespaceSettings>,
}

/// Events from outside that are kept until a plan waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventSettings {
    /// How long an event is kept.
    pub retention_ms: u64,
    /// Events that a namespace keeps; further ones are refused.
    pub kept_max: usize,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self { retention_ms: 7 * 24 * 3_600_000, kept_max: 10_000 }
    }
}

/// Plans that are stored under names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoredPlanSettings {
    /// Names of a namespace; further ones are refused.
    pub names_max: usize,
    /// Versions of one name, retired ones included; further ones are refused.
    pub versions_max: u32,
    /// Bytes of one document as JSON.
    pub bytes_max: usize,
}

impl Default for StoredPlanSettings {
    fn default() -> Self {
        Self { names_max: 100, versions_max: 100, bytes_max: 256 << 10 }
    }
}

/// What the log keeps of what agents receive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecordSettings {
    /// Records the rendered inputs of every attempt in `step_queued`; those over `limits.inline_bytes_max` by reference.
    pub inputs: bool,
    /// Bytes of recorded inputs of one plan; further ones are recorded by their size alone.
    pub plan_inputs_bytes_max: usize,
    /// What is masked in recorded inputs before they are stored. Agents receive everything.
    pub redact: RedactSettings,
}

impl Default for RecordSettings {
    fn default() -> Self {
        Self { inputs: true, plan_inputs_bytes_max: 64 << 20, redact: RedactSettings::default() }
    }
}

/// What is masked before it is stored; at most 100 fields and patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedactSettings {
    /// Names of fields whose whole value is masked, whatever their case: `password`.
    pub fields: Vec<String>,
    /// Regular expressions; what they match in texts is masked.
    pub patterns: Vec<String>,
}

/// The address of Redis, and how to connect to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedisSettings {
    /// `redis://`, `rediss://`, `redis+unix://` or `redis+sentinel://`; may hold a password, which is never shown.
    pub url: String,
    /// What every key and channel begins with, before a `:`. Installations with different prefixes share a Redis without
    /// seeing each other. 1 to 64 letters, digits, `_`, `-` and `.`.
    pub prefix: String,
    /// Milliseconds to wait for a connection.
    pub connect_ms: u64,
    /// Milliseconds to wait for the reply of a command that does not block.
    pub response_ms: u64,
    /// Milliseconds one blocking read waits.
    pub block_ms: u64,
    /// Connections for commands.
    pub pool_size: usize,
    /// Starts in spite of an eviction policy or a missing append-only file.
    pub allow_unsafe: bool,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            prefix: "goalmill".into(),
            connect_ms: 1_000,
            response_ms: 5_000,
            block_ms: 2_000,
            pool_size: 8,
            allow_unsafe: false,
        }
    }
}

/// Shards, leases, windows and what is kept for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerSettings {
    /// Unique among schedulers; made from host and chance when empty.
    pub id: String,
    /// Shards of a new installation; an existing one keeps its number.
    pub shards: u16,
    /// A shard's owner without a renewal for so long is replaced.
    pub shard_lease_ms: u64,
    /// The interval of heartbeats of owners and schedulers; at most a third of the lease.
    pub heartbeat_ms: u64,
    /// A scheduler ends, to be started again, when one decision of a shard's loop takes longer; the plan goes into quarantine.
    pub watchdog_ms: u64,
    /// Namespaces with a stream of submissions of their own, `goalmill:goals:<namespace>`.
    pub goal_streams: BTreeSet<String>,
    /// Least window: dispatched tasks of one agent type, per shard; twice the live slots when that is more.
    pub window_min: u32,
    /// A worker's right to a task without an extension.
    pub task_lease_ms: u64,
    /// The interval between searches for expired task leases.
    pub reclaim_ms: u64,
    /// How often streams are trimmed.
    pub trim_ms: u64,
    /// Final plans stay readable for so long; with an archive, they stay in Redis for at least so long.
    pub retention_ms: u64,
    /// Plans that only wait for longer than that leave the memory of their owner until something concerns them. 0: they
    /// stay.
    pub park_ms: u64,
    /// Entries read from a shard's inbox in one call.
    pub inbox_batch: usize,
    /// Microseconds after a commit in which a shard keeps asking for what comes next before its thread sleeps: waking
    /// takes longer than most turns. 0, or a single core: it sleeps immediately.
    pub spin_us: u64,
    /// Plans, the last changed, whose logs are read at the start for what they teach about agents and planners.
    pub recalled_plans: usize,
}

impl Default for SchedulerSettings {
    fn default() -> Self {
        Self {
            id: String::new(),
            shards: 4,
            shard_lease_ms: 10_000,
            heartbeat_ms: 1_000,
            watchdog_ms: 10_000,
            goal_streams: BTreeSet::new(),
            window_min: 64,
            task_lease_ms: 30_000,
            reclaim_ms: 1_000,
            trim_ms: 1_000,
            retention_ms: 24 * 3_600_000,
            park_ms: 60_000,
            inbox_batch: 1_000,
            spin_us: 300,
            recalled_plans: 500,
        }
    }
}

/// Whether callers of the API need a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// No: all callers may do everything.
    #[default]
    None,
    /// Yes: each request needs a token or a session, and a role that its route asks for.
    Required,
}

/// The HTTP interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSettings {
    /// Address and port of the API. An address that is not loopback needs `authentication` or `insecure`.
    pub listen: String,
    /// What the addresses of callbacks begin with, as agents reach the API: `https://goalmill.example`. When empty, the
    /// scheme and address of `listen`; if that is all addresses (`0.0.0.0`, `[::]`), steps with `callback: true` are
    /// refused.
    pub callback_url: String,
    /// Certificate and private key, for HTTPS.
    pub tls: TlsSettings,
    /// Serves the API beyond loopback without authentication: all that reach it may do everything.
    pub insecure: bool,
    /// Whether callers need a token.
    pub authentication: Authentication,
    /// An identity provider whose access tokens are accepted besides those of this installation.
    pub oidc: Box<OidcSettings>,
    /// The environment variable that holds a token with the role `admin`, at least 32 characters; empty for none. It
    /// creates the first tokens.
    pub admin_token_env: String,
    /// The environment variable that holds a token that may only read `/v1/scaling`, at least 32 characters; empty for
    /// none.
    pub scaling_token_env: String,
    /// Milliseconds until a session of the web page ends.
    pub session_ms: u64,
    /// Requests with invalid credentials that an address may send in a minute.
    pub failures_per_minute: u32,
    /// Bytes of a request body.
    pub body_bytes_max: usize,
    /// Milliseconds a request may wait for its shard.
    pub answer_ms: u64,
    /// Most open event streams.
    pub streams_max: usize,
    /// Milliseconds a client may take to send a request's head, and to send the next one on an open connection.
    pub head_ms: u64,
    /// Milliseconds a client may take to send a request's body.
    pub body_ms: u64,
    /// Host names that requests may name besides `localhost` and addresses. Without any, every name is taken, unless
    /// the API listens on a loopback address: a page that has its name resolve to that could else read everything.
    pub hosts: Vec<String>,
    /// Origins (`https://goalmill.example`) of pages that may call, besides the API's own: for a proxy that changes `Host`.
    pub origins: Vec<String>,
    /// The MCP server at `/mcp`.
    pub mcp: McpApiSettings,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".into(),
            callback_url: String::new(),
            tls: TlsSettings::default(),
            insecure: false,
            authentication: Authentication::None,
            oidc: Box::default(),
            admin_token_env: String::new(),
            scaling_token_env: String::new(),
            session_ms: 12 * 3_600_000,
            failures_per_minute: 30,
            body_bytes_max: 8 << 20,
            answer_ms: 10_000,
            streams_max: 2_000,
            head_ms: 15_000,
            body_ms: 30_000,
            hosts: Vec::new(),
            origins: Vec::new(),
            mcp: McpApiSettings::default(),
        }
    }
}

/// Prometheus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsSettings {
    /// Address and port of `/metrics`; empty for none.
    pub listen: String,
    /// Agent types that get a label of their own; the rest is `other`.
    pub agent_types_max: usize,
    /// Namespaces that have metrics of their own. Others appear in no label.
    pub namespaces: BTreeSet<String>,
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { listen: "127.0.0.1:9464".into(), agent_types_max: 100, namespaces: BTreeSet::new() }
    }
}

/// How goals become plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlannerSettings {
    /// Tried in this order.
    pub order: Vec<String>,
    /// Directory of rule files; the built-in ones when empty.
    pub rules_dir: String,
    /// Directory of HTN domains; the built-in ones when empty.
    pub domains_dir: String,
    /// Actions applied and methods taken in one search of the planner `htn`.
    pub htn_nodes_max: u64,
    /// Chooses among equals in the planner `htn`: the same seed gives the same plan.
    pub htn_seed: u64,
    /// The planners `llm` and `tools`.
    pub llm: LlmSettings,
    /// Milliseconds one planner may take.
    pub timeout_ms: u64,
    /// Milliseconds that all planners together have for one revision of a running plan; 0 for no limit. A planner that is
    /// asked after that has half a second, so that `rules` can still help.
    pub replan_ms_max: u64,
    /// Milliseconds after which another planner's plan begins while a model is still asked; 0: never. See
    /// `docs/planners.md`.
    pub fallback_after_ms: u64,
    /// Whether steps that are valid by themselves may run while the planner still writes the rest.
    pub stream: bool,
    /// Finished plans of a planner before its confidence is calibrated by their outcomes alone; with fewer, it is drawn to
    /// the outcomes of all planners; 0: never.
    pub calibrate_plans_min: usize,
    /// Which plans with a confidence of at most 0.3 wait for the approval of a person: the generic plan, a plan with facts of
    /// the text that neither a field of the goal nor the rule states, and any other that its planner is that unsure of.
    pub approve_guesses: GuessApproval,
    /// The severity of findings when a planner's plan does not fit the registered agents.
    pub weights: WeightSettings,
    /// Which actions plans may use, and which revisions of running plans are allowed.
    pub policy: PolicySettings,
}

/// Which unsure plans wait for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuessApproval {
    /// Those with an action that has a `side_effect`.
    #[default]
    SideEffects,
    /// All.
    All,
    /// None.
    Never,
}

/// `true` and `false` are read as `all` and `never`.
impl<'de> Deserialize<'de> for GuessApproval {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Flag(bool),
            Word(String),
        }
        match Given::deserialize(deserializer)? {
            Given::Flag(flag) => Ok(if flag { Self::All } else { Self::Never }),
            Given::Word(word) => match word.as_str() {
                "side_effects" => Ok(Self::SideEffects),
                "all" => Ok(Self::All),
                "never" => Ok(Self::Never),
                _ => Err(serde::de::Error::custom("it is one of `side_effects`, `all`, `never`")),
            },
        }
    }
}

/// Which actions of which agents plans may use. A pattern is `agent/action`, or `agent` for all of its actions; `*`
/// stands for any letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicySettings {
    /// Nothing else may be used; anything, when empty.
    pub allow: Vec<String>,
    /// Never to be used, whatever `allow` says.
    pub deny: Vec<String>,
    /// A person must approve first.
    pub approve: Vec<String>,
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            order: vec!["rules".into()],
            rules_dir: String::new(),
            domains_dir: String::new(),
            htn_nodes_max: 5_000_000,
            htn_seed: 1,
            llm: LlmSettings::default(),
            timeout_ms: 60_000,
            replan_ms_max: 10_000,
            fallback_after_ms: 3_000,
            stream: true,
            calibrate_plans_min: 50,
            approve_guesses: GuessApproval::SideEffects,
            weights: WeightSettings::default(),
            policy: PolicySettings::default(),
        }
    }
}

/// The router, which selects an agent type for `auto` steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RouterSettings {
    /// Below this probability (0 to 1) that anybody fits, the router abstains.
    pub threshold: f64,
    /// Candidates within this share of the best similarity (0 to 1) are near-equals, among which success and cost
    /// choose; `off` lets them choose among all.
    pub gate: Gate,
    /// The registry is read again at least this often, besides after each message on `goalmill:agents:changed`.
    pub refresh_ms: u64,
    /// A static model of words: `general` for the one that is built in (English), or a `safetensors` file, or a folder
    /// with a `model.safetensors`; empty for none.
    pub local_model: String,
    /// Its `tokenizer.json`; empty for the one beside it.
    pub local_tokenizer: String,
    /// Address of an OpenAI-compatible endpoint, up to `/v1`, that embeds texts; empty for none.
    pub embed_url: String,
    /// The model that is asked of that endpoint.
    pub embed_model: String,
    /// The environment variable that holds the endpoint's key; empty for no key.
    pub embed_key_env: String,
    /// Milliseconds one request to the endpoint may take; then the others decide without it.
    pub embed_timeout_ms: u64,
    /// US dollars per million tokens of the endpoint, for the cost of routing; 0 for none.
    pub embed_price: f64,
    /// Milliseconds for which the vector of a step is kept.
    pub cache_ms: u64,
    /// Vectors of steps that are kept at most.
    pub cache_entries_max: usize,
    /// Learns from the outcomes of steps who fits.
    pub learn: bool,
    /// Outcomes that are kept for each agent type to learn from.
    pub learn_examples_max: usize,
    /// Milliseconds after which a measured outcome counts by half.
    pub half_life_ms: u64,
}

impl Default for RouterSettings {
    fn default() -> Self {
        Self {
            threshold: 0.15,
            gate: Gate::Share(0.003),
            refresh_ms: 300_000,
            local_model: "general".into(),
            local_tokenizer: String::new(),
            embed_url: String::new(),
            embed_model: "text-embedding-3-small".into(),
            embed_key_env: "OPENAI_API_KEY".into(),
            embed_timeout_ms: 2_000,
            embed_price: 0.0,
            cache_ms: 3_600_000,
            cache_entries_max: 10_000,
            learn: false,
            learn_examples_max: 100,
            half_life_ms: 3_600_000,
        }
    }
}

/// How near to the best a candidate must be to be chosen for its success and cost.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema)]
#[schemars(with = "GateForm")]
pub enum Gate {
    /// Success and cost are held against the similarity of every candidate.
    Off,
    /// Within this share of the best similarity, 0 to 1.
    Share(f64),
}

/// How a gate is written.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
enum GateForm {
    Share(f64),
    Word(String),
    // YAML reads a bare `off` as this.
    Switch(bool),
}

impl Serialize for Gate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::Share(share) => serializer.serialize_f64(*share),
        }
    }
}

impl<'de> Deserialize<'de> for Gate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("a gate is `off` or a share, 0 to 1");
        let share = match GateForm::deserialize(deserializer).map_err(|_| wrong())? {
            GateForm::Switch(false) => return Ok(Self::Off),
            GateForm::Word(word) if word == "off" => return Ok(Self::Off),
            GateForm::Word(word) => word.parse().map_err(|_| wrong())?,
            GateForm::Share(share) => share,
            GateForm::Switch(true) => return Err(wrong()),
        };
        if (0.0..=1.0).contains(&share) { Ok(Self::Share(share)) } else { Err(wrong()) }
    }
}

/// A worker: the agents that it serves, its slots, its drain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSettings {
    /// Unique among workers; made from host and chance when empty.
    pub id: String,
    /// Most tasks that run concurrently.
    pub slots: u32,
    /// Address and port of `/livez`, `/readyz` and `/metrics`; empty for none.
    pub listen: String,
    /// The interval of a worker's heartbeats, 150,000 at most. Schedulers count it as gone after four missed ones.
    pub heartbeat_ms: u64,
    /// Executions that outlive this report their start and progress.
    pub flush_ms: u64,
    /// On the first signal, running tasks get this long. The end takes up to 8 s more; the default is within the 30 s that
    /// Kubernetes gives a pod.
    pub drain_ms: u64,
    /// Stops a task itself when its lease could not be extended until this long before its end.
    pub lease_margin_ms: u64,
    /// Directory of the files that agents read and write, a directory for each plan; `goalmill-files` in the directory
    /// for temporary files when empty. Workers on several machines need a shared one.
    pub files_dir: String,
    /// Executors by agent type: see the worker's documentation for the kinds and their fields.
    pub agents: BTreeMap<AgentType, serde_json::Value>,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            id: String::new(),
            slots: 16,
            listen: String::new(),
            heartbeat_ms: 2_000,
            flush_ms: 200,
            drain_ms: 20_000,
            lease_margin_ms: 5_000,
            files_dir: String::new(),
            agents: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Every relation between settings that does not hold, as sentences.
    pub fn violations(&self) -> Vec<String> {
        let s = &self.scheduler;
        let w = &self.worker;
        let checks = [
            (s.heartbeat_ms * 3 <= s.shard_lease_ms, "scheduler.heartbeat_ms * 3 <= scheduler.shard_lease_ms"),
            (s.watchdog_ms >= 1_000, "scheduler.watchdog_ms >= 1000"),
            (s.heartbeat_ms > 0, "scheduler.heartbeat_ms > 0"),
            (s.shards > 0, "scheduler.shards > 0"),
            (s.window_min > 0, "scheduler.window_min > 0"),
            (s.inbox_batch > 0, "scheduler.inbox_batch > 0"),
            (w.slots > 0, "worker.slots > 0"),
            (self.api.head_ms > 0, "api.head_ms > 0"),
            (self.api.body_ms > 0, "api.body_ms > 0"),
            (self.api.session_ms > 0, "api.session_ms > 0"),
            (self.api.failures_per_minute > 0, "api.failures_per_minute > 0"),
            (self.api.mcp.idle_ms > 0, "api.mcp.idle_ms > 0"),
            (w.heartbeat_ms > 0, "worker.heartbeat_ms > 0"),
            (w.heartbeat_ms <= SILENCE_MS_MAX / HEARTBEATS_MISSED_MAX, "worker.heartbeat_ms <= 150000"),
            (s.task_lease_ms > 2 * w.lease_margin_ms, "scheduler.task_lease_ms > 2 * worker.lease_margin_ms"),
            (self.redis.pool_size > 0, "redis.pool_size > 0"),
            (is_prefix(&self.redis.prefix), "redis.prefix has 1 to 64 letters, digits, `_`, `-` and `.`"),
        ];
        let limits = self.limits.relations();
        let relations =
            checks.iter().chain(&limits).filter(|(holds, _)| !holds).map(|(_, text)| format!("`{text}` must hold"));
        relations
            .chain(tls::violations(&self.api.tls))
            .chain(oidc::violations(&self.api.oidc))
            .chain(llm::violations(&self.planner.llm))
            .chain(model::violations(&self.models))
            .chain(hook::violations(&self.hooks))
            .chain(namespace_limits::violations(&self.namespaces))
            .chain(namespace_limits::stream_violations(&self.scheduler.goal_streams))
            .chain(archive::violations(&self.archive, self.scheduler.retention_ms))
            .chain(Redaction::new(&self.record.redact).err().map(|why| format!("`record.redact`: {why}")))
            .collect()
    }
}
