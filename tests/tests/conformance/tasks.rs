//! Tasks: visible when committed, one worker each, leased, taken back when lost, trimmed when done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use goalmill_broker::{Commit, Committed, Delivery, QueueState};
use goalmill_common::id::{AgentType, EntryId, WorkerId};
use goalmill_common::keys::Keys;
use goalmill_tests::wait::SOON;

use crate::make::{S0, commit, dispatch, lease, letter, own, task};
use crate::stage::Stage;

on_both_back_ends! {
    a_task_is_visible_if_and_only_if_its_commit_was_applied,
    opening_a_queue_twice_changes_nothing,
    tasks_that_came_before_the_queue_was_opened_are_seen,
    a_pull_takes_at_most_what_it_asked_for_over_several_types,
    each_task_goes_to_one_worker,
    acknowledged_tasks_are_nobodys,
    only_the_holder_extends_a_lease,
    a_task_is_reclaimed_after_the_idle_time_and_not_before,
    an_extended_lease_is_not_reclaimed,
    a_reclaimed_task_comes_again_until_it_is_acknowledged,
    at_most_as_many_are_reclaimed_as_asked_for,
    trimming_drops_nothing_that_is_needed,
    queues_are_counted,
    tasks_that_no_worker_has_can_be_removed,
}

const STEPS: &str = "goalmill:steps:build";

async fn a_task_is_visible_if_and_only_if_its_commit_was_applied(mut stage: Stage) {
    let mut reader = opened(&stage, &["build"]).await;
    let sent = Commit { tasks: vec![task("build", "one")], ..commit("t1", 2) };
    assert!(matches!(stage.broker.commit(&sent).await.unwrap(), Committed::Gap(_)));
    assert!(pull(&mut reader, "w1", &["build"], 10).await.is_empty());
    let before = stage.look().await;
    let sent = Commit { number: 1, ..sent };
    assert_eq!(stage.broker.commit(&sent).await.unwrap(), Committed::Applied);
    stage.assert_changed(&before, &["owner 0", "queue build"], &["goalmill:{s0}:owner", STEPS]).await;
    let before = stage.look().await;
    let pulled = pull(&mut reader, "w1", &["build"], 10).await;
    assert_eq!((pulled.len(), pulled[0].data.as_slice()), (1, b"one".as_slice()));
    stage.assert_changed(&before, &["queue build"], &[STEPS]).await;
    assert_eq!(stage.broker.commit(&sent).await.unwrap(), Committed::Duplicate);
    assert!(pull(&mut reader, "w1", &["build"], 10).await.is_empty(), "a duplicate sends nothing again");
}

async fn opening_a_queue_twice_changes_nothing(mut stage: Stage) {
    let before = stage.look().await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    stage.assert_changed(&before, &["queue build"], &[STEPS, &Keys::default().queues()]).await;
    own(&*stage.broker, S0, "t1").await;
    dispatch(&*stage.broker, "t1", 1, vec![task("build", "one"), task("build", "two")]).await;
    let mut reader = stage.broker.reader().await.unwrap();
    assert_eq!(pull(&mut reader, "w1", &["build"], 1).await.len(), 1);
    let before = stage.look().await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    stage.assert_unchanged(&before).await;
}

async fn tasks_that_came_before_the_queue_was_opened_are_seen(stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    dispatch(&*stage.broker, "t1", 1, vec![task("build", "early"), task("test", "early too")]).await;
    stage.broker.open_queue(&"build".into()).await.unwrap();
    let mut reader = stage.broker.reader().await.unwrap();
    let pulled = pull(&mut reader, "w1", &["build", "test"], 10).await;
    let seen: BTreeSet<String> = data(&pulled).into_iter().collect();
    assert_eq!(seen, ["early", "early too"].map(String::from).into(), "a pull opens a queue that is missing");
    let queues: Vec<AgentType> = stage.broker.queues().await.unwrap().into_iter().map(|q| q.agent_type).collect();
    assert_eq!(queues, ["build".into(), "test".into()]);
}

