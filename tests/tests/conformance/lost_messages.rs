//! Every verb with its connection cut at every message: it fails or succeeds, nothing in between, and may be repeated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::{Activity, Broker, BrokerError, Commit, Committed, InboxCursor, Install};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::config::RedisSettings;
use goalmill_common::id::{AgentType, EntryId};
use goalmill_common::keys::Keys;
use goalmill_common::limits::TaskLimits;
use goalmill_common::shard_load::{Load, Loads};
use goalmill_tests::proxy::{Proxy, Way};
use goalmill_tests::redis_server::{Fsync, Options, RedisServer};
use goalmill_tests::wait::{SOON, until, until_some};

use crate::make::{S0, S1, claim, commit, dispatch, fields, lease, letter, own, plan, submission, task};
use crate::stage::Stage;

/// What repeating a verb does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeated {
    /// Nothing: the state is as after one.
    Nothing,
    /// Completes it: it writes several keys, each of them once.
    Completes,
    /// Moves a counter or a time.
    Ticks,
    /// Does it again: receivers refuse duplicates.
    Again,
}

/// Every verb of the broker that is not a wait.
const VERBS: [(&str, Repeated); 55] = [
    ("open", Repeated::Nothing),
    ("meta", Repeated::Nothing),
    ("check", Repeated::Nothing),
    ("owner", Repeated::Nothing),
    ("acquire", Repeated::Nothing),
    ("renew", Repeated::Ticks),
    ("release", Repeated::Nothing),
    ("commit", Repeated::Nothing),
    ("cursor", Repeated::Nothing),
    ("active", Repeated::Nothing),
    ("log", Repeated::Nothing),
    ("summary", Repeated::Nothing),
    ("plans", Repeated::Nothing),
    ("plans_since", Repeated::Nothing),
    ("expire_plans", Repeated::Completes),
    ("sweep_index", Repeated::Nothing),
    ("submit", Repeated::Again),
    ("acknowledge_submissions", Repeated::Nothing),
    ("answer", Repeated::Completes),
    ("answers", Repeated::Nothing),
    ("send", Repeated::Again),
    ("send_request", Repeated::Again),
    ("open_queue", Repeated::Completes),
    ("extend", Repeated::Nothing),
    ("trim", Repeated::Nothing),
    ("queues", Repeated::Nothing),
    ("pause_queue", Repeated::Nothing),
    ("paused_queues", Repeated::Nothing),
    ("share_loads", Repeated::Nothing),
    ("loads", Repeated::Nothing),
    ("cancel", Repeated::Ticks),
    ("register", Repeated::Completes),
    ("record_worker_heartbeat", Repeated::Ticks),
    ("deregister_worker", Repeated::Completes),
    ("request_drain", Repeated::Nothing),
    ("drain_requested", Repeated::Nothing),
    ("record_scheduler_heartbeat", Repeated::Ticks),
    ("add_dead_letter", Repeated::Again),
    ("put_blob", Repeated::Nothing),
    ("get_blob", Repeated::Nothing),
    ("remove_blob", Repeated::Nothing),
    ("put_field", Repeated::Nothing),
    ("add_field", Repeated::Nothing),
    ("get_field", Repeated::Nothing),
    ("fields", Repeated::Nothing),
    ("fields_page", Repeated::Nothing),
    ("remove_field", Repeated::Nothing),
    ("dead_letters", Repeated::Nothing),
    ("discard_dead_letter", Repeated::Nothing),
    ("deregister_scheduler", Repeated::Nothing),
    ("workers", Repeated::Nothing),
    ("agents", Repeated::Nothing),
    ("cancelled", Repeated::Nothing),
    ("reclaim", Repeated::Nothing),
    ("reclaim_submissions", Repeated::Nothing),
];

/// Entries that verbs name.
struct Known {
    submission: EntryId,
    tasks: Vec<(AgentType, EntryId)>,
    letter: EntryId,
}

