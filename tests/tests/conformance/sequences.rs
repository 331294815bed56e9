//! Random sequences of verbs give the same answers from both back ends.
//!
//! Entry ids and times differ between the two: verbs name entries by the order in which they were seen, and
//! times pass in steps of ten seconds while every limit lies between two steps.

use std::sync::Arc;

use goalmill_broker::{
    Activity, Broadcast, Broker, BrokerError, Claim, Commit, Committed, DeadLetter, Delivery, Entry, InboxCursor,
    Ownership, PlanWrite, Reader,
};
use goalmill_common::agent::{Agent, LATENCY_MS_MAX, WorkerBeat};
use goalmill_common::id::{AgentType, EntryId, PlanId, ShardId, WorkerId};
use goalmill_common::keys::Keys;
use goalmill_common::wire::InboxStream;
use goalmill_tests::redis_server::{Fsync, Options, RedisServer};
use goalmill_tests::wait::{SOON, until};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use crate::make::{letter, submission, task};
use crate::stage::Stage;

const TYPES: [&str; 3] = ["build", "test", "ship"];
const PLANS: [&str; 3] = ["a", "b", "c"];
const IDLE_MS: u64 = 65_000;
const WITHIN_MS: u64 = 55_000;
/// More than a sequence can make.
const MANY: usize = 10_000;

/// A verb on the fields of one hash.
#[derive(Clone, Debug)]
enum FieldVerb {
    Put { field: u8, value: u8 },
    Add { field: u8, value: u8 },
    Get { field: u8 },
    All,
    Remove { field: u8 },
}

/// One verb, with places instead of ids: they mean what the run has seen so far.
#[derive(Clone, Debug)]
enum Verb {
    Acquire {
        shard: u16,
        token: u8,
        seen: Seen,
    },
    Renew {
        shard: u16,
        token: u8,
    },
    Release {
        shard: u16,
        token: u8,
    },
    Commit(Batch),
    Look {
        shard: u16,
    },
    Plan {
        shard: u16,
        plan: usize,
        after: u64,
        limit: usize,
    },
    SweepIndex {
        shard: u16,
        before_ms: u64,
    },
    Submit {
        id: u8,
    },
    TakeSubmissions {
        reader: usize,
        count: usize,
    },
    ReclaimSubmissions {
        reader: usize,
    },
    AcknowledgeSubmissions {
        places: Vec<usize>,
    },
    Answer {
        id: u8,
        answer: u8,
    },
    Answers,
    Send {
        shard: u16,
        data: u8,
        is_request: bool,
    },
    Inbox {
        reader: usize,
        shard: u16,
        count: usize,
    },
    Pull {
        reader: usize,
        types: Vec<usize>,
        count: usize,
    },
    Extend {
        reader: usize,
        places: Vec<usize>,
    },
    Reclaim {
        agent_type: usize,
    },
    Trim {
        agent_type: usize,
    },
    Queues,
    PauseQueue {
        agent_type: usize,
        paused: bool,
    },
    PausedQueues,
    RequestDrain {
        worker: u8,
    },
    DrainRequested {
        worker: u8,
    },
    /// The letter at this place, the newest first.
    DiscardDeadLetter {
        agent_type: usize,
        place: usize,
    },
    Cancel {
        tokens: Vec<u8>,
    },
    Cancelled,
    Register {
        agent_type: usize,
        latency_ms: u64,
    },
    Agents,
    BeatWorker {
        worker: u8,
        busy: u32,
    },
    ForgetWorker {
        worker: u8,
    },
    Workers,
    BeatScheduler {
        id: u8,
    },
    ForgetScheduler {
        id: u8,
    },
    DeadLetter {
        agent_type: usize,
        step: u8,
    },
    DeadLetters {
        agent_type: usize,
        limit: usize,
    },
    PutBlob {
        key: u8,
        bytes: Vec<u8>,
        ttl_ms: u64,
    },
    GetBlob {
        key: u8,
    },
    RemoveBlob {
        key: u8,
    },
    Field(FieldVerb),
    /// The reader's process ended and another took its name.
    Reopen {
        reader: usize,
    },
    Later {
        ms: u64,
    },
}