async fn a_pull_takes_at_most_what_it_asked_for_over_several_types(stage: Stage) {
    let types = ["build", "test", "ship"];
    let mut reader = opened(&stage, &types).await;
    let tasks = types.iter().flat_map(|t| (0..4).map(move |n| task(t, &format!("{t} {n}")))).collect();
    dispatch(&*stage.broker, "t1", 1, tasks).await;
    let mut seen = Vec::new();
    for expected in [5, 5, 2, 0] {
        let pulled = pull(&mut reader, "w1", &types, 5).await;
        assert_eq!(pulled.len(), expected);
        seen.extend(pulled);
    }
    let of = |t: &str| data(&seen.iter().filter(|d| d.agent_type.as_str() == t).cloned().collect::<Vec<_>>());
    for t in types {
        assert_eq!(of(t), [0, 1, 2, 3].map(|n| format!("{t} {n}")), "each stream in its order, under its name");
    }
    assert!(pull(&mut reader, "w1", &[], 5).await.is_empty());
}

async fn each_task_goes_to_one_worker(stage: Stage) {
    const COUNT: usize = 400;
    opened(&stage, &["build", "test"]).await;
    let (mut pulls, taken) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
    for n in 0..4 {
        let (mut reader, taken) = (stage.broker.reader().await.unwrap(), taken.clone());
        pulls.push(tokio::spawn(async move {
            let (worker, types) = (WorkerId::from(format!("w{n}")), ["build".into(), "test".into()]);
            let mut all = Vec::new();
            loop {
                let pulled = reader.pull(&worker, &types, 7, 200).await.unwrap();
                assert!(pulled.len() <= 7);
                let before = taken.fetch_add(pulled.len(), Ordering::SeqCst);
                // One look more when all are taken: none may come twice.
                if pulled.is_empty() && before >= COUNT {
                    return all;
                }
                all.extend(pulled);
            }
        }));
    }
    for number in 1..=10 {
        let tasks = (0..COUNT / 10).map(|n| task(["build", "test"][n % 2], &format!("{number} {n}"))).collect();
        dispatch(&*stage.broker, "t1", number, tasks).await;
    }
    let mut all = Vec::new();
    for pull in pulls {
        all.extend(tokio::time::timeout(SOON, pull).await.expect("all tasks are taken").unwrap());
    }
    assert_eq!(all.len(), COUNT);
    let different: BTreeSet<String> = data(&all).into_iter().collect();
    assert_eq!(different.len(), COUNT);
}

async fn acknowledged_tasks_are_nobodys(mut stage: Stage) {
    let mut reader = opened(&stage, &["build"]).await;
    dispatch(&*stage.broker, "t1", 1, vec![task("build", "one"), task("build", "two")]).await;
    let pulled = pull(&mut reader, "w1", &["build"], 10).await;
    let before = stage.look().await;
    let unknown = [lease("build", &"5-5".into()), lease("none", &"5-5".into())];
    let acknowledged = [lease("build", &pulled[0].entry)].into_iter().chain(unknown).collect();
    let done = Commit { acknowledged, ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&done).await.unwrap(), Committed::Applied);
    stage.assert_changed(&before, &["owner 0", "queue build"], &["goalmill:{s0}:owner", STEPS]).await;
    stage.later(120_000).await;
    assert_eq!(data(&stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap()), ["two"]);
    let before = stage.look().await;
    let held = stage.broker.extend(&"w1".into(), &[lease("build", &pulled[0].entry)]).await.unwrap();
    assert_eq!(held, [false]);
    stage.assert_unchanged(&before).await;
}

async fn tasks_that_no_worker_has_can_be_removed(stage: Stage) {
    let mut reader = opened(&stage, &["build"]).await;
    let tasks = ["one", "two", "three", "four", "five"].map(|data| task("build", data));
    dispatch(&*stage.broker, "t1", 1, tasks.into()).await;
    let build = AgentType::from("build");
    let pulled = pull(&mut reader, "w1", &["build"], 1).await;
    let all = stage.broker.tasks(&build, &EntryId::start(), 100).await.unwrap();
    assert_eq!(data(&all), ["one", "two", "three", "four", "five"]);
    assert_eq!(data(&stage.broker.tasks(&build, &all[2].entry, 1).await.unwrap()), ["four"]);
    let over = [&all[0], &all[1], &all[3]].map(|delivery| delivery.entry.clone());
    assert_eq!(stage.broker.discard_tasks(&build, &over).await.unwrap(), 2, "a worker has the first");
    assert_eq!(stage.broker.discard_tasks(&build, &over).await.unwrap(), 0);
    assert_eq!(stage.broker.discard_tasks(&"none".into(), &over).await.unwrap(), 0);
    let queues = stage.broker.queues().await.unwrap();
    assert_eq!((queues[0].waiting, queues[0].pending), (2, 1));
    assert_eq!(stage.broker.extend(&"w1".into(), &[lease("build", &pulled[0].entry)]).await.unwrap(), [true]);
    assert_eq!(data(&pull(&mut reader, "w1", &["build"], 10).await), ["three", "five"]);
}

