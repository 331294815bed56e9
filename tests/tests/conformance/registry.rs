//! Workers and agents, broadcasts, dead letters, blobs.

use goalmill_broker::{Broadcast, Commit, Committed};
use goalmill_common::agent::{Agent, WorkerBeat};
use goalmill_common::id::AttemptToken;
use goalmill_common::keys::Keys;

use crate::make::{S0, commit, dispatch, lease, letter, own, task};
use crate::stage::Stage;

on_both_back_ends! {
    an_agent_type_that_nothing_uses_can_be_removed,
    an_agent_type_is_registered_changed_and_announced,
    a_worker_is_seen_until_it_is_silent_or_says_good_bye,
    a_worker_is_live_for_four_of_its_own_heartbeats,
    schedulers_see_one_another,
    a_cancellation_is_said_to_all_and_remembered_for_a_day,
    a_worker_is_asked_to_drain_until_it_says_good_bye,
    a_queue_is_paused_until_it_is_resumed,
    dead_letters_are_listed_newest_first,
    a_dead_letter_is_discarded_once,
    a_blob_is_kept_for_its_time,
    a_blob_is_removed_before_its_time,
    fields_of_a_hash_stay_until_they_are_removed,
    a_result_is_kept_under_its_word_until_its_time_is_over,
}

async fn an_agent_type_is_registered_changed_and_announced(mut stage: Stage) {
    let mut reader = stage.broker.reader().await.unwrap();
    assert!(reader.messages(60_000).await.unwrap().is_empty(), "the first call subscribes");
    let before = stage.look().await;
    let mut agent = Agent::named("build".into());
    agent.capabilities = vec!["compile ✓".into()];
    agent.latency_ms = Some(7);
    stage.broker.register(&agent).await.unwrap();
    stage.assert_changed(&before, &["agent build", "queue build"], &[&Keys::default().agents()]).await;
    assert_eq!(reader.messages(60_000).await.unwrap(), [Broadcast::AgentsChanged("build".into())]);

    agent.cost = 0.25;
    stage.broker.register(&agent).await.unwrap();
    stage.broker.register(&Agent::named("alpha".into())).await.unwrap();
    assert_eq!(stage.broker.agents().await.unwrap().agents, [Agent::named("alpha".into()), agent]);
}

async fn a_worker_is_seen_until_it_is_silent_or_says_good_bye(mut stage: Stage) {
    let before = stage.look().await;
    stage.broker.record_worker_heartbeat(&beat("w1", 0)).await.unwrap();
    stage.assert_changed(&before, &["worker w1"], &[&Keys::default().workers(), &Keys::default().worker_beats()]).await;
    let time = stage.broker.check_health().await.unwrap().time_ms;
    let seen = stage.broker.workers(60_000).await.unwrap();
    assert!(seen[0].seen_ms <= time && seen[0].seen_ms + 60_000 > time, "the time is the back end's: {seen:?}");
    assert_eq!(seen, [WorkerBeat { seen_ms: seen[0].seen_ms, ..beat("w1", 0) }]);

    stage.later(30_000).await;
    stage.broker.record_worker_heartbeat(&beat("w2", 1)).await.unwrap();
    stage.broker.record_worker_heartbeat(&beat("w2", 2)).await.unwrap();
    let busy = async |stage: &Stage, within| -> Vec<(String, u32)> {
        let seen = stage.broker.workers(within).await.unwrap();
        seen.into_iter().map(|beat| (beat.worker.to_string(), beat.busy)).collect()
    };
    assert_eq!(busy(&stage, 60_000).await, [("w1".into(), 0), ("w2".into(), 2)]);
    assert_eq!(busy(&stage, 15_000).await, [("w2".into(), 2)]);
    let before = stage.look().await;
    stage.broker.deregister_worker(&"w2".into()).await.unwrap();
    stage.broker.deregister_worker(&"w9".into()).await.unwrap();
    stage.assert_changed(&before, &["worker w2"], &[&Keys::default().workers(), &Keys::default().worker_beats()]).await;
    assert_eq!(busy(&stage, 60_000).await, [("w1".into(), 0)]);
}

