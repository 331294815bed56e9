//! A commit happens whole or not at all, once.

use goalmill_broker::{Activity, Commit, Committed, InboxCursor, LogEntry, ParkMark, PlanWrite};
use goalmill_common::id::{AgentType, EntryId, Namespace, PlanId, WorkerId};
use goalmill_common::status::PlanStatus;
use goalmill_common::wire::InboxStream;

use crate::make::{S0, S1, after, commit, dispatch, fields, own, plan, task};
use crate::stage::Stage;

on_both_back_ends! {
    a_commit_changes_what_it_names_and_nothing_else,
    a_write_without_events_changes_the_summary_alone,
    a_repeated_commit_is_a_duplicate_and_changes_nothing,
    a_commit_that_skips_a_number_is_refused_whole,
    a_commit_on_another_sequence_is_refused_whole,
    a_commit_with_a_foreign_token_is_refused_whole,
    a_commit_for_an_unowned_shard_is_refused_whole,
    a_new_plan_that_exists_is_refused,
    only_a_commit_moves_the_cursor,
    each_stream_of_the_inbox_has_a_cursor_that_only_a_commit_moves,
    a_commit_without_a_cursor_leaves_it,
    an_ended_plan_leaves_the_active_ones_and_expires,
    the_index_forgets_expired_plans_only,
    final_plans_expire_when_asked,
    plans_are_listed_first_changed_first,
    plans_are_listed_last_changed_first,
    the_log_is_read_in_pages,
    events_and_summaries_keep_every_byte,
    a_large_commit_is_applied_whole,
    a_mark_of_a_parked_plan_holds_until_its_log_goes_on,
}

async fn a_commit_changes_what_it_names_and_nothing_else(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    stage.broker.send(S0, &fields(&[("v", "1"), ("data", "[]")])).await.unwrap();
    let read = stage.broker.reader().await.unwrap().inbox(S0, &InboxCursor::start(), 10, 0).await.unwrap();
    let before = stage.look().await;
    let first = Commit {
        cursor: Some(read[0].id.clone()),
        plans: vec![plan("p0-a", 0, 3, Activity::Begins)],
        tasks: vec![task("build", "one")],
        ..commit("t1", 1)
    };
    assert_eq!(stage.broker.commit(&first).await.unwrap(), Committed::Applied);
    let visible = ["owner 0", "active 0", "index 0", "inbox 0", "cursor 0", "log p0-a", "summary p0-a", "queue build"];
    let keys = [
        "goalmill:{s0}:owner",
        "goalmill:{s0}:active",
        "goalmill:{s0}:index",
        "goalmill:{s0}:cursor",
        "goalmill:{s0}:plan:p0-a",
        "goalmill:{s0}:plan:p0-a:events",
        "goalmill:steps:build",
    ];
    stage.assert_changed(&before, &visible, &keys).await;

    let summary = stage.broker.summary(&"p0-a".into()).await.unwrap();
    let expected = [("goal", "ein Ziel – ✓"), ("seq", "3"), ("status", "at 3")];
    assert_eq!(summary, expected.map(|(k, v)| (k.to_string(), v.to_string())).into());
    assert_eq!(stage.broker.active(S0).await.unwrap(), vec![PlanId::from("p0-a")]);
    let log = stage.broker.log(&"p0-a".into(), 0, 10).await.unwrap();
    let entry = LogEntry { last_seq: 3, time: "2026-11-21T22:47:10.123Z".into(), events: "[\"p0-a to 3\"]".into() };
    assert_eq!(log, vec![entry]);

    let before = stage.look().await;
    let second = Commit { plans: vec![plan("p0-a", 3, 4, Activity::Continues)], ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&second).await.unwrap(), Committed::Applied);
    let keys =
        ["goalmill:{s0}:owner", "goalmill:{s0}:index", "goalmill:{s0}:plan:p0-a", "goalmill:{s0}:plan:p0-a:events"];
    stage.assert_changed(&before, &["owner 0", "index 0", "log p0-a", "summary p0-a"], &keys).await;
}