async fn act(verb: &str, broker: &dyn Broker, known: &Known) -> Result<(), BrokerError> {
    let build = AgentType::from("build");
    match verb {
        "open" => {
            broker.open(&Install { instance: "other".into(), shards: 7, limits: TaskLimits::default() }).await.map(drop)
        }
        "meta" => broker.meta().await.map(drop),
        "check" => broker.check_health().await.map(drop),
        "owner" => broker.owner(S0).await.map(drop),
        "acquire" => {
            let won = broker.acquire(S1, &claim("h", "t2", None)).await?;
            assert!(won, "a claim that may have won is answered with a yes");
            Ok(())
        }
        "renew" => broker.renew(S0, "t1").await.map(|held| assert!(held)),
        "release" => broker.release(S0, "t1").await,
        "commit" => {
            let answer = broker.commit(&second_commit(known)).await?;
            assert!(matches!(answer, Committed::Applied | Committed::Duplicate), "{answer:?}");
            Ok(())
        }
        "cursor" => broker.cursor(S0).await.map(drop),
        "active" => broker.active(S0).await.map(drop),
        "log" => broker.log(&"p0-a".into(), 0, 9).await.map(drop),
        "summary" => broker.summary(&"p0-a".into()).await.map(drop),
        "plans" => broker.plans(S0, 1 << 40, 9).await.map(drop),
        "plans_since" => broker.plans_since(S0, 0, 9).await.map(drop),
        "expire_plans" => broker.expire_plans(&[("p0-a".into(), 60_000)]).await,
        "sweep_index" => broker.sweep_index(S0, 1 << 40).await.map(drop),
        "submit" => broker.submit(&submission("r2")).await.map(drop),
        "acknowledge_submissions" => broker.acknowledge_submissions(std::slice::from_ref(&known.submission)).await,
        "answer" => broker.answer(&[("r1".into(), "a".into()), ("r2".into(), "b".into())]).await,
        "answers" => broker.answers(&["r1".into(), "r2".into()]).await.map(drop),
        "send" => broker.send(S0, &fields(&[("v", "1")])).await,
        "send_request" => broker.send_request(S0, &fields(&[("v", "1")])).await,
        "open_queue" => broker.open_queue(&"ship".into()).await,
        "extend" => broker.extend(&"w1".into(), &known.tasks).await.map(|held| assert!(held[1])),
        "trim" => broker.trim(&build).await,
        "queues" => broker.queues().await.map(drop),
        "pause_queue" => broker.pause_queue(&build, true).await,
        "paused_queues" => broker.paused_queues().await.map(drop),
        "share_loads" => broker.share_loads(&[(S0, Loads::from([("build".into(), Load::default())]))]).await,
        "loads" => broker.loads().await.map(drop),
        "request_drain" => broker.request_drain(&"w1".into()).await,
        "drain_requested" => broker.drain_requested(&"w1".into()).await.map(drop),
        "discard_dead_letter" => broker.discard_dead_letter(&build, &known.letter).await.map(drop),
        "cancel" => broker.cancel(&["a1".into(), "a2".into()]).await,
        "register" => broker.register(&Agent::named("build".into())).await,
        "record_worker_heartbeat" => broker.record_worker_heartbeat(&beat("w1")).await.map(drop),
        "deregister_worker" => broker.deregister_worker(&"w9".into()).await,
        "record_scheduler_heartbeat" => broker.record_scheduler_heartbeat("s1", 1, 60_000).await.map(drop),
        "add_dead_letter" => broker.add_dead_letter(&letter("build", "x")).await,
        "put_blob" => broker.put_blob(&Keys::default().blob(S0, "k1"), b"bytes", 600_000).await,
        "get_blob" => broker.get_blob(&Keys::default().blob(S0, "k1")).await.map(drop),
        "remove_blob" => broker.remove_blob(&Keys::default().blob(S0, "k1")).await,
        "put_field" => broker.put_field(&Keys::default().tokens(), "a", "1").await,
        "add_field" => broker.add_field(&Keys::default().tokens(), "b", "1").await.map(drop),
        "get_field" => broker.get_field(&Keys::default().tokens(), "a").await.map(drop),
        "fields_page" => broker.fields_page(&Keys::default().tokens(), "", 10).await.map(drop),
        "fields" => broker.fields(&Keys::default().tokens()).await.map(drop),
        "remove_field" => broker.remove_field(&Keys::default().tokens(), "a").await.map(drop),
        "dead_letters" => broker.dead_letters(&build, 9).await.map(drop),
        "deregister_scheduler" => broker.deregister_scheduler("s1").await,
        "workers" => broker.workers(60_000).await.map(drop),
        "agents" => broker.agents().await.map(drop),
        "cancelled" => broker.cancelled().await.map(drop),
        "reclaim" => broker.reclaim(&build, 0, 9).await.map(drop),
        "reclaim_submissions" => broker.reclaim_submissions("s2", 0, 9).await.map(drop),
        other => panic!("`{other}` is not known here"),
    }
}

