//! A submission is seen at least once, until it is acknowledged.

use goalmill_broker::{Entry, InboxCursor};
use goalmill_common::id::EntryId;

use crate::make::{S0, S1, after, fields, submission};
use crate::stage::Stage;

on_both_back_ends! {
    a_submission_is_appended_and_read_once_by_one_scheduler,
    what_a_scheduler_took_it_gets_again_after_a_restart,
    what_a_scheduler_read_again_is_fresh_again,
    a_submission_of_a_lost_scheduler_is_reclaimed_after_the_idle_time_and_not_before,
    an_acknowledged_submission_is_gone_for_good,
    acknowledging_never_drops_what_is_still_needed,
    submissions_keep_fields_order_and_bytes,
    answers_are_kept_for_a_day_and_read_in_the_order_asked,
    the_inbox_is_read_from_any_place,
}

const GOALS: &str = "goalmill:goals";

async fn a_submission_is_appended_and_read_once_by_one_scheduler(mut stage: Stage) {
    let before = stage.look().await;
    let first = stage.broker.submit(&submission("r1")).await.unwrap();
    let second = stage.broker.submit(&submission("r2")).await.unwrap();
    assert!(first.parts() < second.parts());
    stage.assert_changed(&before, &[], &[GOALS]).await;
    let (mut one, mut two) = (stage.broker.reader().await.unwrap(), stage.broker.reader().await.unwrap());
    let taken = one.submissions("one", 1, 0).await.unwrap();
    assert_eq!(taken, [Entry { id: first, fields: submission("r1") }]);
    let rest = two.submissions("two", 10, 0).await.unwrap();
    assert_eq!(rest, [Entry { id: second, fields: submission("r2") }]);
    assert!(one.submissions("one", 10, 0).await.unwrap().is_empty());
}

async fn what_a_scheduler_took_it_gets_again_after_a_restart(stage: Stage) {
    for id in ["r1", "r2", "r3"] {
        stage.broker.submit(&submission(id)).await.unwrap();
    }
    let taken = stage.broker.reader().await.unwrap().submissions("one", 2, 0).await.unwrap();
    let mut again = stage.broker.reader().await.unwrap();
    assert_eq!(again.submissions("one", 10, 0).await.unwrap(), taken);
    let new = again.submissions("one", 10, 0).await.unwrap();
    assert_eq!(names(&new), ["r3"]);
    assert!(again.submissions("one", 10, 0).await.unwrap().is_empty(), "only the first read looks back");
}

async fn what_a_scheduler_read_again_is_fresh_again(mut stage: Stage) {
    stage.broker.submit(&submission("r1")).await.unwrap();
    for _ in 0..3 {
        let mut reader = stage.broker.reader().await.unwrap();
        assert_eq!(names(&reader.submissions("one", 10, 0).await.unwrap()), ["r1"]);
        assert!(stage.broker.reclaim_submissions("two", 60_000, 10).await.unwrap().is_empty());
        stage.later(61_000).await;
    }
    assert_eq!(names(&stage.broker.reclaim_submissions("two", 60_000, 10).await.unwrap()), ["r1"]);
}

async fn a_submission_of_a_lost_scheduler_is_reclaimed_after_the_idle_time_and_not_before(mut stage: Stage) {
    for id in ["r1", "r2", "r3"] {
        stage.broker.submit(&submission(id)).await.unwrap();
    }
    let mut lost = stage.broker.reader().await.unwrap();
    assert_eq!(lost.submissions("lost", 2, 0).await.unwrap().len(), 2);
    let before = stage.look().await;
    assert!(stage.broker.reclaim_submissions("two", 60_000, 10).await.unwrap().is_empty());
    stage.assert_unchanged(&before).await;
    stage.later(61_000).await;
    let reclaimed = stage.broker.reclaim_submissions("two", 60_000, 10).await.unwrap();
    assert_eq!(names(&reclaimed), ["r1", "r2"], "r3 was never taken");
    stage.assert_changed(&before, &[], &[GOALS]).await;
    assert!(stage.broker.reclaim_submissions("three", 60_000, 10).await.unwrap().is_empty(), "it is fresh again");
    let mut two = stage.broker.reader().await.unwrap();
    assert_eq!(names(&two.submissions("two", 10, 0).await.unwrap()), ["r1", "r2"]);
    let mut lost = stage.broker.reader().await.unwrap();
    assert_eq!(names(&lost.submissions("lost", 10, 0).await.unwrap()), ["r3"]);
}

async fn an_acknowledged_submission_is_gone_for_good(mut stage: Stage) {
    for id in ["r1", "r2"] {
        stage.broker.submit(&submission(id)).await.unwrap();
    }
    let taken = stage.broker.reader().await.unwrap().submissions("one", 10, 0).await.unwrap();
    stage.broker.acknowledge_submissions(std::slice::from_ref(&taken[0].id)).await.unwrap();
    let before = stage.look().await;
    stage.broker.acknowledge_submissions(std::slice::from_ref(&taken[0].id)).await.unwrap();
    stage.broker.acknowledge_submissions(&["1-1".into()]).await.unwrap();
    stage.broker.acknowledge_submissions(&[]).await.unwrap();
    stage.assert_unchanged(&before).await;
    stage.later(61_000).await;
    assert_eq!(names(&stage.broker.reclaim_submissions("two", 60_000, 10).await.unwrap()), ["r2"]);
}