async fn only_the_holder_extends_a_lease(mut stage: Stage) {
    let mut reader = opened(&stage, &["build", "test"]).await;
    let tasks = vec![task("build", "one"), task("build", "two"), task("test", "three"), task("test", "four")];
    dispatch(&*stage.broker, "t1", 1, tasks).await;
    let mut one = pull(&mut reader, "w1", &["build"], 2).await;
    one.extend(pull(&mut reader, "w1", &["test"], 1).await);
    let two = pull(&mut reader, "w2", &["test"], 1).await;
    let before = stage.look().await;
    let leases = [
        lease("test", &two[0].entry),
        lease("build", &one[0].entry),
        lease("ship", &one[0].entry),
        lease("test", &one[2].entry),
        lease("build", &"5-5".into()),
        lease("build", &"no id".into()),
        lease("build", &one[1].entry),
        lease("build", &one[1].entry),
    ];
    let held = stage.broker.extend(&"w1".into(), &leases).await.unwrap();
    assert_eq!(held, [false, true, false, true, false, false, true, true]);
    assert_eq!(stage.broker.extend(&"w3".into(), &leases).await.unwrap(), [false; 8]);
    assert!(stage.broker.extend(&"w1".into(), &[]).await.unwrap().is_empty());
    stage.assert_unchanged(&before).await;
}

async fn a_task_is_reclaimed_after_the_idle_time_and_not_before(mut stage: Stage) {
    let mut reader = opened(&stage, &["build"]).await;
    dispatch(&*stage.broker, "t1", 1, vec![task("build", "one"), task("build", "two")]).await;
    let pulled = pull(&mut reader, "w1", &["build"], 1).await;
    stage.later(30_000).await;
    let before = stage.look().await;
    assert!(stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap().is_empty());
    stage.assert_unchanged(&before).await;
    stage.later(31_000).await;
    assert_eq!(stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap(), pulled, "not the untaken one");
    stage.assert_changed(&before, &[], &[STEPS]).await;
    let held = stage.broker.extend(&"w1".into(), &[lease("build", &pulled[0].entry)]).await.unwrap();
    assert_eq!(held, [false], "the lease is lost");
    assert!(stage.broker.reclaim(&"test".into(), 60_000, 10).await.unwrap().is_empty());
}

async fn an_extended_lease_is_not_reclaimed(mut stage: Stage) {
    let mut reader = opened(&stage, &["build"]).await;
    dispatch(&*stage.broker, "t1", 1, vec![task("build", "one"), task("build", "two")]).await;
    let pulled = pull(&mut reader, "w1", &["build"], 2).await;
    for _ in 0..3 {
        stage.later(40_000).await;
        let held = stage.broker.extend(&"w1".into(), &[lease("build", &pulled[1].entry)]).await.unwrap();
        assert_eq!(held, [true]);
    }
    assert_eq!(data(&stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap()), ["one"]);
    stage.later(59_000).await;
    assert!(stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap().is_empty());
    stage.later(2_000).await;
    assert_eq!(data(&stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap()), ["one", "two"]);
}

async fn a_reclaimed_task_comes_again_until_it_is_acknowledged(mut stage: Stage) {
    let mut reader = opened(&stage, &["build"]).await;
    dispatch(&*stage.broker, "t1", 1, vec![task("build", "one")]).await;
    let pulled = pull(&mut reader, "w1", &["build"], 1).await;
    for _ in 0..3 {
        assert!(stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap().is_empty());
        stage.later(61_000).await;
        assert_eq!(stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap(), pulled);
    }
    let done = Commit { acknowledged: vec![lease("build", &pulled[0].entry)], ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&done).await.unwrap(), Committed::Applied);
    stage.later(61_000).await;
    assert!(stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap().is_empty());
}