#[tokio::test]
async fn a_verb_whose_request_is_lost_at_any_message_did_not_happen_or_is_completed_by_repeating() {
    cut_everywhere(Way::Request).await;
}

#[tokio::test]
async fn a_verb_whose_reply_is_lost_at_any_message_may_be_repeated() {
    cut_everywhere(Way::Reply).await;
}

async fn cut_everywhere(way: Way) {
    let fast = Options { fsync: Fsync::Off, ..Options::default() };
    let server = Arc::new(RedisServer::start_with(fast).await.unwrap());
    for (verb, repeated) in VERBS {
        let mut cuts = 0;
        while cut_at(&server, verb, repeated, way, cuts).await {
            cuts += 1;
        }
        assert!(cuts > 0, "`{verb}` sent nothing");
    }
}

/// Loses message `place` of a verb; `false` when the verb needs no so many.
async fn cut_at(server: &Arc<RedisServer>, verb: &str, repeated: Repeated, way: Way, place: u32) -> bool {
    let proxy = Proxy::start(server.port()).await.unwrap();
    let mut stage = Stage::redis_through(server, &RedisSettings { url: proxy.url(), ..server.settings() }).await;
    let known = prepare(server).await;
    let before = stage.raw_keys().await;
    proxy.lose_nth(way, place);
    let first = act(verb, &*stage.broker, &known).await;
    let was_cut = !proxy.is_armed();
    proxy.heal();
    let what = format!("`{verb}` without {way:?} {place}");
    assert!(matches!(first, Ok(()) | Err(BrokerError::Unavailable(_))), "{what}: {first:?}");
    let after_first = settled(&mut stage).await;

    until_some(SOON, async || act(verb, &*stage.broker, &known).await.ok())
        .await
        .unwrap_or_else(|| panic!("{what}: it never works again"));
    let after_second = stage.raw_keys().await;
    let after_third = async |stage: &mut Stage| {
        act(verb, &*stage.broker, &known).await.unwrap();
        stage.raw_keys().await
    };
    match repeated {
        Repeated::Nothing => {
            if first.is_ok() || after_first != before {
                assert_eq!(after_second, after_first, "{what}: once is as good as twice");
            }
            assert_eq!(after_third(&mut stage).await, after_second, "{what}: twice is as good as three times");
        }
        Repeated::Completes => {
            if first.is_ok() {
                assert_eq!(after_second, after_first, "{what}: once is as good as twice");
            }
            assert_eq!(after_third(&mut stage).await, after_second, "{what}: twice is as good as three times");
        }
        Repeated::Ticks => {
            let third = after_third(&mut stage).await;
            assert!(third.keys().eq(after_second.keys()), "{what}: {third:#?}");
        }
        Repeated::Again => assert_ne!(after_second, after_first, "{what}"),
    }
    was_cut
}

/// The keys when nothing is on its way any more: what was sent before the cut may be done after it.
async fn settled(stage: &mut Stage) -> BTreeMap<String, String> {
    let mut last = stage.raw_keys().await;
    until(SOON, async || {
        let next = stage.raw_keys().await;
        let same = next == last;
        last = next;
        same
    })
    .await;
    last
}

async fn prepare(server: &RedisServer) -> Known {
    let broker = goalmill_broker::redis::connect(&server.settings()).await.unwrap();
    own(&*broker, S0, "t1").await;
    broker.open_queue(&"build".into()).await.unwrap();
    broker.submit(&submission("r1")).await.unwrap();
    broker.record_worker_heartbeat(&beat("w9")).await.unwrap();
    let first = Commit {
        plans: vec![plan("p0-a", 0, 1, Activity::Begins)],
        tasks: vec![task("build", "one"), task("build", "two")],
        ..commit("t1", 1)
    };
    assert_eq!(broker.commit(&first).await.unwrap(), Committed::Applied);
    let mut reader = broker.reader().await.unwrap();
    let taken = reader.submissions("s1", 9, 0).await.unwrap();
    let tasks = reader.pull(&"w1".into(), &["build".into()], 9, 0).await.unwrap();
    let tasks = tasks.iter().map(|task| lease("build", &task.entry)).collect();
    broker.add_dead_letter(&letter("build", "lost")).await.unwrap();
    let letter = broker.dead_letters(&"build".into(), 1).await.unwrap().remove(0).0;
    Known { submission: taken[0].id.clone(), tasks, letter }
}

