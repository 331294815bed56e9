//! A back end to try verbs on, all that can be seen of it, and time that passes when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goalmill_broker::{Broker, Install, Reader};
use goalmill_common::clock::Clock;
use goalmill_common::config::RedisSettings;
use goalmill_common::id::{AgentType, PlanId, ShardId};
use goalmill_common::keys::Keys;
use goalmill_common::limits::TaskLimits;
use goalmill_tests::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};

/// Plans, submissions, agent types and blobs that scenarios use: [`Stage::look`] looks at these.
pub const PLANS: [&str; 4] = ["p0-a", "p0-b", "p0-c", "p1-a"];
const WORKERS: [&str; 3] = ["w0", "w1", "w2"];
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
    _server: Arc<RedisServer>,
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
        let server = Arc::new(RedisServer::start().await.unwrap());
        Self::redis_again(&server).await
    }

    /// An empty installation on a server that was used before.
    pub async fn redis_again(server: &Arc<RedisServer>) -> Self {
        Self::redis_through(server, &server.settings()).await
    }

    /// An empty installation on a server that is reached in another way.
    pub async fn redis_through(server: &Arc<RedisServer>, settings: &RedisSettings) -> Self {
        let mut connection = server.connection().await.unwrap();
        raw::<Value>(&mut connection, &["FLUSHALL"]).await;
        let broker = goalmill_broker::redis::connect(settings).await.unwrap();
        let back_end = RedisBackEnd { _server: Arc::clone(server), raw: connection };
        Self::installed(broker, BackEnd::Redis(Box::new(back_end))).await
    }

    async fn installed(broker: Arc<dyn Broker>, back_end: BackEnd) -> Self {
        broker.open(&Install { instance: "first".into(), shards: 2, limits: TaskLimits::default() }).await.unwrap();
        let probe = broker.reader().await.unwrap();
        Self { broker, probe, back_end }
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
    pub fn assert_changed(&mut self, before: &View, visible: &[&str], keys: &[&str]) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let after = self.look().await;
            let seen = changes(&before.visible, &after.visible);
            assert_eq!(seen, visible.iter().map(|s| (*s).into()).collect(), "visible changes at {place}\n{after:#?}");
            if matches!(self.back_end, BackEnd::Redis(_)) {
                let seen = changes(&before.raw, &after.raw);
                assert_eq!(seen, keys.iter().map(|s| (*s).into()).collect(), "changed keys at {place}\n{after:#?}");
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
            seen.add(&format!("index {shard}"), broker.plans(shard, u64::MAX >> 12, 100).await.unwrap());
            seen.add(&format!("inbox {shard}"), self.probe.inbox(shard, &cursor, 1_000, 0).await.unwrap());
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
            seen.add(&format!("dead {agent_type}"), broker.dead_letters(&agent_type, 100).await.unwrap());
        }
        seen.add("paused", broker.paused_queues().await.unwrap());
        for worker in WORKERS {
            seen.add(&format!("drain {worker}"), broker.drain_requested(&worker.into()).await.unwrap());
        }
        seen.add("cancelled", broker.cancelled().await.unwrap());
        for agent in broker.agents().await.unwrap().agents {
            seen.add(&format!("agent {}", agent.agent_type), agent);
        }
        for beat in broker.workers(DAY_MS).await.unwrap() {
            seen.add(&format!("worker {}", beat.worker), beat);
        }
        seen.add("tokens", broker.fields(&Keys::default().tokens()).await.unwrap());
        for key in BLOBS {
            seen.add(&format!("blob {key}"), broker.get_blob(&Keys::default().blob(ShardId(0), key)).await.unwrap());
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

fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeSet<String> {
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

/// Every key with its content; without what ticks by itself. In one go, since the tests look often.
async fn dump(connection: &mut MultiplexedConnection) -> BTreeMap<String, String> {
    const SCRIPT: &str = r"
        local function show(value)
            if type(value) ~= 'table' then return tostring(value) end
            local parts = {}
            for place, part in ipairs(value) do parts[place] = show(part) end
            return '[' .. table.concat(parts, ' ') .. ']'
        end
        local function hash(key)
            local flat, fields = redis.call('HGETALL', key), {}
            for place = 1, #flat, 2 do fields[#fields + 1] = flat[place] .. '=' .. flat[place + 1] end
            table.sort(fields)
            return show(fields)
        end
        local function set(key)
            local members = redis.call('SMEMBERS', key)
            table.sort(members)
            return show(members)
        end
        local function stream(key)
            local text = show(redis.call('XRANGE', key, '-', '+'))
            for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
                text = text .. ' group ' .. group[2] .. ' at ' .. group[8] .. ':'
                for _, entry in ipairs(redis.call('XPENDING', key, group[2], '-', '+', 100000)) do
                    text = text .. ' ' .. entry[1] .. ' with ' .. entry[2]
                end
            end
            return text
        end
        local all = {}
        for _, key in ipairs(redis.call('KEYS', '*')) do
            local kind, content = redis.call('TYPE', key).ok, ''
            if kind == 'string' then content = redis.call('GET', key)
            elseif kind == 'hash' then content = hash(key)
            elseif kind == 'set' then content = set(key)
            elseif kind == 'zset' then content = show(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'))
            elseif kind == 'stream' then content = stream(key)
            else error('a key of type ' .. kind) end
            all[#all + 1] = key
            all[#all + 1] = kind .. ' ' .. content .. ' expires: ' .. tostring(redis.call('PTTL', key) >= 0)
        end
        return all";
    let flat: Vec<Vec<u8>> = raw(connection, &["EVAL", SCRIPT, "0"]).await;
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    flat.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// Makes everything in Redis that carries a time older.
async fn age(connection: &mut MultiplexedConnection, ms: u64) {
    const SCRIPT: &str = r"
        local ms = tonumber(ARGV[1])
        for _, key in ipairs(redis.call('KEYS', '*')) do
            local left = redis.call('PTTL', key)
            if left >= 0 then redis.call('PEXPIRE', key, left - ms) end
            if redis.call('TYPE', key).ok == 'stream' then
                for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
                    for _, entry in ipairs(redis.call('XPENDING', key, group[2], '-', '+', 100000)) do
                        redis.call('XCLAIM', key, group[2], entry[2], 0, entry[1],
                            'IDLE', string.format('%.0f', entry[3] + ms), 'RETRYCOUNT', entry[4], 'JUSTID')
                    end
                end
            end
        end
        for _, key in ipairs(KEYS) do
            for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
                redis.call('ZINCRBY', key, -ms, member)
            end
        end";
    let [workers, schedulers, cancelled] =
        [Keys::default().workers(), Keys::default().schedulers(), Keys::default().cancelled()];
    raw::<Value>(connection, &["EVAL", SCRIPT, "3", &workers, &schedulers, &cancelled, &ms.to_string()]).await;
}