#[derive(Clone, Debug)]
enum Seen {
    Nobody,
    TheOwner,
    AnOlderBeat,
}

#[derive(Clone, Debug)]
struct Batch {
    shard: u16,
    token: u8,
    /// What is added to the number of the last commit: 1 is right.
    number: u64,
    /// How far the cursor of each stream of the inbox moves.
    cursors: [Option<usize>; 2],
    plans: Vec<Write>,
    tasks: Vec<usize>,
    acknowledged: Vec<usize>,
    full_check: bool,
}

#[derive(Clone, Debug)]
struct Write {
    plan: usize,
    /// What is added to the right base: 0 is right.
    skip: u64,
    events: u64,
    ends: Option<u64>,
    index_ms: u64,
}

#[test]
fn random_sequences_give_the_same_answers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fast = Options { fsync: Fsync::Off, ..Options::default() };
    let server = Arc::new(runtime.block_on(RedisServer::start_with(fast)).unwrap());
    let config = Config { failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    TestRunner::new(config)
        .run(&vec(verb(), 1..80), |verbs| {
            runtime.block_on(async {
                let mut embedded = Run::new(Stage::embedded().await).await;
                let mut redis = Run::new(Stage::redis_again(&server).await).await;
                for (place, verb) in verbs.iter().enumerate() {
                    let expected = embedded.run(verb).await?;
                    prop_assert_eq!(expected, redis.run(verb).await?, "verb {}: {:?}", place, verb);
                }
                let said = embedded.said(0).await;
                let heard = redis.said(said.len()).await;
                prop_assert_eq!(said, heard);
                Ok(())
            })
        })
        .unwrap_or_else(|e| panic!("{e}"));
}