fn second_commit(known: &Known) -> Commit {
    Commit {
        plans: vec![plan("p0-a", 1, 2, Activity::Continues), plan("p0-b", 0, 1, Activity::Begins)],
        tasks: vec![task("build", "three")],
        acknowledged: known.tasks[..1].to_vec(),
        cursor: Some("5-0".into()),
        requests_cursor: Some("6-0".into()),
        ..commit("t1", 2)
    }
}

#[tokio::test]
async fn a_commit_whose_reply_was_lost_is_a_duplicate_when_sent_again() {
    let server = Arc::new(RedisServer::start().await.unwrap());
    let proxy = Proxy::start(server.port()).await.unwrap();
    let mut stage = Stage::redis_through(&server, &RedisSettings { url: proxy.url(), ..server.settings() }).await;
    let known = prepare(&server).await;
    let before = stage.raw_keys().await;
    proxy.lose_reply_to("goalmill_commit");
    let lost = stage.broker.commit(&second_commit(&known)).await;
    assert!(matches!(lost, Err(BrokerError::Unavailable(_))), "{lost:?}");
    let after = settled(&mut stage).await;
    assert_ne!(after, before, "the server did it");
    assert_eq!(stage.broker.commit(&second_commit(&known)).await.unwrap(), Committed::Duplicate);
    assert_eq!(stage.raw_keys().await, after);
}

#[tokio::test]
async fn tasks_whose_delivery_was_lost_come_back_by_their_lease() {
    let server = Arc::new(RedisServer::start().await.unwrap());
    let proxy = Proxy::start(server.port()).await.unwrap();
    let mut stage = Stage::redis_through(&server, &RedisSettings { url: proxy.url(), ..server.settings() }).await;
    own(&*stage.broker, S0, "t1").await;
    let types = ["build", "test"].map(AgentType::from);
    for agent_type in &types {
        stage.broker.open_queue(agent_type).await.unwrap();
    }
    let mut reader = stage.broker.reader().await.unwrap();
    assert!(reader.pull(&"w1".into(), &types, 9, 0).await.unwrap().is_empty());
    let tasks = vec![task("build", "one"), task("test", "two"), task("build", "three")];
    dispatch(&*stage.broker, "t1", 1, tasks).await;
    proxy.lose_nth(Way::Reply, 0);
    let lost = reader.pull(&"w1".into(), &types, 9, 0).await;
    assert!(matches!(lost, Err(BrokerError::Unavailable(_))), "{lost:?}");
    stage.later(61_000).await;
    let mut again = reader.pull(&"w1".into(), &types, 9, 0).await.unwrap();
    for agent_type in &types {
        again.extend(stage.broker.reclaim(agent_type, 60_000, 9).await.unwrap());
    }
    let mut data: Vec<_> = again.into_iter().map(|task| task.data).collect();
    data.sort();
    assert_eq!(data, [b"one".to_vec(), b"three".to_vec(), b"two".to_vec()]);
}

#[tokio::test]
async fn submissions_whose_delivery_was_lost_are_read_again_at_once() {
    let server = Arc::new(RedisServer::start().await.unwrap());
    let proxy = Proxy::start(server.port()).await.unwrap();
    let stage = Stage::redis_through(&server, &RedisSettings { url: proxy.url(), ..server.settings() }).await;
    let mut reader = stage.broker.reader().await.unwrap();
    assert!(reader.submissions("s1", 9, 0).await.unwrap().is_empty());
    let id = stage.broker.submit(&submission("r1")).await.unwrap();
    proxy.lose_nth(Way::Reply, 0);
    let lost = reader.submissions("s1", 9, 0).await;
    assert!(matches!(lost, Err(BrokerError::Unavailable(_))), "{lost:?}");
    let again = reader.submissions("s1", 9, 0).await.unwrap();
    assert_eq!((again.len(), &again[0].id), (1, &id));
}

