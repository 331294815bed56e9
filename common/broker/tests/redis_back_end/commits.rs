//! Commits: whole or not at all, once, by the owner, whatever the keys hold.

use goalmill_broker::{
    Activity, BrokerError, Claim, Commit, Committed, InboxCursor, KeyTypeMismatch, PlanWrite, StreamResult,
};
use goalmill_common::id::{AgentType, WorkerId};
use goalmill_common::keys::Keys;
use redis::{AsyncCommands, Value, cmd};

use crate::seed::{SHARD, commit, dump, id, own, plan, task};
use crate::server::Server;

#[tokio::test]
async fn a_commit_is_written_whole_and_its_repetition_is_known() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    let queue = AgentType::from("fetch");
    broker.open_queue(&queue).await.unwrap();

    let mut commit = commit("t1", 1, &[plan(1, 0, 3, Activity::Begins)]);
    commit.tasks = vec![task("fetch", b"\x00\xff one"), task("fetch", b"two")];
    commit.cursor = Some("5-1".into());
    commit.requests_cursor = Some("4-0".into());
    assert_eq!(broker.commit(&commit).await.unwrap(), Committed::Applied);
    assert_eq!(broker.commit(&commit).await.unwrap(), Committed::Duplicate);

    let cursor = InboxCursor { reports: "5-1".into(), requests: "4-0".into() };
    assert_eq!(broker.cursor(SHARD).await.unwrap(), cursor);
    assert_eq!(broker.active(SHARD).await.unwrap(), [id(1)]);
    assert_eq!(broker.plans(SHARD, 1_000, 10).await.unwrap(), [(id(1), 103)]);
    let summary = broker.summary(&id(1)).await.unwrap();
    assert_eq!(
        summary.into_iter().collect::<Vec<_>>(),
        [("seq".into(), "3".into()), ("status".into(), "running".into())]
    );
    let log = broker.log(&id(1), 2, 10).await.unwrap();
    assert_eq!((log.len(), log[0].last_seq, log[0].events.as_str()), (1, 3, "[3]"));
    assert!(broker.log(&id(1), 3, 10).await.unwrap().is_empty());

    let worker = WorkerId::from("w");
    let taken = broker.reader().await.unwrap().pull(&worker, std::slice::from_ref(&queue), 10, 1_000).await.unwrap();
    assert_eq!(taken.iter().map(|d| d.data.as_slice()).collect::<Vec<_>>(), [b"\x00\xff one".as_slice(), b"two"]);

    let mut end = self::commit("t1", 2, &[plan(1, 3, 4, Activity::Ends { retention_ms: 60_000 })]);
    end.acknowledged = taken.iter().map(|d| (queue.clone(), d.entry.clone())).collect();
    end.acknowledged.push((queue.clone(), "made up".into()));
    assert_eq!(broker.commit(&end).await.unwrap(), Committed::Applied);
    assert!(broker.active(SHARD).await.unwrap().is_empty());
    let queues = broker.queues().await.unwrap();
    assert_eq!((queues[0].waiting, queues[0].pending), (0, 0));
    let ttl: i64 = server.raw().await.pttl(Keys::default().events(&id(1))).await.unwrap();
    assert!((1..=60_000).contains(&ttl), "{ttl}");
    assert_eq!(broker.owner(SHARD).await.unwrap().unwrap().beat, 2);
}

#[tokio::test]
async fn a_commit_that_does_not_follow_changes_nothing() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    broker.commit(&commit("t1", 1, &[plan(1, 0, 3, Activity::Begins)])).await.unwrap();
    let before = dump(&server).await;

    let gaps = [
        commit("t1", 3, &[]),
        commit("t1", 2, &[plan(2, 0, 1, Activity::Begins), plan(1, 2, 4, Activity::Continues)]),
        commit("t1", 2, &[plan(1, 3, 3, Activity::Continues)]),
        commit("t1", 2, &[plan(2, 0, 1, Activity::Begins), plan(2, 1, 2, Activity::Continues)]),
    ];
    for gap in gaps {
        assert!(matches!(broker.commit(&gap).await.unwrap(), Committed::Gap(_)), "{gap:?}");
    }
    assert_eq!(broker.commit(&commit("other", 2, &[])).await.unwrap(), Committed::Fenced);
    assert_eq!(dump(&server).await, before);
}