async fn at_most_as_many_are_reclaimed_as_asked_for(mut stage: Stage) {
    let mut reader = opened(&stage, &["build"]).await;
    dispatch(&*stage.broker, "t1", 1, (0..250).map(|n| task("build", &n.to_string())).collect()).await;
    assert_eq!(pull(&mut reader, "w1", &["build"], 250).await.len(), 250);
    stage.later(61_000).await;
    let mut reclaimed = BTreeSet::new();
    for expected in [3, 120, 127] {
        let some = stage.broker.reclaim(&"build".into(), 60_000, expected).await.unwrap();
        assert_eq!(some.len(), expected);
        reclaimed.extend(data(&some));
    }
    assert_eq!(reclaimed.len(), 250, "each once");
    assert!(stage.broker.reclaim(&"build".into(), 60_000, 9).await.unwrap().is_empty());
}

async fn trimming_drops_nothing_that_is_needed(mut stage: Stage) {
    const COUNT: usize = 1_000;
    let mut reader = opened(&stage, &["build"]).await;
    dispatch(&*stage.broker, "t1", 1, (0..COUNT).map(|n| task("build", &n.to_string())).collect()).await;
    let pulled = pull(&mut reader, "w1", &["build"], 600).await;
    let acknowledge = |range: std::ops::Range<usize>| {
        pulled[range].iter().map(|task| lease("build", &task.entry)).collect::<Vec<_>>()
    };
    let most = [acknowledge(0..350), acknowledge(351..600)].concat();
    let done = Commit { acknowledged: most, ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&done).await.unwrap(), Committed::Applied);
    let before = stage.broker.queues().await.unwrap();
    stage.broker.trim(&"build".into()).await.unwrap();
    stage.broker.trim(&"none".into()).await.unwrap();
    assert_eq!(stage.broker.queues().await.unwrap(), before);
    assert_eq!((before[0].waiting, before[0].pending), (400, 1));
    stage.later(61_000).await;
    assert_eq!(data(&stage.broker.reclaim(&"build".into(), 60_000, 10).await.unwrap()), ["350"]);
    let done = Commit { acknowledged: acknowledge(350..351), ..commit("t1", 3) };
    assert_eq!(stage.broker.commit(&done).await.unwrap(), Committed::Applied);
    stage.broker.trim(&"build".into()).await.unwrap();
    let rest = pull(&mut reader, "w2", &["build"], COUNT).await;
    assert_eq!(data(&rest), (600..COUNT).map(|n| n.to_string()).collect::<Vec<_>>());
}

async fn queues_are_counted(mut stage: Stage) {
    assert!(stage.broker.queues().await.unwrap().is_empty());
    let mut reader = opened(&stage, &["test", "build"]).await;
    dispatch(&*stage.broker, "t1", 1, (0..5).map(|n| task("build", &n.to_string())).collect()).await;
    let pulled = pull(&mut reader, "w1", &["build"], 2).await;
    let before = stage.look().await;
    stage.broker.add_dead_letter(&letter("build", "x")).await.unwrap();
    stage.assert_changed(&before, &["queue build", "dead build"], &["goalmill:dead:build"]).await;
    let state = |agent_type: &str, waiting, pending, dead_letters| QueueState {
        agent_type: agent_type.into(),
        waiting,
        pending,
        dead_letters,
        wrong_type: None,
    };
    assert_eq!(stage.broker.queues().await.unwrap(), [state("build", 3, 2, 1), state("test", 0, 0, 0)]);
    let done = Commit { acknowledged: vec![lease("build", &pulled[0].entry)], ..commit("t1", 2) };
    assert_eq!(stage.broker.commit(&done).await.unwrap(), Committed::Applied);
    assert_eq!(stage.broker.queues().await.unwrap()[0], state("build", 3, 1, 1));
    stage.broker.register(&goalmill_common::agent::Agent::named("ship".into())).await.unwrap();
    assert_eq!(stage.broker.queues().await.unwrap()[1], state("ship", 0, 0, 0), "a registered type is listed");
}

async fn opened(stage: &Stage, agent_types: &[&str]) -> Box<dyn goalmill_broker::Reader> {
    own(&*stage.broker, S0, "t1").await;
    for agent_type in agent_types {
        stage.broker.open_queue(&AgentType::from(*agent_type)).await.unwrap();
    }
    stage.broker.reader().await.unwrap()
}

async fn pull(
    reader: &mut Box<dyn goalmill_broker::Reader>,
    worker: &str,
    agent_types: &[&str],
    count: usize,
) -> Vec<Delivery> {
    let agent_types: Vec<AgentType> = agent_types.iter().map(|t| AgentType::from(*t)).collect();
    reader.pull(&worker.into(), &agent_types, count, 0).await.unwrap()
}

fn data(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| String::from_utf8(delivery.data.clone()).unwrap()).collect()
}