fn verb() -> impl Strategy<Value = Verb> {
    let shard = || 0..2_u16;
    // Mostly the token that is most often the owner's.
    let token = || prop_oneof![5 => Just(0_u8), 1 => 1..3_u8];
    let reader = || 0..2_usize;
    let agent_type = || 0..TYPES.len();
    let places = || vec(0..40_usize, 0..6);
    let seen = prop_oneof![2 => Just(Seen::Nobody), 3 => Just(Seen::TheOwner), 1 => Just(Seen::AnOlderBeat)];
    let ownership = prop_oneof![
        6 => (shard(), token(), seen).prop_map(|(shard, token, seen)| Verb::Acquire { shard, token, seen }),
        2 => (shard(), token()).prop_map(|(shard, token)| Verb::Renew { shard, token }),
        1 => (shard(), token()).prop_map(|(shard, token)| Verb::Release { shard, token }),
    ];
    let journal = prop_oneof![
        8 => batch().prop_map(Verb::Commit),
        2 => shard().prop_map(|shard| Verb::Look { shard }),
        2 => (shard(), 0..PLANS.len(), 0..12_u64, 0..5_usize)
            .prop_map(|(shard, plan, after, limit)| Verb::Plan { shard, plan, after, limit }),
        1 => (shard(), 0..50_u64).prop_map(|(shard, before_ms)| Verb::SweepIndex { shard, before_ms }),
    ];
    let submissions = prop_oneof![
        3 => any::<u8>().prop_map(|id| Verb::Submit { id }),
        3 => (reader(), 1..4_usize).prop_map(|(reader, count)| Verb::TakeSubmissions { reader, count }),
        2 => reader().prop_map(|reader| Verb::ReclaimSubmissions { reader }),
        2 => places().prop_map(|places| Verb::AcknowledgeSubmissions { places }),
        1 => (0..4_u8, any::<u8>()).prop_map(|(id, answer)| Verb::Answer { id, answer }),
        1 => Just(Verb::Answers),
        2 => (shard(), any::<u8>(), any::<bool>())
            .prop_map(|(shard, data, is_request)| Verb::Send { shard, data, is_request }),
        2 => (reader(), shard(), 1..4_usize).prop_map(|(reader, shard, count)| Verb::Inbox { reader, shard, count }),
    ];
    let tasks = prop_oneof![
        6 => (reader(), vec(agent_type(), 1..4), 1..6_usize)
            .prop_map(|(reader, types, count)| Verb::Pull { reader, types, count }),
        2 => (reader(), places()).prop_map(|(reader, places)| Verb::Extend { reader, places }),
        2 => agent_type().prop_map(|agent_type| Verb::Reclaim { agent_type }),
        1 => agent_type().prop_map(|agent_type| Verb::Trim { agent_type }),
        2 => Just(Verb::Queues),
    ];
    let registry = prop_oneof![
        vec(any::<u8>(), 0..3).prop_map(|tokens| Verb::Cancel { tokens }),
        Just(Verb::Cancelled),
        (agent_type(), 0..=LATENCY_MS_MAX)
            .prop_map(|(agent_type, latency_ms)| Verb::Register { agent_type, latency_ms }),
        Just(Verb::Agents),
        (0..3_u8, any::<u32>()).prop_map(|(worker, busy)| Verb::BeatWorker { worker, busy }),
        (0..3_u8).prop_map(|worker| Verb::ForgetWorker { worker }),
        Just(Verb::Workers),
        (0..3_u8).prop_map(|id| Verb::BeatScheduler { id }),
        (0..3_u8).prop_map(|id| Verb::ForgetScheduler { id }),
        (agent_type(), any::<u8>()).prop_map(|(agent_type, step)| Verb::DeadLetter { agent_type, step }),
        (agent_type(), 0..4_usize).prop_map(|(agent_type, limit)| Verb::DeadLetters { agent_type, limit }),
        (agent_type(), 0..3_usize).prop_map(|(agent_type, place)| Verb::DiscardDeadLetter { agent_type, place }),
        (agent_type(), any::<bool>()).prop_map(|(agent_type, paused)| Verb::PauseQueue { agent_type, paused }),
        Just(Verb::PausedQueues),
        (0..3_u8).prop_map(|worker| Verb::RequestDrain { worker }),
        (0..3_u8).prop_map(|worker| Verb::DrainRequested { worker }),
        (0..2_u8, vec(any::<u8>(), 0..9), select(&[25_000, 105_000][..]))
            .prop_map(|(key, bytes, ttl_ms)| Verb::PutBlob { key, bytes, ttl_ms }),
        (0..2_u8).prop_map(|key| Verb::GetBlob { key }),
        (0..2_u8).prop_map(|key| Verb::RemoveBlob { key }),
    ];
    let fields = prop_oneof![
        (0..3_u8, 0..9_u8).prop_map(|(field, value)| FieldVerb::Put { field, value }),
        (0..3_u8, 0..9_u8).prop_map(|(field, value)| FieldVerb::Add { field, value }),
        (0..3_u8).prop_map(|field| FieldVerb::Get { field }),
        Just(FieldVerb::All),
        (0..3_u8).prop_map(|field| FieldVerb::Remove { field }),
    ]
    .prop_map(Verb::Field);
    let rest = prop_oneof![
        2 => reader().prop_map(|reader| Verb::Reopen { reader }),
        3 => select(&[10_000, 30_000, 70_000, 3_700_000, 90_000_000][..]).prop_map(|ms| Verb::Later { ms }),
    ];
    prop_oneof![2 => ownership, 5 => journal, 4 => submissions, 4 => tasks, 3 => registry, 1 => fields, 1 => rest]
}

fn batch() -> impl Strategy<Value = Batch> {
    let number = prop_oneof![8 => Just(1_u64), 1 => Just(0), 1 => Just(2)];
    let write = (
        0..PLANS.len(),
        prop_oneof![9 => Just(0_u64), 1 => Just(1)],
        0..4_u64,
        prop_oneof![3 => Just(None), 1 => select(&[25_000, 105_000][..]).prop_map(Some)],
        0..50_u64,
    )
        .prop_map(|(plan, skip, events, ends, index_ms)| Write { plan, skip, events, ends, index_ms });
    let once = vec(write, 0..3).prop_map(|mut writes| {
        writes.sort_by_key(|write| write.plan);
        writes.dedup_by_key(|write| write.plan);
        writes
    });
    let cursor = || prop_oneof![1 => Just(None), 1 => (0..4_usize).prop_map(Some)];
    let cursors = (cursor(), cursor()).prop_map(|(reports, requests)| [reports, requests]);
    let token = prop_oneof![9 => Just(0_u8), 1 => 1..3_u8];
    let tasks = vec(0..TYPES.len(), 0..5);
    (0..2_u16, token, number, cursors, once, tasks, vec(0..40_usize, 0..5), any::<bool>()).prop_map(
        |(shard, token, number, cursors, plans, tasks, acknowledged, full_check)| Batch {
            shard,
            token,
            number,
            cursors,
            plans,
            tasks,
            acknowledged,
            full_check,
        },
    )
}