async fn a_write_without_events_changes_the_summary_alone(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let begun = Commit { plans: vec![plan("p0-a", 0, 3, Activity::Begins)], ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&begun).await.unwrap(), Committed::Applied);
    let before = stage.look().await;
    let mut shown = plan("p0-a", 3, 3, Activity::Continues);
    shown.index_ms = 0;
    shown.summary = vec![("counts", "{}".into())];
    for (number, follows) in [(2, false), (3, true)] {
        shown.follows = follows;
        let told = Commit { plans: vec![shown.clone()], ..commit("t1", number) };
        assert_eq!(stage.broker.commit(&told).await.unwrap(), Committed::Applied);
        let keys = ["goalmill:{s0}:owner", "goalmill:{s0}:plan:p0-a"];
        stage.assert_changed(&before, &["owner 0", "summary p0-a"], &keys).await;
    }
    let summary = stage.broker.summary(&"p0-a".into()).await.unwrap();
    assert_eq!((summary["seq"].as_str(), summary["counts"].as_str()), ("3", "{}"));
    assert_eq!(stage.broker.log(&"p0-a".into(), 0, 10).await.unwrap().len(), 1);

    let unborn = plan("p0-b", 0, 0, Activity::Begins);
    let refused = stage.broker.commit(&Commit { plans: vec![unborn], ..commit("t1", 4) }).await.unwrap();
    assert!(matches!(refused, Committed::Gap(_)), "{refused:?}");
}

async fn a_repeated_commit_is_a_duplicate_and_changes_nothing(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    let once = Commit {
        plans: vec![plan("p0-a", 0, 2, Activity::Begins)],
        tasks: vec![task("build", "one")],
        cursor: Some("5-0".into()),
        ..commit("t1", 1)
    };
    assert_eq!(stage.broker.commit(&once).await.unwrap(), Committed::Applied);
    let before = stage.look().await;
    for _ in 0..2 {
        assert_eq!(stage.broker.commit(&once).await.unwrap(), Committed::Duplicate);
    }
    stage.assert_unchanged(&before).await;
}

async fn a_commit_that_skips_a_number_is_refused_whole(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    for number in 1..=3 {
        assert_eq!(stage.broker.commit(&commit("t1", number)).await.unwrap(), Committed::Applied);
    }
    let before = stage.look().await;
    for number in [1, 2, 5, 6, 1_000_000] {
        let answer = stage.broker.commit(&full(commit("t1", number))).await.unwrap();
        assert!(matches!(answer, Committed::Gap(_)), "{number}: {answer:?}");
    }
    stage.assert_unchanged(&before).await;
}

async fn a_commit_on_another_sequence_is_refused_whole(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let first = Commit { plans: vec![plan("p0-a", 0, 2, Activity::Begins)], ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&first).await.unwrap(), Committed::Applied);
    let before = stage.look().await;
    for (id, base) in [("p0-a", 0), ("p0-a", 1), ("p0-a", 3), ("p0-b", 1)] {
        let mut wrong = full(commit("t1", 2));
        wrong.plans = vec![plan("p0-c", 0, 1, Activity::Begins), plan(id, base, base + 9, Activity::Continues)];
        let answer = stage.broker.commit(&wrong).await.unwrap();
        assert!(matches!(answer, Committed::Gap(_)), "{id} from {base}: {answer:?}");
    }
    stage.assert_unchanged(&before).await;
    let right = Commit { plans: vec![plan("p0-a", 2, 3, Activity::Continues)], ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&right).await.unwrap(), Committed::Applied, "a refused number is still free");
}

async fn a_commit_with_a_foreign_token_is_refused_whole(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let before = stage.look().await;
    for token in ["t2", "", "t1 "] {
        assert_eq!(stage.broker.commit(&full(commit(token, 1))).await.unwrap(), Committed::Fenced);
    }
    stage.assert_unchanged(&before).await;
}

async fn a_commit_for_an_unowned_shard_is_refused_whole(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let before = stage.look().await;
    let unowned = Commit { shard: S1, plans: vec![plan("p1-a", 0, 1, Activity::Begins)], ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&unowned).await.unwrap(), Committed::Fenced);
    assert_eq!(stage.broker.commit(&Commit { token: String::new(), ..unowned }).await.unwrap(), Committed::Fenced);
    stage.assert_unchanged(&before).await;
}