async fn a_worker_is_live_for_four_of_its_own_heartbeats(mut stage: Stage) {
    let slow = WorkerBeat { heartbeat_ms: Some(120_000), ..beat("slow", 0) };
    let quick = WorkerBeat { heartbeat_ms: Some(15_000), ..beat("quick", 0) };
    let silent = WorkerBeat { heartbeat_ms: Some(u64::MAX), ..beat("silent", 0) };
    for beat in [&slow, &quick, &silent, &beat("untold", 0)] {
        stage.broker.record_worker_heartbeat(beat).await.unwrap();
    }
    let live = async |stage: &Stage| -> Vec<String> {
        let seen = stage.broker.workers(240_000).await.unwrap();
        seen.into_iter().map(|beat| beat.worker.to_string()).collect()
    };
    assert_eq!(live(&stage).await, ["quick", "silent", "slow", "untold"]);
    stage.later(100_000).await;
    assert_eq!(live(&stage).await, ["silent", "slow", "untold"]);
    stage.later(200_000).await;
    assert_eq!(live(&stage).await, ["silent", "slow"]);
    stage.later(220_000).await;
    assert_eq!(live(&stage).await, ["silent"]);
    stage.later(100_000).await;
    assert_eq!(live(&stage).await, [""; 0], "whatever it says of itself");
}

async fn schedulers_see_one_another(mut stage: Stage) {
    let before = stage.look().await;
    assert_eq!(stage.broker.record_scheduler_heartbeat("two", 1, 60_000).await.unwrap().sharing, ["two"]);
    stage.assert_changed(&before, &[], &[&Keys::default().schedulers(), &Keys::default().scheduler_formats()]).await;
    assert_eq!(stage.broker.record_scheduler_heartbeat("one", 1, 60_000).await.unwrap().sharing, ["one", "two"]);
    stage.later(61_000).await;
    assert_eq!(stage.broker.record_scheduler_heartbeat("three", 1, 60_000).await.unwrap().sharing, ["three"]);
    assert_eq!(stage.broker.record_scheduler_heartbeat("two", 1, 60_000).await.unwrap().sharing, ["three", "two"]);
    stage.broker.deregister_scheduler("three").await.unwrap();
    stage.broker.deregister_scheduler("four").await.unwrap();
    assert_eq!(stage.broker.record_scheduler_heartbeat("two", 1, 60_000).await.unwrap().sharing, ["two"]);
}

async fn a_cancellation_is_said_to_all_and_remembered_for_a_day(mut stage: Stage) {
    let (mut one, mut two) = (stage.broker.reader().await.unwrap(), stage.broker.reader().await.unwrap());
    for reader in [&mut one, &mut two] {
        assert!(reader.messages(0).await.unwrap().is_empty());
    }
    let tokens = ["a1", "a2"].map(AttemptToken::from);
    let before = stage.look().await;
    stage.broker.cancel(&[]).await.unwrap();
    stage.assert_unchanged(&before).await;
    stage.broker.cancel(&tokens).await.unwrap();
    stage.assert_changed(&before, &["cancelled"], &[&Keys::default().cancelled()]).await;
    for reader in [&mut one, &mut two] {
        assert_eq!(reader.messages(60_000).await.unwrap(), [Broadcast::Cancel(tokens.to_vec())]);
    }
    assert!(one.messages(0).await.unwrap().is_empty(), "said once");

    stage.later(24 * 3_600_000).await;
    stage.broker.cancel(&["a0".into(), "a2".into()]).await.unwrap();
    assert_eq!(stage.broker.cancelled().await.unwrap(), ["a1", "a0", "a2"].map(AttemptToken::from));
    stage.later(2 * 3_600_000).await;
    assert_eq!(stage.broker.cancelled().await.unwrap(), ["a0", "a2"].map(AttemptToken::from));
}

async fn a_worker_is_asked_to_drain_until_it_says_good_bye(mut stage: Stage) {
    let (one, two) = ("w1".into(), "w2".into());
    let before = stage.look().await;
    stage.broker.request_drain(&one).await.unwrap();
    stage.broker.request_drain(&one).await.unwrap();
    stage.assert_changed(&before, &["drain w1"], &[&Keys::default().drain_request(&one)]).await;
    assert!(stage.broker.drain_requested(&one).await.unwrap() && !stage.broker.drain_requested(&two).await.unwrap());
    stage.broker.deregister_worker(&one).await.unwrap();
    stage.assert_unchanged(&before).await;
    stage.broker.request_drain(&two).await.unwrap();
    stage.later(25 * 3_600_000).await;
    assert!(!stage.broker.drain_requested(&two).await.unwrap(), "it is forgotten after a day");
}

async fn a_queue_is_paused_until_it_is_resumed(mut stage: Stage) {
    let (build, test) = ("build".into(), "test".into());
    let before = stage.look().await;
    stage.broker.pause_queue(&test, false).await.unwrap();
    stage.assert_unchanged(&before).await;
    stage.broker.pause_queue(&build, true).await.unwrap();
    stage.broker.pause_queue(&build, true).await.unwrap();
    stage.assert_changed(&before, &["paused"], &[&Keys::default().queues_paused()]).await;
    assert_eq!(stage.broker.paused_queues().await.unwrap(), [build.clone()].into());
    stage.broker.pause_queue(&build, false).await.unwrap();
    stage.assert_unchanged(&before).await;
}