/// One back end, and what a run has seen of it.
struct Run {
    stage: Stage,
    readers: Vec<Box<dyn Reader>>,
    listener: Box<dyn Reader>,
    heard: Vec<Broadcast>,
    numbers: [u64; 2],
    /// Entries of each inbox by stream, in order, and up to where the cursors are.
    inbox: [[Vec<EntryId>; 2]; 2],
    cursors: [[usize; 2]; 2],
    submitted: Vec<EntryId>,
    delivered: Vec<(AgentType, EntryId)>,
    tasks: usize,
}

impl Run {
    async fn new(stage: Stage) -> Self {
        for agent_type in TYPES {
            stage.broker.open_queue(&agent_type.into()).await.unwrap();
        }
        let mut listener = stage.broker.reader().await.unwrap();
        listener.messages(0).await.unwrap();
        let readers = vec![stage.broker.reader().await.unwrap(), stage.broker.reader().await.unwrap()];
        Self {
            stage,
            readers,
            listener,
            heard: Vec::new(),
            numbers: [0; 2],
            inbox: Default::default(),
            cursors: Default::default(),
            submitted: Vec::new(),
            delivered: Vec::new(),
            tasks: 0,
        }
    }

    /// Does one verb; answers as text, without ids and times.
    async fn run(&mut self, verb: &Verb) -> Result<String, TestCaseError> {
        self.answer(verb).await.map_err(|e| TestCaseError::fail(format!("{verb:?}: {e}")))
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each verb")]
    async fn answer(&mut self, verb: &Verb) -> Result<String, BrokerError> {
        let broker = self.stage.broker.clone();
        Ok(match verb {
            Verb::Acquire { shard, token, seen } => {
                let won = self.acquire(*shard, *token, seen).await?;
                format!("{won}")
            }
            Verb::Renew { shard, token } => {
                format!("{}", broker.renew(ShardId(*shard), &name("t", *token)).await?)
            }
            Verb::Release { shard, token } => {
                format!("{:?}", broker.release(ShardId(*shard), &name("t", *token)).await?)
            }
            Verb::Commit(batch) => self.commit(batch).await?,
            Verb::Look { shard } => self.look(*shard).await?,
            Verb::Plan { shard, plan, after, limit } => {
                let plan = plan_id(*shard, *plan);
                format!("{:?} {:?}", broker.log(&plan, *after, *limit).await?, broker.summary(&plan).await?)
            }
            Verb::SweepIndex { shard, before_ms } => {
                format!("{}", broker.sweep_index(ShardId(*shard), *before_ms).await?)
            }
            Verb::Submit { id } => {
                self.submitted.push(broker.submit(&submission(&name("r", *id))).await?);
                String::new()
            }
            Verb::TakeSubmissions { reader, count } => {
                let taken = self.readers[*reader].submissions(&format!("s{reader}"), *count, 0).await?;
                self.name_submissions(&taken)
            }
            Verb::ReclaimSubmissions { reader } => {
                let taken = broker.reclaim_submissions(&format!("s{reader}"), IDLE_MS, MANY).await?;
                self.name_submissions(&taken)
            }
            Verb::AcknowledgeSubmissions { places } => {
                broker.acknowledge_submissions(&chosen(&self.submitted, places)).await?;
                String::new()
            }
            Verb::Answer { id, answer } => {
                broker.answer(&[(name("r", *id), name("answer ", *answer))]).await?;
                String::new()
            }
            Verb::Answers => {
                format!("{:?}", broker.answers(&[0, 1, 2, 3].map(|id| name("r", id))).await?)
            }
            Verb::Send { shard, data, is_request } => {
                let fields = vec![("v".into(), b"1".to_vec()), ("data".into(), vec![*data])];
                match is_request {
                    true => broker.send_request(ShardId(*shard), &fields).await?,
                    false => broker.send(ShardId(*shard), &fields).await?,
                }
                String::new()
            }
            Verb::Inbox { reader, shard, count } => self.read_inbox(*reader, *shard, *count).await?,
            Verb::Pull { reader, types, count } => {
                let mut types: Vec<AgentType> = types.iter().map(|t| TYPES[*t].into()).collect();
                types.sort_unstable();
                types.dedup();
                let pulled = self.readers[*reader].pull(&worker(*reader), &types, *count, 0).await?;
                self.delivered.extend(pulled.iter().map(|task| (task.agent_type.clone(), task.entry.clone())));
                name_tasks(&pulled)
            }
            Verb::Extend { reader, places } => {
                let leases = chosen(&self.delivered, places);
                format!("{:?}", broker.extend(&worker(*reader), &leases).await?)
            }
            Verb::Reclaim { agent_type } => {
                let reclaimed = broker.reclaim(&TYPES[*agent_type].into(), IDLE_MS, MANY).await?;
                name_tasks(&reclaimed)
            }
            Verb::Trim { agent_type } => {
                format!("{:?}", broker.trim(&TYPES[*agent_type].into()).await?)
            }
            Verb::Queues => format!("{:?}", broker.queues().await?),
            Verb::PauseQueue { agent_type, paused } => {
                format!("{:?}", broker.pause_queue(&TYPES[*agent_type].into(), *paused).await?)
            }
            Verb::PausedQueues => format!("{:?}", broker.paused_queues().await?),
            Verb::RequestDrain { worker } => {
                format!("{:?}", broker.request_drain(&name("w", *worker).into()).await?)
            }
            Verb::DrainRequested { worker } => {
                format!("{}", broker.drain_requested(&name("w", *worker).into()).await?)
            }
            Verb::DiscardDeadLetter { agent_type, place } => {
                let agent_type = TYPES[*agent_type].into();
                match broker.dead_letters(&agent_type, MANY).await?.get(*place) {
                    Some((entry, _)) => format!("{}", broker.discard_dead_letter(&agent_type, entry).await?),
                    None => String::new(),
                }
            }
            Verb::Cancel { tokens } => {
                let tokens: Vec<_> = tokens.iter().map(|token| name("a", *token).into()).collect();
                format!("{:?}", broker.cancel(&tokens).await?)
            }
            Verb::Cancelled => {
                let mut tokens = broker.cancelled().await?;
                tokens.sort();
                format!("{tokens:?}")
            }
            Verb::Register { agent_type, latency_ms } => {
                let agent = Agent { latency_ms: Some(*latency_ms), ..Agent::named(TYPES[*agent_type].into()) };
                format!("{:?}", broker.register(&agent).await?)
            }
            Verb::Agents => format!("{:?}", broker.agents().await?),
            Verb::BeatWorker { worker, busy } => {
                broker.record_worker_heartbeat(&beat(*worker, *busy)).await?;
                String::new()
            }
            Verb::ForgetWorker { worker } => {
                format!("{:?}", broker.deregister_worker(&name("w", *worker).into()).await?)
            }
            Verb::Workers => {
                let beats = broker.workers(WITHIN_MS).await?.into_iter();
                format!("{:?}", beats.map(|beat| WorkerBeat { seen_ms: 0, ..beat }).collect::<Vec<_>>())
            }
            Verb::BeatScheduler { id } => {
                format!("{:?}", broker.record_scheduler_heartbeat(&name("s", *id), 1, WITHIN_MS).await?.sharing)
            }
            Verb::ForgetScheduler { id } => {
                format!("{:?}", broker.deregister_scheduler(&name("s", *id)).await?)
            }
            Verb::DeadLetter { agent_type, step } => {
                format!("{:?}", broker.add_dead_letter(&letter(TYPES[*agent_type], &name("step", *step))).await?)
            }
            Verb::DeadLetters { agent_type, limit } => {
                let letters = broker.dead_letters(&TYPES[*agent_type].into(), *limit).await?.into_iter();
                format!("{:?}", letters.map(|(_, letter)| letter).collect::<Vec<DeadLetter>>())
            }
            Verb::PutBlob { key, bytes, ttl_ms } => {
                format!("{:?}", broker.put_blob(&blob(*key), bytes, *ttl_ms).await?)
            }
            Verb::GetBlob { key } => format!("{:?}", broker.get_blob(&blob(*key)).await?),
            Verb::RemoveBlob { key } => format!("{:?}", broker.remove_blob(&blob(*key)).await?),
            Verb::Field(verb) => ask_field(broker.as_ref(), verb).await?,
            Verb::Reopen { reader } => {
                self.readers[*reader] = broker.reader().await?;
                String::new()
            }
            Verb::Later { ms } => {
                self.stage.later(*ms).await;
                String::new()
            }
        })
    }

    async fn acquire(&mut self, shard: u16, token: u8, seen: &Seen) -> Result<bool, BrokerError> {
        let owner = self.stage.broker.owner(ShardId(shard)).await?;
        let is_owner = owner.as_ref().is_some_and(|owner| owner.token == name("t", token));
        let seen = match seen {
            Seen::Nobody => None,
            Seen::TheOwner => owner,
            Seen::AnOlderBeat => owner.map(|owner| Ownership { beat: owner.beat + 1, ..owner }),
        };
        let claim = Claim { holder: "h".into(), token: name("t", token), seen };
        let won = self.stage.broker.acquire(ShardId(shard), &claim).await?;
        if won && !is_owner {
            self.numbers[usize::from(shard)] = 0;
        }
        Ok(won)
    }

    async fn commit(&mut self, batch: &Batch) -> Result<String, BrokerError> {
        let shard = usize::from(batch.shard);
        let last = self.numbers[shard];
        // Numbers count from 1: there is no commit 0 to repeat.
        let number = (last + batch.number).max(1);
        let moves = [0, 1].map(|stream| {
            let most = self.inbox[shard][stream].len();
            batch.cursors[stream].map(|more| (self.cursors[shard][stream] + more).min(most))
        });
        let [cursor, requests_cursor] = [0, 1].map(|stream| {
            let place = moves[stream].filter(|place| *place > 0)?;
            Some(self.inbox[shard][stream][place - 1].clone())
        });
        let mut plans = Vec::new();
        for write in &batch.plans {
            plans.push(self.plan_write(batch.shard, write).await?);
        }
        let tasks = batch.tasks.iter().enumerate();
        let commit = Commit {
            shard: ShardId(batch.shard),
            token: name("t", batch.token),
            number,
            cursor,
            requests_cursor,
            plans,
            tasks: tasks.map(|(n, t)| task(TYPES[*t], &format!("task {}", self.tasks + n))).collect(),
            acknowledged: chosen(&self.delivered, &batch.acknowledged),
            full_check: batch.full_check,
        };
        let answer = self.stage.broker.commit(&commit).await?;
        Ok(match answer {
            Committed::Applied => {
                self.numbers[shard] = number;
                let before = self.cursors[shard];
                self.cursors[shard] = [0, 1].map(|stream| moves[stream].unwrap_or(before[stream]));
                self.tasks += batch.tasks.len();
                "applied".into()
            }
            Committed::Gap(_) => "gap".into(),
            Committed::Duplicate | Committed::Fenced => format!("{answer:?}"),
        })
    }

    async fn plan_write(&self, shard: u16, write: &Write) -> Result<PlanWrite, BrokerError> {
        let plan = plan_id(shard, write.plan);
        let summary = self.stage.broker.summary(&plan).await?;
        let right: u64 = summary.get("seq").map_or(0, |seq| seq.parse().unwrap());
        let base_seq = right + write.skip;
        let activity = match (write.ends, base_seq) {
            (Some(retention_ms), _) => Activity::Ends { retention_ms },
            (None, 0) => Activity::Begins,
            (None, _) => Activity::Continues,
        };
        // Without events only what has begun can be written.
        let events = if base_seq == 0 { write.events.max(1) } else { write.events };
        let made = crate::make::plan(plan.as_str(), base_seq, base_seq + events, activity);
        Ok(PlanWrite { index_ms: write.index_ms, ..made })
    }

    async fn look(&mut self, shard: u16) -> Result<String, BrokerError> {
        let (broker, shard) = (&self.stage.broker, ShardId(shard));
        let cursor = broker.cursor(shard).await?;
        let [reports, requests] = &self.inbox[usize::from(shard.0)];
        let place = [(reports, cursor.reports), (requests, cursor.requests)].map(|(read, cursor)| {
            let place = read.iter().position(|id| *id == cursor);
            assert!(place.is_some() || cursor == EntryId::start(), "{cursor} was never read");
            place
        });
        let (owner, active) = (broker.owner(shard).await?, broker.active(shard).await?);
        let (all, some) = (broker.plans(shard, 1 << 40, MANY).await?, broker.plans(shard, 25, 1).await?);
        Ok(format!("{owner:?} {place:?} {active:?} {all:?} {some:?}"))
    }

    async fn read_inbox(&mut self, reader: usize, shard: u16, count: usize) -> Result<String, BrokerError> {
        let place = usize::from(shard);
        // What lies before the cursor may or may not be there.
        let [reports, requests] =
            [0, 1].map(|stream| self.inbox[place][stream].last().cloned().unwrap_or_else(EntryId::start));
        let after = InboxCursor { reports, requests };
        let mut entries = self.readers[reader].inbox(ShardId(shard), &after, count, 0).await?;
        // Which stream was written first within a millisecond is not known.
        entries.sort_by_key(|entry| entry.stream);
        for entry in &entries {
            self.inbox[place][usize::from(entry.stream == InboxStream::Requests)].push(entry.id.clone());
        }
        Ok(format!("{:?}", entries.into_iter().map(|entry| (entry.stream, entry.fields)).collect::<Vec<_>>()))
    }

    fn name_submissions(&self, entries: &[Entry]) -> String {
        let place = |id: &EntryId| self.submitted.iter().position(|known| known == id);
        let named: Vec<_> = entries.iter().map(|entry| (place(&entry.id), &entry.fields)).collect();
        format!("{named:?}")
    }

    /// Everything said to all, once at least `count` messages have come.
    async fn said(&mut self, count: usize) -> Vec<Broadcast> {
        let (heard, listener) = (&mut self.heard, &mut self.listener);
        until(SOON, async || {
            heard.extend(listener.messages(0).await.unwrap());
            heard.len() >= count
        })
        .await;
        std::mem::take(heard)
    }
}

fn chosen<T: Clone>(from: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|place| from.get(*place)).cloned().collect()
}