async fn a_new_plan_that_exists_is_refused(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let begin = |number| Commit { plans: vec![plan("p0-a", 0, 1, Activity::Begins)], ..commit("t1", number) };
    assert_eq!(stage.broker.commit(&begin(1)).await.unwrap(), Committed::Applied);
    let before = stage.look().await;
    assert!(matches!(stage.broker.commit(&begin(2)).await.unwrap(), Committed::Gap(_)));
    stage.assert_unchanged(&before).await;
}

async fn only_a_commit_moves_the_cursor(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let mut reader = stage.broker.reader().await.unwrap();
    for n in ["1", "2", "3"] {
        stage.broker.send(S0, &fields(&[("v", "1"), ("data", n)])).await.unwrap();
    }
    let read = reader.inbox(S0, &InboxCursor::start(), 10, 0).await.unwrap();
    assert_eq!(stage.broker.cursor(S0).await.unwrap(), InboxCursor::start());
    let moving = Commit { cursor: Some(read[1].id.clone()), full_check: true, ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&moving).await.unwrap(), Committed::Applied);
    assert_eq!(stage.broker.cursor(S0).await.unwrap(), after(&read[1]));
    assert_eq!(stage.broker.cursor(S1).await.unwrap(), InboxCursor::start());
    let rest = reader.inbox(S0, &after(&read[1]), 10, 0).await.unwrap();
    assert_eq!(rest, read[2..], "trimming drops nothing after the cursor");
}

async fn each_stream_of_the_inbox_has_a_cursor_that_only_a_commit_moves(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let mut reader = stage.broker.reader().await.unwrap();
    for n in ["1", "2"] {
        stage.broker.send(S0, &fields(&[("v", "1"), ("data", n)])).await.unwrap();
        stage.broker.send_request(S0, &fields(&[("v", "1"), ("request", n)])).await.unwrap();
    }
    let read = reader.inbox(S0, &InboxCursor::start(), 10, 0).await.unwrap();
    let of = |stream| read.iter().filter(move |entry| entry.stream == stream).cloned().collect::<Vec<_>>();
    let (reports, requests) = (of(InboxStream::Reports), of(InboxStream::Requests));
    assert_eq!((reports.len(), requests.len()), (2, 2));
    assert_eq!(reader.inbox(S0, &InboxCursor::start(), 1, 0).await.unwrap().len(), 2, "so many of each stream");

    let before = stage.look().await;
    let first = Commit { requests_cursor: Some(requests[0].id.clone()), ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&first).await.unwrap(), Committed::Applied);
    let keys = ["goalmill:{s0}:owner", "goalmill:{s0}:requests:cursor"];
    stage.assert_changed(&before, &["owner 0", "inbox 0", "cursor 0"], &keys).await;
    let cursor = InboxCursor { reports: EntryId::start(), requests: requests[0].id.clone() };
    assert_eq!(stage.broker.cursor(S0).await.unwrap(), cursor);

    let both = Commit {
        cursor: Some(reports[0].id.clone()),
        requests_cursor: Some(requests[1].id.clone()),
        full_check: true,
        ..commit("t1", 2)
    };
    assert_eq!(stage.broker.commit(&both).await.unwrap(), Committed::Applied);
    assert_eq!(stage.broker.commit(&both).await.unwrap(), Committed::Duplicate);
    let cursor = InboxCursor { reports: reports[0].id.clone(), requests: requests[1].id.clone() };
    assert_eq!(stage.broker.cursor(S0).await.unwrap(), cursor);
    assert_eq!(reader.inbox(S0, &cursor, 10, 0).await.unwrap(), reports[1..]);
}

async fn a_commit_without_a_cursor_leaves_it(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let moving = Commit { cursor: Some("7-0".into()), ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&moving).await.unwrap(), Committed::Applied);
    let before = stage.look().await;
    assert_eq!(stage.broker.commit(&commit("t1", 2)).await.unwrap(), Committed::Applied);
    stage.assert_changed(&before, &["owner 0"], &["goalmill:{s0}:owner"]).await;
}