async fn acknowledging_never_drops_what_is_still_needed(stage: Stage) {
    const COUNT: usize = 1_000;
    for n in 0..COUNT {
        stage.broker.submit(&submission(&format!("n{n}"))).await.unwrap();
    }
    let mut reader = stage.broker.reader().await.unwrap();
    let taken = reader.submissions("one", COUNT / 2, 0).await.unwrap();
    let done: Vec<EntryId> = taken.iter().skip(1).map(|entry| entry.id.clone()).collect();
    stage.broker.acknowledge_submissions(&done).await.unwrap();
    let mut restarted = stage.broker.reader().await.unwrap();
    assert_eq!(restarted.submissions("one", COUNT, 0).await.unwrap(), taken[..1], "the oldest one is still there");
    stage.broker.acknowledge_submissions(std::slice::from_ref(&taken[0].id)).await.unwrap();
    let rest = reader.submissions("one", COUNT, 0).await.unwrap();
    assert_eq!(rest.len(), COUNT / 2, "and so are those that nobody has taken");
}

async fn submissions_keep_fields_order_and_bytes(stage: Stage) {
    let odd = vec![
        ("id".to_string(), b"r1".to_vec()),
        ("z".to_string(), (0..=255).collect()),
        ("a".to_string(), Vec::new()),
        ("z".to_string(), b"twice".to_vec()),
        ("größe ✓".to_string(), vec![7; 100_000]),
    ];
    stage.broker.submit(&odd).await.unwrap();
    stage.broker.send(S0, &odd).await.unwrap();
    let mut reader = stage.broker.reader().await.unwrap();
    assert_eq!(reader.submissions("one", 10, 0).await.unwrap()[0].fields, odd);
    assert_eq!(reader.inbox(S0, &InboxCursor::start(), 10, 0).await.unwrap()[0].fields, odd);
}

async fn answers_are_kept_for_a_day_and_read_in_the_order_asked(mut stage: Stage) {
    let before = stage.look().await;
    let answers = [("r1".to_string(), "{\"plan_id\":\"p0-a\"}".to_string()), ("r2".to_string(), "✓".to_string())];
    stage.broker.answer(&answers).await.unwrap();
    stage.assert_changed(&before, &["answer r1", "answer r2"], &["goalmill:answers:r1", "goalmill:answers:r2"]).await;
    let ids = ["r2", "none", "r1", "r2"].map(String::from);
    let read = stage.broker.answers(&ids).await.unwrap();
    let expected = [Some("✓"), None, Some("{\"plan_id\":\"p0-a\"}"), Some("✓")];
    assert_eq!(read, expected.map(|answer| answer.map(String::from)));
    assert!(stage.broker.answers(&[]).await.unwrap().is_empty());
    stage.broker.answer(&[]).await.unwrap();

    stage.later(12 * 3_600_000).await;
    stage.broker.answer(&[("r2".into(), "later".into())]).await.unwrap();
    stage.later(13 * 3_600_000).await;
    let read = stage.broker.answers(&ids).await.unwrap();
    assert_eq!(read, [Some("later"), None, None, Some("later")].map(|answer| answer.map(String::from)));
}

async fn the_inbox_is_read_from_any_place(mut stage: Stage) {
    let before = stage.look().await;
    for n in ["1", "2", "3", "4"] {
        stage.broker.send(S0, &fields(&[("v", "1"), ("data", n)])).await.unwrap();
    }
    stage.assert_changed(&before, &["inbox 0"], &["goalmill:{s0}:reports"]).await;
    let mut reader = stage.broker.reader().await.unwrap();
    let all = reader.inbox(S0, &InboxCursor::start(), 10, 0).await.unwrap();
    let data: Vec<&[u8]> = all.iter().map(|entry| entry.fields[1].1.as_slice()).collect();
    assert_eq!(data, [b"1", b"2", b"3", b"4"]);
    assert_eq!(reader.inbox(S0, &after(&all[0]), 2, 0).await.unwrap(), all[1..3]);
    assert_eq!(reader.inbox(S0, &after(&all[0]), 2, 0).await.unwrap(), all[1..3], "reading changes nothing");
    assert!(reader.inbox(S0, &after(&all[3]), 2, 0).await.unwrap().is_empty());
    assert!(reader.inbox(S1, &InboxCursor::start(), 2, 0).await.unwrap().is_empty());
}

fn names(entries: &[Entry]) -> Vec<String> {
    let id = |entry: &Entry| entry.fields.iter().find(|(name, _)| name == "id").unwrap().1.clone();
    entries.iter().map(|entry| String::from_utf8(id(entry)).unwrap()).collect()
}