#[tokio::test]
async fn plans_of_every_kind_go_into_one_commit_each_with_its_own() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    let begun = [plan(1, 0, 3, Activity::Begins), plan(2, 0, 1, Activity::Begins), plan(3, 0, 2, Activity::Begins)];
    broker.commit(&commit("t1", 1, &begun)).await.unwrap();

    let mut mixed = [
        plan(1, 3, 4, Activity::Continues),
        plan(4, 0, 5, Activity::Begins),
        plan(2, 1, 9, Activity::Ends { retention_ms: 60_000 }),
        plan(3, 2, 3, Activity::Continues),
    ];
    (mixed[0].follows, mixed[0].index_ms, mixed[0].summary) = (true, 0, Vec::new());
    mixed[2].time = "2026-11-21T20:38:11.000Z".into();
    mixed[2].summary = vec![("status", "completed".into()), ("counts", "{}".into())];
    mixed[3].time = mixed[2].time.clone();
    assert_eq!(broker.commit(&commit("t1", 2, &mixed)).await.unwrap(), Committed::Applied);

    let mut active = broker.active(SHARD).await.unwrap();
    active.sort();
    let mut expected = [id(1), id(3), id(4)];
    expected.sort();
    assert_eq!(active, expected);
    let mut plans = broker.plans(SHARD, 1_000, 10).await.unwrap();
    plans.sort_by_key(|(id, ms)| (*ms, id.clone()));
    let mut changed = [(id(1), 103), (id(3), 103), (id(4), 105), (id(2), 109)];
    changed.sort_by_key(|(id, ms)| (*ms, id.clone()));
    assert_eq!(plans, changed);
    let stored: u64 = server.raw().await.hget(Keys::default().plan(&id(1)), "seq").await.unwrap();
    assert_eq!(stored, 3, "no other field is written with it");
    for (write, time) in mixed.iter().zip(["10.279", "10.279", "11.000", "11.000"]) {
        let log = broker.log(&write.plan, write.base_seq, 10).await.unwrap();
        assert_eq!((log.len(), log[0].last_seq), (1, write.last_seq));
        assert!(log[0].time.contains(time), "{}: {}", write.plan, log[0].time);
        let mut summary = broker.summary(&write.plan).await.unwrap();
        assert_eq!(summary.remove("seq"), Some(write.last_seq.to_string()));
        for (field, value) in &write.summary {
            assert_eq!(summary.get(*field), Some(value));
        }
    }
}

#[tokio::test]
async fn a_plan_that_the_owner_wrote_last_is_looked_at_by_full_check_commits() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    broker.commit(&commit("t1", 1, &[plan(1, 0, 3, Activity::Begins)])).await.unwrap();
    let _: () = server.raw().await.del(Keys::default().events(&id(1))).await.unwrap();
    let mut next = plan(1, 3, 4, Activity::Continues);
    next.follows = true;
    let mut full_check = commit("t1", 2, std::slice::from_ref(&next));
    full_check.full_check = true;
    assert!(matches!(broker.commit(&full_check).await.unwrap(), Committed::Gap(_)));
    assert_eq!(broker.commit(&commit("t1", 2, &[next])).await.unwrap(), Committed::Applied);
}

#[tokio::test]
async fn an_owner_that_was_replaced_cannot_commit() {
    let server = Server::start(&[]).await;
    let (old, new) = (server.open().await, server.open().await);
    own(&*old, "t1").await;
    let seen = new.owner(SHARD).await.unwrap();
    assert!(old.renew(SHARD, "t1").await.unwrap());
    let claim = |seen| Claim { holder: "new".into(), token: "t2".into(), seen };
    assert!(!new.acquire(SHARD, &claim(seen)).await.unwrap(), "the owner showed life meanwhile");
    assert!(!new.acquire(SHARD, &claim(None)).await.unwrap());
    let seen = new.owner(SHARD).await.unwrap();
    assert!(new.acquire(SHARD, &claim(seen.clone())).await.unwrap());
    assert!(new.acquire(SHARD, &claim(seen)).await.unwrap(), "a repetition whose reply was lost");

    let before = dump(&server).await;
    let late = commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)]);
    assert_eq!(old.commit(&late).await.unwrap(), Committed::Fenced);
    assert!(!old.renew(SHARD, "t1").await.unwrap());
    old.release(SHARD, "t1").await.unwrap();
    assert_eq!(dump(&server).await, before);
    assert_eq!(new.commit(&commit("t2", 1, &[plan(1, 0, 1, Activity::Begins)])).await.unwrap(), Committed::Applied);
}