async fn an_ended_plan_leaves_the_active_ones_and_expires(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let begin = Commit {
        plans: vec![plan("p0-a", 0, 1, Activity::Begins), plan("p0-b", 0, 1, Activity::Begins)],
        ..commit("t1", 1)
    };
    assert_eq!(stage.broker.commit(&begin).await.unwrap(), Committed::Applied);
    let end = Commit { plans: vec![plan("p0-a", 1, 2, Activity::Ends { retention_ms: 60_000 })], ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&end).await.unwrap(), Committed::Applied);
    assert_eq!(stage.broker.active(S0).await.unwrap(), vec![PlanId::from("p0-b")]);
    stage.later(30_000).await;
    assert_eq!(stage.broker.log(&"p0-a".into(), 0, 10).await.unwrap().len(), 2);
    assert_eq!(stage.broker.summary(&"p0-a".into()).await.unwrap()["status"], "at 2");
    let before = stage.look().await;
    stage.later(31_000).await;
    let keys = ["goalmill:{s0}:plan:p0-a", "goalmill:{s0}:plan:p0-a:events"];
    stage.assert_changed(&before, &["log p0-a", "summary p0-a"], &keys).await;
    assert!(stage.broker.summary(&"p0-a".into()).await.unwrap().is_empty());
    assert!(!stage.broker.summary(&"p0-b".into()).await.unwrap().is_empty());
}

async fn the_index_forgets_expired_plans_only(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let ends = Activity::Ends { retention_ms: 60_000 };
    let all = Commit {
        plans: vec![plan("p0-a", 0, 1, ends), plan("p0-b", 0, 2, Activity::Begins), plan("p0-c", 0, 5, ends)],
        ..commit("t1", 1)
    };
    assert_eq!(stage.broker.commit(&all).await.unwrap(), Committed::Applied);
    assert_eq!(stage.broker.sweep_index(S0, 2_000).await.unwrap(), 0, "nothing has expired");
    stage.later(61_000).await;
    let before = stage.look().await;
    assert_eq!(stage.broker.sweep_index(S0, 1_001).await.unwrap(), 0, "`before` is exclusive");
    stage.assert_unchanged(&before).await;
    assert_eq!(stage.broker.sweep_index(S0, 1_003).await.unwrap(), 1);
    stage.assert_changed(&before, &["index 0"], &["goalmill:{s0}:index"]).await;
    let left = [(PlanId::from("p0-c"), 1_005), (PlanId::from("p0-b"), 1_002)];
    assert_eq!(stage.broker.plans(S0, 9_999, 9).await.unwrap(), left);
    assert_eq!(stage.broker.sweep_index(S0, 9_999).await.unwrap(), 1);
    assert_eq!(stage.broker.sweep_index(S0, 9_999).await.unwrap(), 0);
}

async fn final_plans_expire_when_asked(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let kept = Activity::Ends { retention_ms: u64::MAX };
    let all = Commit { plans: vec![plan("p0-a", 0, 1, kept), plan("p0-b", 0, 2, kept)], ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&all).await.unwrap(), Committed::Applied);
    stage.later(90_000_000).await;
    let asked = [(PlanId::from("p0-a"), 60_000), (PlanId::from("p0-none"), 60_000)];
    stage.broker.expire_plans(&asked).await.unwrap();
    stage.later(30_000).await;
    assert!(!stage.broker.summary(&"p0-a".into()).await.unwrap().is_empty());
    stage.later(31_000).await;
    assert!(stage.broker.summary(&"p0-a".into()).await.unwrap().is_empty());
    assert!(stage.broker.log(&"p0-a".into(), 0, 9).await.unwrap().is_empty());
    stage.broker.expire_plans(&[("p0-b".into(), 0)]).await.unwrap();
    stage.later(1).await;
    assert!(stage.broker.summary(&"p0-b".into()).await.unwrap().is_empty());
    stage.broker.expire_plans(&[]).await.unwrap();
}