fn name_tasks(tasks: &[Delivery]) -> String {
    let named: Vec<_> = tasks.iter().map(|task| (&task.agent_type, String::from_utf8_lossy(&task.data))).collect();
    format!("{named:?}")
}

fn name(prefix: &str, number: u8) -> String {
    format!("{prefix}{number}")
}

fn plan_id(shard: u16, plan: usize) -> PlanId {
    format!("p{shard}-{}", PLANS[plan]).into()
}

fn worker(reader: usize) -> WorkerId {
    format!("w{reader}").into()
}

async fn ask_field(broker: &dyn Broker, verb: &FieldVerb) -> Result<String, BrokerError> {
    let key = Keys::default().tokens();
    Ok(match verb {
        FieldVerb::Put { field, value } => {
            format!("{:?}", broker.put_field(&key, &name("f", *field), &name("v", *value)).await?)
        }
        FieldVerb::Add { field, value } => {
            format!("{}", broker.add_field(&key, &name("f", *field), &name("v", *value)).await?)
        }
        FieldVerb::Get { field } => format!("{:?}", broker.get_field(&key, &name("f", *field)).await?),
        FieldVerb::All => format!("{:?}", broker.fields(&key).await?),
        FieldVerb::Remove { field } => format!("{}", broker.remove_field(&key, &name("f", *field)).await?),
    })
}

fn blob(key: u8) -> String {
    Keys::default().blob(ShardId(0), &name("k", key))
}

fn beat(worker: u8, busy: u32) -> WorkerBeat {
    WorkerBeat {
        worker: name("w", worker).into(),
        agents: vec!["build".into()],
        slots: 4,
        busy,
        draining: false,
        version: "0.1.0".into(),
        host: "h".into(),
        started_ms: 5,
        seen_ms: 0,
        heartbeat_ms: None,
    }
}
