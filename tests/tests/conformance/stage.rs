//! A back end to try verbs on, all that can be seen of it, and time that passes when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goalmill_broker::{Broker, Install, Reader};
use goalmill_common::clock::Clock;
use goalmill_common::id::{AgentType, PlanId, ShardId};
use goalmill_common::keys;
use goalmill_tests::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};

/// Plans, submissions, agent types and blobs that scenarios use: [`Stage::look`] looks at these.
pub const PLANS: [&str; 4] = ["p0-a", "p0-b", "p0-c", "p1-a"];
pub const SUBMISSIONS: [&str; 3] = ["r1", "r2", "r3"];
pub const AGENT_TYPES: [&str; 3] = ["build", "test", "ship"];
pub const BLOBS: [&str; 2] = ["k1", "k2"];
const DAY_MS: u64 = 86_400_000;

/// One back end.
pub struct Stage {
    pub broker: Arc<dyn Broker>,
    probe: Box<dyn Reader>,
    back_end: BackEnd,
}

enum BackEnd {
    Embedded { shift_ms: Arc<AtomicU64> },
    Redis(Box<RedisBackEnd>),
}

struct RedisBackEnd {
    server: RedisServer,
    raw: MultiplexedConnection,
}

/// What could be seen at one time: through the verbs, and as raw keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    visible: BTreeMap<String, String>,
    raw: BTreeMap<String, String>,
}

impl Stage {
    pub async fn embedded() -> Self {
        let shift_ms = Arc::new(AtomicU64::new(0));
        let (system, shift) = (Clock::system(), Arc::clone(&shift_ms));
        let clock = Clock::from_fn(move || system.now_ms() + shift.load(Ordering::Relaxed));
        let broker = goalmill_broker::embedded::open(None, clock).unwrap();
        Self::installed(broker, BackEnd::Embedded { shift_ms }).await
    }

    pub async fn redis() -> Self {
        let server = RedisServer::start().await.unwrap();
        let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
        let raw = server.connection().await.unwrap();
        Self::installed(broker, BackEnd::Redis(Box::new(RedisBackEnd { server, raw }))).await
    }

    async fn installed(broker: Arc<dyn Broker>, back_end: BackEnd) -> Self {
        broker.open(&Install { instance: "first".into(), shards: 2 }).await.unwrap();
        let probe = broker.reader().await.unwrap();
        Self { broker, probe, back_end }
    }

    /// The server behind the back end.
    pub fn server(&mut self) -> &mut RedisServer {
        match &mut self.back_end {
            BackEnd::Redis(redis) => &mut redis.server,
            BackEnd::Embedded { .. } => panic!("this scenario is for Redis only"),
        }
    }

    /// Sends a plain command to the server.
    pub async fn raw<T: FromRedisValue>(&mut self, command: &[&str]) -> T {
        match &mut self.back_end {
            BackEnd::Redis(redis) => raw(&mut redis.raw, command).await,
            BackEnd::Embedded { .. } => panic!("this scenario is for Redis only"),
        }
    }

    /// Every key of the server with its content.
    pub async fn raw_keys(&mut self) -> BTreeMap<String, String> {
        match &mut self.back_end {
            BackEnd::Redis(redis) => dump(&mut redis.raw).await,
            BackEnd::Embedded { .. } => panic!("this scenario is for Redis only"),
        }
    }

    /// Lets `ms` milliseconds pass.
    pub async fn later(&mut self, ms: u64) {
        match &mut self.back_end {
            BackEnd::Embedded { shift_ms } => {
                shift_ms.fetch_add(ms, Ordering::Relaxed);
            }
            BackEnd::Redis(redis) => age(&mut redis.raw, ms).await,
        }
    }

    /// Everything that can be seen.
    pub async fn look(&mut self) -> View {
        let visible = self.visible().await;
        let raw = match &mut self.back_end {
            BackEnd::Embedded { .. } => BTreeMap::new(),
            BackEnd::Redis(redis) => dump(&mut redis.raw).await,
        };
        View { visible, raw }
    }

    /// Asserts that, since `before`, exactly this changed: `visible` through the verbs, `keys` in Redis.
    #[track_caller]
    pub fn assert_changed(
        &mut self,
        before: &View,
        visible: &[&str],
        keys: &[&str],
    ) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let after = self.look().await;
            let seen = changes(&before.visible, &after.visible);
            assert_eq!(
                seen,
                visible.iter().map(|s| (*s).into()).collect(),
                "visible changes at {place}\n{after:#?}"
            );
            if matches!(self.back_end, BackEnd::Redis(_)) {
                let seen = changes(&before.raw, &after.raw);
                assert_eq!(
                    seen,
                    keys.iter().map(|s| (*s).into()).collect(),
                    "changed keys at {place}\n{after:#?}"
                );
            }
        }
    }

    #[track_caller]
    pub fn assert_unchanged(&mut self, before: &View) -> impl Future<Output = ()> {
        self.assert_changed(before, &[], &[])
    }

    async fn visible(&mut self) -> BTreeMap<String, String> {
        let broker = Arc::clone(&self.broker);
        let mut seen = Seen::default();
        seen.add("meta", broker.meta().await.unwrap());
        for shard in [ShardId(0), ShardId(1)] {
            let cursor = broker.cursor(shard).await.unwrap();
            seen.add(&format!("owner {shard}"), broker.owner(shard).await.unwrap());
            seen.add(&format!("active {shard}"), broker.active(shard).await.unwrap());
            seen.add(
                &format!("index {shard}"),
                broker.plans(shard, u64::MAX >> 12, 100).await.unwrap(),
            );
            seen.add(
                &format!("inbox {shard}"),
                self.probe.inbox(shard, &cursor, 1_000, 0).await.unwrap(),
            );
            seen.add(&format!("cursor {shard}"), cursor);
        }
        for plan in PLANS {
            let id = PlanId::from(plan);
            seen.add(&format!("log {plan}"), broker.log(&id, 0, 1_000).await.unwrap());
            seen.add(&format!("summary {plan}"), broker.summary(&id).await.unwrap());
        }
        let ids = SUBMISSIONS.map(String::from);
        for (id, answer) in ids.iter().zip(broker.answers(&ids).await.unwrap()) {
            seen.add(&format!("answer {id}"), answer);
        }
        for queue in broker.queues().await.unwrap() {
            seen.add(&format!("queue {}", queue.agent_type), queue);
        }
        for agent_type in AGENT_TYPES.map(AgentType::from) {
            seen.add(
                &format!("dead {agent_type}"),
                broker.dead_letters(&agent_type, 100).await.unwrap(),
            );
        }
        seen.add("cancelled", broker.cancelled().await.unwrap());
        for agent in broker.agents().await.unwrap() {
            seen.add(&format!("agent {}", agent.agent_type), agent);
        }
        for beat in broker.workers(DAY_MS).await.unwrap() {
            seen.add(&format!("worker {}", beat.worker), beat);
        }
        for key in BLOBS {
            seen.add(
                &format!("blob {key}"),
                broker.get_blob(&keys::blob(ShardId(0), key)).await.unwrap(),
            );
        }
        seen.0
    }
}