#[tokio::test]
async fn a_key_of_another_kind_leaves_nothing_half_written() {
    for is_full_check in [true, false] {
        nothing_is_half_written(is_full_check).await;
    }
}

/// - `is_full_check`: or else the owner's commits follow one another, and the inbox is not touched.
async fn nothing_is_half_written(is_full_check: bool) {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    broker.open_queue(&"fetch".into()).await.unwrap();
    broker.commit(&commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)])).await.unwrap();
    let mut next = commit("t1", 2, &[plan(1, 1, 2, Activity::Continues), plan(2, 0, 1, Activity::Begins)]);
    next.tasks = vec![task("fetch", b"x")];
    next.acknowledged = vec![("think".into(), "1-1".into())];
    next.cursor = Some("1-0".into());
    next.requests_cursor = Some("1-0".into());
    next.full_check = is_full_check;
    next.plans[0].follows = !is_full_check;

    let mut victims = vec![
        Keys::default().owner(SHARD),
        Keys::default().active(SHARD),
        Keys::default().index(SHARD),
        Keys::default().cursor(SHARD),
        Keys::default().requests_cursor(SHARD),
        Keys::default().plan(&id(1)),
        Keys::default().events(&id(1)),
        Keys::default().plan(&id(2)),
        Keys::default().events(&id(2)),
        Keys::default().steps(&"fetch".into()),
        Keys::default().steps(&"think".into()),
    ];
    let inbox = [Keys::default().reports(SHARD), Keys::default().requests(SHARD)];
    victims.extend(inbox.into_iter().filter(|_| is_full_check));
    let mut raw = server.raw().await;
    for victim in victims {
        let aside = format!("aside:{victim}");
        let existed: bool = raw.exists(&victim).await.unwrap();
        if existed {
            let _: () = raw.rename(&victim, &aside).await.unwrap();
        }
        let _: Value = cmd("LPUSH").arg(&victim).arg("x").query_async(&mut raw).await.unwrap();
        let before = dump(&server).await;
        let refused = broker.commit(&next).await;
        let named = |found: &[KeyTypeMismatch]| matches!(found, [only] if only.key == victim && only.found == "list");
        assert!(matches!(&refused, Err(BrokerError::WrongType(found)) if named(found)), "`{victim}`: {refused:?}");
        assert_eq!(dump(&server).await, before, "`{victim}`");
        let _: () = raw.del(&victim).await.unwrap();
        if existed {
            let _: () = raw.rename(&aside, &victim).await.unwrap();
        }
    }
    assert_eq!(broker.commit(&next).await.unwrap(), Committed::Applied);
}

#[tokio::test]
async fn the_index_loses_plans_whose_summary_has_expired() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t").await;
    let plans: Vec<_> = (1..=700).map(|n| plan(n, 0, n, Activity::Begins)).collect();
    broker.commit(&commit("t", 1, &plans)).await.unwrap();
    let mut raw = server.raw().await;
    for n in (1..=700).filter(|n| n % 7 != 0) {
        let _: () = raw.del(Keys::default().plan(&id(n))).await.unwrap();
    }
    assert_eq!(broker.sweep_index(SHARD, 100 + 694).await.unwrap(), 594);
    let left = broker.plans(SHARD, u64::MAX, 1_000).await.unwrap();
    assert_eq!(left.len(), 106);
    assert_eq!(left[0], (id(700), 800));
    assert_eq!(broker.plans(SHARD, 800, 1).await.unwrap(), [(id(699), 799)]);
}