async fn plans_are_listed_first_changed_first(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let changed_at = [("p0-a", 30), ("p0-b", 10), ("p0-c", 20), ("p0-d", 20)];
    let plans =
        changed_at.map(|(id, at)| goalmill_broker::PlanWrite { index_ms: at, ..plan(id, 0, 1, Activity::Begins) });
    let all = Commit { plans: plans.into(), ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&all).await.unwrap(), Committed::Applied);
    let listed = async |from, limit| -> Vec<String> {
        let plans = stage.broker.plans_since(S0, from, limit).await.unwrap();
        plans.into_iter().map(|(id, at)| format!("{id}@{at}")).collect()
    };
    assert_eq!(listed(0, 10).await, ["p0-b@10", "p0-c@20", "p0-d@20", "p0-a@30"]);
    assert_eq!(listed(20, 2).await, ["p0-c@20", "p0-d@20"]);
    assert!(listed(31, 10).await.is_empty());
    assert!(stage.broker.plans_since(S1, 0, 10).await.unwrap().is_empty());
}

async fn plans_are_listed_last_changed_first(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let changed_at = [("p0-a", 30), ("p0-b", 10), ("p0-c", 20), ("p0-d", 20)];
    let plans =
        changed_at.map(|(id, at)| goalmill_broker::PlanWrite { index_ms: at, ..plan(id, 0, 1, Activity::Begins) });
    let all = Commit { plans: plans.into(), ..commit("t1", 1) };
    assert_eq!(stage.broker.commit(&all).await.unwrap(), Committed::Applied);
    let listed = async |before, limit| -> Vec<String> {
        let plans = stage.broker.plans(S0, before, limit).await.unwrap();
        plans.into_iter().map(|(id, at)| format!("{id}@{at}")).collect()
    };
    assert_eq!(listed(100, 10).await, ["p0-a@30", "p0-d@20", "p0-c@20", "p0-b@10"]);
    assert_eq!(listed(30, 2).await, ["p0-d@20", "p0-c@20"]);
    assert_eq!(listed(20, 10).await, ["p0-b@10"]);
    assert!(listed(10, 10).await.is_empty());
    assert!(stage.broker.plans(S1, 100, 10).await.unwrap().is_empty());
}

async fn the_log_is_read_in_pages(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let mut base = 0;
    for number in 1..=10 {
        let next =
            Commit { plans: vec![plan("p0-a", base, base + number, Activity::Continues)], ..commit("t1", number) };
        assert_eq!(stage.broker.commit(&next).await.unwrap(), Committed::Applied);
        base += number;
    }
    let seqs = async |after, limit| -> Vec<u64> {
        let page = stage.broker.log(&"p0-a".into(), after, limit).await.unwrap();
        page.iter().map(|entry| entry.last_seq).collect()
    };
    assert_eq!(seqs(0, 4).await, [1, 3, 6, 10]);
    assert_eq!(seqs(10, 4).await, [15, 21, 28, 36]);
    assert_eq!(seqs(36, 4).await, [45, 55]);
    assert_eq!(seqs(55, 4).await, [0; 0]);
    assert_eq!(seqs(7, 1).await, [10], "an entry that holds event 8 follows event 7");
    assert_eq!(seqs(0, 0).await, [0; 0]);
    assert_eq!(seqs(u64::MAX, 4).await, [0; 0]);
    assert!(stage.broker.log(&"p0-none".into(), 0, 4).await.unwrap().is_empty());
}

async fn events_and_summaries_keep_every_byte(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    let odd = "[\"a\\u0000\", \"\u{0}\r\n\t ✓ 𝄞\", 9007199254740993, 1.10, []]";
    let mut write = plan("p0-a", 0, 1, Activity::Begins);
    write.events = odd.into();
    write.summary = vec![("status", odd.into()), ("empty", String::new())];
    let all = Commit {
        plans: vec![write],
        tasks: vec![goalmill_broker::TaskWrite { agent_type: "build".into(), data: (0..=255).collect() }],
        ..commit("t1", 1)
    };
    assert_eq!(stage.broker.commit(&all).await.unwrap(), Committed::Applied);
    assert_eq!(stage.broker.log(&"p0-a".into(), 0, 1).await.unwrap()[0].events, odd);
    let summary = stage.broker.summary(&"p0-a".into()).await.unwrap();
    assert_eq!((summary["status"].as_str(), summary["empty"].as_str()), (odd, ""));
    let mut reader = stage.broker.reader().await.unwrap();
    let pulled = reader.pull(&"w1".into(), &["build".into()], 1, 0).await.unwrap();
    assert_eq!(pulled[0].data, (0..=255).collect::<Vec<u8>>());
}