#[derive(Default)]
struct Seen(BTreeMap<String, String>);

impl Seen {
    fn add(&mut self, name: &str, what: impl Debug) {
        self.0.insert(name.into(), format!("{what:?}"));
    }
}

fn changes(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

pub async fn raw<T: FromRedisValue>(connection: &mut MultiplexedConnection, command: &[&str]) -> T {
    let mut cmd = redis::cmd(command[0]);
    for argument in &command[1..] {
        cmd.arg(argument);
    }
    cmd.query_async(connection).await.unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Every key with its content; without what ticks by itself.
pub async fn dump(connection: &mut MultiplexedConnection) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for key in raw::<BTreeSet<String>>(connection, &["KEYS", "*"]).await {
        let kind: String = raw(connection, &["TYPE", &key]).await;
        let content = match kind.as_str() {
            "string" => format!("{:?}", raw::<Value>(connection, &["GET", &key]).await),
            "hash" => format!(
                "{:?}",
                raw::<BTreeMap<String, Vec<u8>>>(connection, &["HGETALL", &key]).await
            ),
            "set" => {
                format!("{:?}", raw::<BTreeSet<String>>(connection, &["SMEMBERS", &key]).await)
            }
            "zset" => format!(
                "{:?}",
                raw::<Value>(connection, &["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await
            ),
            "stream" => dump_stream(connection, &key).await,
            other => panic!("`{key}` is a {other}"),
        };
        let expires = raw::<i64>(connection, &["PTTL", &key]).await >= 0;
        all.insert(key, format!("{kind} {content} expires: {expires}"));
    }
    all
}

async fn dump_stream(connection: &mut MultiplexedConnection, key: &str) -> String {
    let mut content = format!("{:?}", raw::<Value>(connection, &["XRANGE", key, "-", "+"]).await);
    for group in groups(connection, key).await {
        let pending: Vec<(String, String, u64, u64)> =
            raw(connection, &["XPENDING", key, &group, "-", "+", "100000"]).await;
        let pending: Vec<_> =
            pending.into_iter().map(|(id, consumer, _, _)| (id, consumer)).collect();
        content += &format!(" group {group}: {pending:?}");
    }
    content
}

async fn groups(connection: &mut MultiplexedConnection, key: &str) -> Vec<String> {
    let groups: Vec<BTreeMap<String, Value>> = raw(connection, &["XINFO", "GROUPS", key]).await;
    groups
        .into_iter()
        .map(|group| redis::from_redis_value(group["name"].clone()).unwrap())
        .collect()
}

/// Makes everything in Redis that carries a time older.
async fn age(connection: &mut MultiplexedConnection, ms: u64) {
    for key in raw::<Vec<String>>(connection, &["KEYS", "*"]).await {
        let left: i64 = raw(connection, &["PTTL", &key]).await;
        if left >= 0 {
            let left = left - i64::try_from(ms).unwrap();
            raw::<Value>(connection, &["PEXPIRE", &key, &left.to_string()]).await;
        }
        if raw::<String>(connection, &["TYPE", &key]).await == "stream" {
            age_pending(connection, &key, ms).await;
        }
    }
    for key in [keys::WORKERS, keys::SCHEDULERS_ALIVE, keys::CANCELLED] {
        for member in raw::<Vec<String>>(connection, &["ZRANGE", key, "0", "-1"]).await {
            raw::<Value>(connection, &["ZINCRBY", key, &format!("-{ms}"), &member]).await;
        }
    }
}

async fn age_pending(connection: &mut MultiplexedConnection, key: &str, ms: u64) {
    for group in groups(connection, key).await {
        let pending: Vec<(String, String, u64, u64)> =
            raw(connection, &["XPENDING", key, &group, "-", "+", "100000"]).await;
        for (id, consumer, idle, count) in pending {
            let (idle, count) = ((idle + ms).to_string(), count.to_string());
            let claim = [
                "XCLAIM",
                key,
                &group,
                &consumer,
                "0",
                &id,
                "IDLE",
                &idle,
                "RETRYCOUNT",
                &count,
                "JUSTID",
            ];
            raw::<Value>(connection, &claim).await;
        }
    }
}