#[tokio::test]
async fn waits_that_are_cut_fail_and_the_next_one_works() {
    let server = Arc::new(RedisServer::start().await.unwrap());
    let proxy = Proxy::start(server.port()).await.unwrap();
    let stage = Stage::redis_through(&server, &RedisSettings { url: proxy.url(), ..server.settings() }).await;
    let mut reader = stage.broker.reader().await.unwrap();
    assert!(reader.inbox(S0, &InboxCursor::start(), 9, 0).await.unwrap().is_empty());
    let connections = proxy.connections();
    let wait = tokio::spawn(async move {
        let cut = reader.inbox(S0, &InboxCursor::start(), 9, 600_000).await;
        (cut, reader)
    });
    proxy.cut();
    let (cut, mut reader) = tokio::time::timeout(SOON, wait).await.expect("it notices").unwrap();
    assert!(matches!(cut, Err(BrokerError::Unavailable(_))), "{cut:?}");
    assert!(stage.broker.check_health().await.is_err());
    proxy.heal();
    until(SOON, async || stage.broker.send(S0, &fields(&[("v", "1")])).await.is_ok()).await;
    let read = reader.inbox(S0, &InboxCursor::start(), 9, 600_000).await.unwrap();
    assert_eq!(read.len(), 1);
    assert!(proxy.connections() > connections);
}

#[tokio::test]
async fn a_silent_network_is_an_error_in_time_and_heals() {
    let server = Arc::new(RedisServer::start().await.unwrap());
    let proxy = Proxy::start(server.port()).await.unwrap();
    let stage = Stage::redis_again(&server).await;
    own(&*stage.broker, S0, "t1").await;
    let broker = impatient(&RedisSettings { url: proxy.url(), ..server.settings() }).await;
    proxy.black_hole();
    let known = Known { submission: "1-1".into(), tasks: Vec::new(), letter: "1-1".into() };
    for verb in ["renew", "send", "check", "queues"] {
        let answer = tokio::time::timeout(SOON, act(verb, &*broker, &known)).await.expect("it gives up");
        assert!(matches!(answer, Err(BrokerError::Unavailable(_))), "`{verb}`: {answer:?}");
    }
    proxy.heal();
    for verb in ["renew", "send", "check", "queues"] {
        until(SOON, async || act(verb, &*broker, &known).await.is_ok()).await;
    }
}

#[tokio::test]
async fn a_held_server_is_an_error_in_time_and_goes_on() {
    let server = Arc::new(RedisServer::start().await.unwrap());
    let stage = Stage::redis_again(&server).await;
    own(&*stage.broker, S0, "t1").await;
    let broker = impatient(&server.settings()).await;
    server.stop_process().unwrap();
    let held = tokio::time::timeout(SOON, broker.renew(S0, "t1")).await.expect("it gives up");
    assert!(matches!(held, Err(BrokerError::Unavailable(_))), "{held:?}");
    server.cont().unwrap();
    until(SOON, async || broker.renew(S0, "t1").await.is_ok()).await;
}

/// A back end that waits for no answer long, and has had one; a busy machine may let the first ones be late.
async fn impatient(settings: &RedisSettings) -> Arc<dyn Broker> {
    let settings = RedisSettings { connect_ms: 1_000, response_ms: 300, ..settings.clone() };
    let broker = goalmill_broker::redis::connect(&settings).await.unwrap();
    until(SOON, async || broker.renew(S0, "t1").await.is_ok()).await;
    broker
}

#[tokio::test]
async fn a_slow_network_changes_no_answer() {
    let server = Arc::new(RedisServer::start().await.unwrap());
    let proxy = Proxy::start(server.port()).await.unwrap();
    let stage = Stage::redis_through(&server, &RedisSettings { url: proxy.url(), ..server.settings() }).await;
    let known = prepare(&server).await;
    proxy.delay(Duration::from_millis(5));
    for (verb, _) in VERBS {
        if verb == "release" {
            continue;
        }
        act(verb, &*stage.broker, &known).await.unwrap_or_else(|e| panic!("`{verb}`: {e}"));
    }
}

fn beat(worker: &str) -> WorkerBeat {
    WorkerBeat {
        worker: worker.into(),
        agents: vec!["build".into()],
        slots: 4,
        busy: 0,
        draining: false,
        version: "0.1.0".into(),
        host: "h".into(),
        started_ms: 5,
        seen_ms: 0,
        heartbeat_ms: None,
    }
}