async fn a_large_commit_is_applied_whole(stage: Stage) {
    const COUNT: usize = 9_000;
    let build = AgentType::from("build");
    own(&*stage.broker, S0, "t1").await;
    stage.broker.open_queue(&build).await.unwrap();
    let tasks = (0..COUNT).map(|n| task("build", &n.to_string())).collect();
    dispatch(&*stage.broker, "t1", 1, tasks).await;
    let mut reader = stage.broker.reader().await.unwrap();
    let mut pulled = Vec::new();
    while pulled.len() < COUNT {
        let more = reader.pull(&WorkerId::from("w1"), std::slice::from_ref(&build), 1_000, 0).await.unwrap();
        assert!(!more.is_empty(), "{} of {COUNT} tasks", pulled.len());
        pulled.extend(more);
    }
    let numbers: Vec<String> = pulled.iter().map(|task| String::from_utf8(task.data.clone()).unwrap()).collect();
    assert_eq!(numbers, (0..COUNT).map(|n| n.to_string()).collect::<Vec<_>>(), "in the order of the commit");

    let plans: Vec<_> = (0..2_000).map(|n| plan(&format!("p0-{n}"), 0, 1, Activity::Begins)).collect();
    let acknowledged = pulled.into_iter().map(|task| (build.clone(), task.entry)).collect();
    let large = Commit { plans, acknowledged, ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&large).await.unwrap(), Committed::Applied);
    assert_eq!(stage.broker.active(S0).await.unwrap().len(), 2_000);
    let queue = stage.broker.queues().await.unwrap().remove(0);
    assert_eq!((queue.waiting, queue.pending), (0, 0));
}

/// A commit that would change everything.
fn full(commit: Commit) -> Commit {
    Commit {
        cursor: Some("99-0".into()),
        requests_cursor: Some("99-0".into()),
        plans: vec![plan("p0-c", 0, 1, Activity::Begins)],
        tasks: vec![task("build", "x")],
        acknowledged: vec![("build".into(), "1-0".into())],
        full_check: true,
        ..commit
    }
}

async fn a_mark_of_a_parked_plan_holds_until_its_log_goes_on(stage: Stage) {
    const PLANS: u64 = 1_200;
    let mark = |seq| ParkMark { seq, due_ms: 9_000, updated_ms: 8_000, status: PlanStatus::Running, waits: (1, seq) };
    let marked = |id: &str, seq, text: String| PlanWrite {
        summary: vec![("namespace", "red".into()), (ParkMark::FIELD, text)],
        ..plan(id, seq, seq, Activity::Continues)
    };
    own(&*stage.broker, S0, "t1").await;
    let ids: Vec<String> = (0..PLANS).map(|n| format!("p0-{n}")).collect();
    let write = async |number, plans| {
        let commit = Commit { plans, ..commit("t1", number) };
        assert_eq!(stage.broker.commit(&commit).await.unwrap(), Committed::Applied);
    };
    write(1, ids.iter().map(|id| plan(id, 0, 3, Activity::Begins)).collect()).await;
    let mut asked: Vec<PlanId> = ids.iter().map(|id| id.as_str().into()).collect();
    asked.push("p0-unknown".into());
    let holds = async || -> Vec<bool> {
        let marks = stage.broker.park_marks(&asked).await.unwrap();
        let known = Some((mark(3), Namespace::from("red")));
        assert!(marks.iter().flatten().all(|found| Some(found) == known.as_ref()));
        marks.iter().map(Option::is_some).collect()
    };
    assert_eq!(holds().await, vec![false; asked.len()]);

    write(2, ids.iter().map(|id| marked(id, 3, mark(3).text())).collect()).await;
    let mut expected = vec![true; asked.len()];
    expected[ids.len()] = false;
    assert_eq!(holds().await, expected);

    write(3, vec![plan("p0-7", 3, 4, Activity::Continues), plan("p0-1100", 3, 5, Activity::Continues)]).await;
    write(4, vec![marked("p0-9", 3, "2 3 9000 8000 1 3 running".into())]).await;
    for place in [7, 9, 1_100] {
        expected[place] = false;
    }
    assert_eq!(holds().await, expected);
    assert_eq!(stage.broker.park_marks(&[]).await.unwrap(), Vec::new());
}