async fn a_dead_letter_is_discarded_once(mut stage: Stage) {
    let build = "build".into();
    for step in ["one", "two", "three"] {
        stage.broker.add_dead_letter(&letter("build", step)).await.unwrap();
    }
    let two = stage.broker.dead_letters(&build, 2).await.unwrap()[1].0.clone();
    let before = stage.look().await;
    for (agent_type, entry) in [("test", two.as_str()), ("build", "1-1"), ("build", "no id")] {
        assert!(!stage.broker.discard_dead_letter(&agent_type.into(), &entry.into()).await.unwrap());
    }
    stage.assert_unchanged(&before).await;
    assert!(stage.broker.discard_dead_letter(&build, &two).await.unwrap());
    stage.assert_changed(&before, &["dead build"], &[&Keys::default().dead_letters(&build)]).await;
    assert!(!stage.broker.discard_dead_letter(&build, &two).await.unwrap());
    let left: Vec<_> = stage.broker.dead_letters(&build, 9).await.unwrap().into_iter().map(|(_, l)| l.step).collect();
    assert_eq!(left, ["three", "one"]);
}

async fn dead_letters_are_listed_newest_first(stage: Stage) {
    for step in ["one", "two", "three"] {
        stage.broker.add_dead_letter(&letter("build", step)).await.unwrap();
    }
    let build = "build".into();
    let listed = stage.broker.dead_letters(&build, 2).await.unwrap();
    assert!(listed[0].0.parts() > listed[1].0.parts());
    let letters: Vec<_> = listed.into_iter().map(|(_, letter)| letter).collect();
    assert_eq!(letters, [letter("build", "three"), letter("build", "two")]);
    assert_eq!(stage.broker.dead_letters(&build, 9).await.unwrap().len(), 3);
    assert!(stage.broker.dead_letters(&"test".into(), 9).await.unwrap().is_empty());
}

async fn a_blob_is_kept_for_its_time(mut stage: Stage) {
    let (one, two) = (Keys::default().blob(S0, "k1"), Keys::default().blob(S0, "k2"));
    let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let before = stage.look().await;
    stage.broker.put_blob(&one, &bytes, 60_000).await.unwrap();
    stage.assert_changed(&before, &["blob k1"], &[&one]).await;
    stage.broker.put_blob(&two, &[], 600_000).await.unwrap();
    assert_eq!(stage.broker.get_blob(&one).await.unwrap(), Some(bytes));
    assert_eq!(stage.broker.get_blob(&two).await.unwrap(), Some(Vec::new()));
    stage.later(30_000).await;
    stage.broker.put_blob(&two, b"new", 20_000).await.unwrap();
    stage.later(31_000).await;
    assert_eq!(stage.broker.get_blob(&one).await.unwrap(), None);
    assert_eq!(stage.broker.get_blob(&two).await.unwrap(), None, "the later time counts");
}

async fn a_blob_is_removed_before_its_time(mut stage: Stage) {
    let (one, two) = (Keys::default().blob(S0, "k1"), Keys::default().blob(S0, "k2"));
    stage.broker.put_blob(&one, b"1", 60_000).await.unwrap();
    stage.broker.put_blob(&two, b"2", 60_000).await.unwrap();
    let before = stage.look().await;
    stage.broker.remove_blob(&one).await.unwrap();
    stage.assert_changed(&before, &["blob k1"], &[&one]).await;
    stage.broker.remove_blob(&one).await.unwrap();
    assert_eq!(stage.broker.get_blob(&one).await.unwrap(), None);
    stage.broker.put_blob(&one, b"3", 600_000).await.unwrap();
    stage.later(61_000).await;
    assert_eq!(stage.broker.get_blob(&one).await.unwrap(), Some(b"3".to_vec()), "the time of the first one is over");
    assert_eq!(stage.broker.get_blob(&two).await.unwrap(), None);
}