#[tokio::test]
async fn a_stream_that_takes_no_more_leaves_nothing_half_written() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    broker.commit(&commit("t1", 1, &[plan(1, 0, 1, Activity::Begins)])).await.unwrap();
    let mut raw = server.raw().await;
    let add = async |raw: &mut redis::aio::MultiplexedConnection, key: String, id: &str| {
        cmd("XADD").arg(key).arg(id).arg("f").arg("v").query_async::<String>(raw).await.unwrap()
    };
    let mut next = commit("t1", 2, &[plan(1, 1, 2, Activity::Continues)]);
    next.plans[0].follows = true;
    next.tasks = vec![task("fetch", b"x"), task("full", b"x")];
    add(&mut raw, Keys::default().steps(&"full".into()), "18446744073709551615-18446744073709551615").await;
    let before = dump(&server).await;
    let refused = broker.commit(&next).await;
    let named =
        |found: &[KeyTypeMismatch]| matches!(found, [only] if only.key == Keys::default().steps(&"full".into()));
    assert!(matches!(&refused, Err(BrokerError::WrongType(found)) if named(found)), "{refused:?}");
    assert_eq!(dump(&server).await, before);

    next.tasks.pop();
    add(&mut raw, Keys::default().events(&id(1)), "2-0").await;
    let before = dump(&server).await;
    assert!(matches!(broker.commit(&next).await.unwrap(), Committed::Gap(_)), "the log is ahead");
    assert_eq!(dump(&server).await, before);
}

/// The fields of a result's entries, and the answer.
async fn told(server: &Server, submission: &str) -> (Vec<Vec<(String, String)>>, Option<String>) {
    let mut connection = server.raw().await;
    let entries: Vec<(String, Vec<(String, String)>)> = cmd("XRANGE")
        .arg(format!("goalmill:results:{submission}"))
        .arg("-")
        .arg("+")
        .query_async(&mut connection)
        .await
        .unwrap();
    let answer = cmd("GET").arg(format!("goalmill:answers:{submission}")).query_async(&mut connection).await;
    (entries.into_iter().map(|(_, fields)| fields).collect(), answer.unwrap())
}

#[tokio::test]
async fn answers_and_results_are_written_with_the_events_of_their_plan_or_not_at_all() {
    let server = Server::start(&[]).await;
    let broker = server.open().await;
    own(&*broker, "t1").await;
    let accepted =
        StreamResult { submission: "job".into(), answer: "{\"status\":\"running\"}".into(), ..StreamResult::default() };
    let first = PlanWrite { result: Some(Box::new(accepted.clone())), ..plan(1, 0, 1, Activity::Begins) };
    let begins = [first, plan(2, 0, 1, Activity::Begins)];
    assert_eq!(broker.commit(&commit("t0", 1, &begins)).await.unwrap(), Committed::Fenced);
    assert_eq!(told(&server, "job").await, (Vec::new(), None));
    assert_eq!(broker.commit(&commit("t1", 1, &begins)).await.unwrap(), Committed::Applied);
    let running = (Vec::new(), Some(accepted.answer));
    assert_eq!(told(&server, "job").await, running);
    let result = StreamResult {
        submission: "job".into(),
        answer: "{\"status\":\"completed\"}".into(),
        fields: vec![("status", "completed".into()), ("outputs", "{}".into())],
    };
    let ends =
        PlanWrite { result: Some(Box::new(result.clone())), ..plan(1, 1, 2, Activity::Ends { retention_ms: 9 }) };
    let goes_on = plan(2, 1, 2, Activity::Continues);
    let whole = Commit { tasks: vec![task("build", b"one")], ..commit("t1", 2, &[ends.clone(), goes_on]) };
    // Somebody else owns the shard: nothing is said.
    assert_eq!(broker.commit(&Commit { token: "t0".into(), ..whole.clone() }).await.unwrap(), Committed::Fenced);
    assert_eq!(told(&server, "job").await, running);
    assert_eq!(broker.commit(&whole).await.unwrap(), Committed::Applied);
    assert_eq!(broker.commit(&whole).await.unwrap(), Committed::Duplicate);
    let fields = vec![("status".to_owned(), "completed".to_owned()), ("outputs".to_owned(), "{}".to_owned())];
    let said = (vec![fields], Some(result.answer.clone()));
    assert_eq!(told(&server, "job").await, said);

    // The answer to a repetition comes late, and the result is there.
    let late = [("job".to_owned(), "{\"status\":\"running\"}".to_owned()), ("other".to_owned(), "{}".to_owned())];
    broker.answer(&late).await.unwrap();
    broker.put_result(&StreamResult { fields: vec![("status", "again".into())], ..result }).await.unwrap();
    assert_eq!(told(&server, "job").await, said);
    assert_eq!(told(&server, "other").await.1.as_deref(), Some("{}"));
    assert!(broker.has_result("job").await.unwrap());
    broker.remove_results(&["job".into()]).await.unwrap();
    assert!(!broker.has_result("job").await.unwrap());
}