async fn fields_of_a_hash_stay_until_they_are_removed(mut stage: Stage) {
    let (tokens, used) = (Keys::default().tokens(), Keys::default().tokens_used());
    assert!(stage.broker.fields(&tokens).await.unwrap().is_empty());
    let before = stage.look().await;
    stage.broker.put_field(&tokens, "b", "✓ 2").await.unwrap();
    stage.broker.put_field(&tokens, "a", "").await.unwrap();
    stage.assert_changed(&before, &["tokens"], &[&tokens]).await;
    stage.broker.put_field(&used, "b", "7").await.unwrap();
    stage.broker.put_field(&tokens, "a", "1").await.unwrap();
    stage.later(90_000_000).await;
    let all = stage.broker.fields(&tokens).await.unwrap();
    assert_eq!(all, [("a".into(), "1".into()), ("b".into(), "✓ 2".into())].into());
    assert_eq!(stage.broker.get_field(&tokens, "b").await.unwrap().as_deref(), Some("✓ 2"));
    assert_eq!(stage.broker.get_field(&tokens, "c").await.unwrap(), None);
    let before = stage.look().await;
    assert!(!stage.broker.add_field(&tokens, "a", "2").await.unwrap());
    stage.assert_changed(&before, &[], &[]).await;
    assert!(stage.broker.add_field(&tokens, "c", "3").await.unwrap());
    assert_eq!(stage.broker.get_field(&tokens, "a").await.unwrap().as_deref(), Some("1"));
    assert!(stage.broker.remove_field(&tokens, "c").await.unwrap());
    let before = stage.look().await;
    assert!(stage.broker.remove_field(&tokens, "b").await.unwrap());
    stage.assert_changed(&before, &["tokens"], &[&tokens]).await;
    assert!(!stage.broker.remove_field(&tokens, "b").await.unwrap());
    assert_eq!(stage.broker.get_field(&tokens, "b").await.unwrap(), None);
    assert_eq!(stage.broker.fields(&used).await.unwrap(), [("b".into(), "7".into())].into());
}

async fn a_result_is_kept_under_its_word_until_its_time_is_over(mut stage: Stage) {
    let before = stage.look().await;
    assert_eq!(stage.broker.cache_get("word").await.unwrap(), None);
    stage.broker.cache_put("word", r#"{"x":"ü"}"#, 60_000).await.unwrap();
    stage.assert_changed(&before, &[], &["goalmill:cache:word"]).await;
    assert_eq!(stage.broker.cache_get("word").await.unwrap().as_deref(), Some(r#"{"x":"ü"}"#));
    stage.broker.cache_put("word", "{}", 60_000).await.unwrap();
    assert_eq!(stage.broker.cache_get("word").await.unwrap().as_deref(), Some("{}"), "the last one counts");
    assert_eq!(stage.broker.cache_get("other").await.unwrap(), None);
    stage.later(61_000).await;
    assert_eq!(stage.broker.cache_get("word").await.unwrap(), None);
}

fn beat(worker: &str, busy: u32) -> WorkerBeat {
    WorkerBeat {
        worker: worker.into(),
        agents: vec!["build".into()],
        slots: 4,
        busy,
        draining: false,
        version: "0.1.0".into(),
        host: "häuschen".into(),
        started_ms: 5,
        seen_ms: 1,
        heartbeat_ms: None,
    }
}

async fn an_agent_type_that_nothing_uses_can_be_removed(stage: Stage) {
    let broker = &stage.broker;
    for agent_type in ["bare", "described", "busy", "buried"] {
        broker.open_queue(&agent_type.into()).await.unwrap();
        broker.register(&Agent::named(agent_type.into())).await.unwrap();
    }
    let card = Agent { description: "what a person wrote".into(), ..Agent::named("described".into()) };
    broker.register(&card).await.unwrap();
    broker.add_dead_letter(&letter("buried", "poisoned")).await.unwrap();
    own(&**broker, S0, "t1").await;
    dispatch(&**broker, "t1", 1, vec![task("busy", "one")]).await;
    for kept in ["described", "busy", "buried", "never_heard_of"] {
        assert!(!broker.remove_agent_type(&kept.into(), 0).await.unwrap(), "{kept}");
    }
    let mut reader = broker.reader().await.unwrap();
    let taken = reader.pull(&"w".into(), &["busy".into()], 1, 0).await.unwrap();
    assert!(!broker.remove_agent_type(&"busy".into(), 0).await.unwrap(), "a worker has its task");
    let acknowledged = vec![lease("busy", &taken[0].entry)];
    let done = Commit { acknowledged, ..commit("t1", 2) };
    assert_eq!(broker.commit(&done).await.unwrap(), Committed::Applied);
    assert!(!broker.remove_agent_type(&"busy".into(), 3_600_000).await.unwrap(), "it had a task lately");
    assert!(broker.remove_agent_type(&"bare".into(), 3_600_000).await.unwrap());
    assert!(!broker.remove_agent_type(&"bare".into(), 3_600_000).await.unwrap());
    let queues: Vec<String> = broker.queues().await.unwrap().into_iter().map(|q| q.agent_type.to_string()).collect();
    assert_eq!(queues, ["buried", "busy", "described"]);
}
