//! The suite: each scenario gets an empty store.

use std::collections::BTreeMap;

use goalmill_archive::{
    ArchiveBatch, ArchiveStore, ArchivedEvent, BlobRow, DataConditions, EventPosition, EventRow, EventSearch, PlanPart,
    PlanPosition, PlanRow, PlanSelection, PrunedRows, RevisionRow, StepRow,
};
use goalmill_common::id::{Namespace, PlanId, ShardId};

/// Calls a macro with the names of all scenarios, so that no store leaves one out.
macro_rules! with_all_scenarios {
    ($run:ident) => {
        $run! {
            a_plan_is_read_as_it_was_written,
            an_unknown_plan_has_nothing,
            a_log_is_read_in_commits,
            a_batch_written_again_changes_nothing,
            a_copy_that_did_not_end_is_begun_again,
            a_plan_that_ran_again_replaces_the_one_before,
            a_batch_that_fails_writes_nothing,
            plans_are_listed_last_changed_first,
            events_are_found_by_every_condition,
            events_are_found_by_their_data,
            pages_of_a_search_meet,
            plans_are_selected_read_whole_and_pruned,
            large_payloads_are_stored_once_and_go_with_their_last_plan,
            payloads_of_a_copy_that_did_not_end_are_replaced,
        }
    };
}
pub(crate) use with_all_scenarios;

pub const S0: ShardId = ShardId(0);
pub const S1: ShardId = ShardId(1);

/// Events of a plan, in commits of two: number, time in milliseconds and data of each.
pub fn events(from: u64, to: u64, data: &str) -> Vec<EventRow> {
    let event = |seq: u64| {
        let (event_type, step) = if seq == 1 { ("goal_accepted", None) } else { ("step_completed", Some("a")) };
        let about = step.map(|step| format!(r#","step_id":"{step}","attempt":1"#)).unwrap_or_default();
        EventRow {
            seq,
            entry: seq.div_ceil(2) * 2,
            time_ms: 1_000 + seq.div_ceil(2) * 10,
            event_type,
            step: step.map(Into::into),
            phase: (seq > 2).then(|| "one".to_owned()),
            line: format!(r#"{{"seq":{seq},"type":"{event_type}"{about},"data":{data}}}"#),
        }
    };
    (from..=to).map(event).collect()
}

pub fn end(events: u64, finished_ms: u64) -> PlanRow {
    PlanRow {
        namespace: Namespace::default(),
        status: "completed".into(),
        name: "a plan".into(),
        revision: 1,
        events,
        created_ms: 1_000,
        finished_ms,
        summary: BTreeMap::from([("status".into(), "completed".into()), ("seq".into(), events.to_string())]),
        steps: vec![StepRow {
            step: "a".into(),
            agent_type: "hotel_agent".into(),
            action: String::new(),
            status: "completed".into(),
            attempts: 1,
            phase: None,
            started_ms: Some(1_001),
            finished_ms: None,
        }],
        revisions: vec![RevisionRow { revision: 1, time_ms: 1_005, trigger: "edit".into(), data: "{}".into() }],
    }
}

/// A whole plan of four events with this data, which changed last at `changed_ms`.
pub fn plan(id: &str, changed_ms: u64, data: &str) -> PlanPart {
    let end = Some(end(4, changed_ms));
    PlanPart { plan: id.into(), changed_ms, is_first: true, events: events(1, 4, data), blobs: Vec::new(), end }
}

pub async fn append(store: &dyn ArchiveStore, shard: ShardId, position_ms: u64, parts: Vec<PlanPart>) {
    store.append(&ArchiveBatch { shard, parts, position_ms }).await.expect("the batch is written");
}

async fn seqs(store: &dyn ArchiveStore, plan: &str, after: u64, limit: usize) -> Vec<u64> {
    let log = store.log(&plan.into(), after, limit).await.expect("the log is read");
    log.iter().map(|event| event.position.seq).collect()
}

async fn found(store: &dyn ArchiveStore, search: &EventSearch, limit: usize) -> Vec<String> {
    let found = store.search(search, limit).await.expect("the search is answered");
    found.iter().map(|event| format!("{}/{}", event.position.plan, event.position.seq)).collect()
}

pub async fn a_plan_is_read_as_it_was_written(store: &dyn ArchiveStore) {
    let data = r#"{"outputs":{"b": 1.10,"a":"\u0000 Zürich","deep":[[[1e400]]]}}"#;
    append(store, S0, 7_000, vec![plan("p0-a", 5_000, data)]).await;
    let log = store.log(&"p0-a".into(), 0, 100).await.unwrap();
    let written = events(1, 4, data).into_iter().map(|event| {
        let position = EventPosition { time_ms: event.time_ms, plan: "p0-a".into(), seq: event.seq };
        ArchivedEvent { position, entry: event.entry, line: event.line }
    });
    assert_eq!(log, written.collect::<Vec<_>>(), "not a byte is changed");
    assert_eq!(store.summary(&"p0-a".into()).await.unwrap(), end(4, 5_000).summary);
    assert_eq!(store.position(S0).await.unwrap(), 7_000);
    assert_eq!(
        store.archived(&["p0-a".into(), "p0-b".into()]).await.unwrap(),
        BTreeMap::from([("p0-a".into(), 5_000)])
    );
}

pub async fn an_unknown_plan_has_nothing(store: &dyn ArchiveStore) {
    assert!(store.summary(&"p0-a".into()).await.unwrap().is_empty());
    assert!(store.log(&"p0-a".into(), 0, 9).await.unwrap().is_empty());
    assert!(store.list(S0, u64::MAX, 9).await.unwrap().is_empty());
    assert!(store.search(&EventSearch::default(), 9).await.unwrap().is_empty());
    assert!(store.archived(&["p0-a".into()]).await.unwrap().is_empty());
    assert!(store.archived(&[]).await.unwrap().is_empty());
    assert!(store.namespaces().await.unwrap().is_empty());
    assert_eq!(store.position(S0).await.unwrap(), 0);
}

pub async fn a_log_is_read_in_commits(store: &dyn ArchiveStore) {
    let all = PlanPart { events: events(1, 10, "{}"), end: Some(end(10, 5_000)), ..plan("p0-a", 5_000, "{}") };
    append(store, S0, 0, vec![all]).await;
    assert_eq!(seqs(store, "p0-a", 0, 2).await, [1, 2, 3, 4]);
    assert_eq!(seqs(store, "p0-a", 4, 1).await, [5, 6]);
    assert_eq!(seqs(store, "p0-a", 5, 1).await, [5, 6], "a commit is read whole");
    assert_eq!(seqs(store, "p0-a", 8, 9).await, [9, 10]);
    assert_eq!(seqs(store, "p0-a", 10, 9).await, [0; 0]);
}

pub async fn a_batch_written_again_changes_nothing(store: &dyn ArchiveStore) {
    for _ in 0..2 {
        append(store, S0, 5_000, vec![plan("p0-a", 5_000, "{}"), plan("p0-b", 5_001, "{}")]).await;
    }
    assert_eq!(seqs(store, "p0-a", 0, 9).await, [1, 2, 3, 4]);
    assert_eq!(found(store, &EventSearch::default(), 99).await.len(), 8);
    append(store, S0, 4_000, Vec::new()).await;
    assert_eq!(store.position(S0).await.unwrap(), 5_000, "a position never goes back");
}

pub async fn a_copy_that_did_not_end_is_begun_again(store: &dyn ArchiveStore) {
    let part = |from, to, end| PlanPart {
        is_first: from == 1,
        events: events(from, to, "{}"),
        end,
        ..plan("p0-a", 5_000, "{}")
    };
    append(store, S0, 0, vec![part(1, 4, None)]).await;
    assert!(store.archived(&["p0-a".into()]).await.unwrap().is_empty(), "it is not whole");
    assert!(store.list(S0, u64::MAX, 9).await.unwrap().is_empty());
    append(store, S0, 0, vec![part(1, 2, None)]).await;
    append(store, S0, 0, vec![part(3, 4, None), part(5, 6, Some(end(6, 5_000)))]).await;
    assert_eq!(seqs(store, "p0-a", 0, 9).await, [1, 2, 3, 4, 5, 6]);
}

pub async fn a_plan_that_ran_again_replaces_the_one_before(store: &dyn ArchiveStore) {
    append(store, S0, 0, vec![plan("p0-a", 5_000, r#"{"word":"old"}"#)]).await;
    append(store, S0, 0, vec![plan("p0-a", 6_000, r#"{"word":"new"}"#)]).await;
    let search = |word: &str| EventSearch { words: vec![word.into()], ..EventSearch::default() };
    assert!(found(store, &search("old"), 9).await.is_empty());
    assert_eq!(found(store, &search("new"), 9).await.len(), 4);
    assert_eq!(store.list(S0, u64::MAX, 9).await.unwrap(), [(PlanId::from("p0-a"), 6_000)]);
}

pub async fn a_batch_that_fails_writes_nothing(store: &dyn ArchiveStore) {
    let mut twice = plan("p0-b", 5_000, "{}");
    twice.events.extend(events(4, 4, "{}"));
    let batch = ArchiveBatch { shard: S0, parts: vec![plan("p0-a", 5_000, "{}"), twice], position_ms: 9_000 };
    store.append(&batch).await.expect_err("an event is there twice");
    assert!(store.archived(&["p0-a".into()]).await.unwrap().is_empty());
    assert!(store.log(&"p0-a".into(), 0, 9).await.unwrap().is_empty());
    assert_eq!(store.position(S0).await.unwrap(), 0);
}

pub async fn plans_are_listed_last_changed_first(store: &dyn ArchiveStore) {
    let parts = [("p0-a", 30), ("p0-b", 10), ("p0-c", 20), ("p0-d", 20)];
    append(store, S0, 0, parts.map(|(id, at)| plan(id, at, "{}")).into()).await;
    append(store, S1, 0, vec![plan("p1-a", 40, "{}")]).await;
    let listed = async |before, limit| -> Vec<String> {
        let plans = store.list(S0, before, limit).await.unwrap();
        plans.into_iter().map(|(id, at)| format!("{id}@{at}")).collect()
    };
    assert_eq!(listed(u64::MAX, 10).await, ["p0-a@30", "p0-d@20", "p0-c@20", "p0-b@10"]);
    assert_eq!(listed(30, 2).await, ["p0-d@20", "p0-c@20"]);
    assert!(listed(10, 10).await.is_empty());
}

pub async fn events_are_found_by_every_condition(store: &dyn ArchiveStore) {
    append(store, S0, 0, vec![plan("p0-a", 5_000, r#"{"outputs":{"city":"Zürich","price":120}}"#)]).await;
    let other = PlanRow { namespace: "other".into(), ..end(4, 5_000) };
    append(store, S1, 0, vec![PlanPart { end: Some(other), ..plan("p1-b", 5_000, r#"{"note":"rain"}"#) }]).await;
    let all = EventSearch::default;
    assert_eq!(found(store, &all(), 3).await, ["p1-b/4", "p1-b/3", "p0-a/4"], "newest first, then by plan and number");
    assert_eq!(found(store, &EventSearch { plan: Some("p0-a".into()), ..all() }, 9).await.len(), 4);
    let step = EventSearch { step: Some("a".into()), plan: Some("p0-a".into()), ..all() };
    assert_eq!(found(store, &step, 9).await, ["p0-a/4", "p0-a/3", "p0-a/2", "p0-a/1"], "and events without a step");
    assert!(found(store, &EventSearch { step: Some("b".into()), ..all() }, 9).await.len() == 2);
    let phase = EventSearch { phase: Some("one".into()), ..all() };
    assert_eq!(found(store, &phase, 9).await, ["p1-b/4", "p1-b/3", "p0-a/4", "p0-a/3"]);
    let types = EventSearch { types: vec!["goal_accepted".into(), "plan_failed".into()], ..all() };
    assert_eq!(found(store, &types, 9).await, ["p1-b/1", "p0-a/1"]);
    let words = |words: &[&str]| EventSearch { words: words.iter().map(ToString::to_string).collect(), ..all() };
    assert_eq!(found(store, &words(&["zürich", "120"]), 9).await.len(), 4);
    assert_eq!(found(store, &words(&["zürich", "rain"]), 9).await.len(), 0);
    assert_eq!(found(store, &words(&["city"]), 9).await.len(), 0, "names of fields are no words");
    assert_eq!(found(store, &EventSearch { since_ms: 1_020, ..all() }, 9).await.len(), 4);
    let namespace = EventSearch { namespace: Some("other".into()), ..all() };
    assert_eq!(found(store, &namespace, 9).await, ["p1-b/4", "p1-b/3", "p1-b/2", "p1-b/1"]);
}

pub async fn events_are_found_by_their_data(store: &dyn ArchiveStore) {
    let many: Vec<String> = (0..3_000).map(|n| format!("w{n}")).collect();
    let data = [
        ("p0-a", r#"{"outputs":{"city":"Zürich (CH)","price":120,"rooms":[{"size":20},{"size":35}]}}"#.to_owned()),
        ("p0-b", r#"{"outputs":{"city":"Bern","price":1.2e2,"note":"Zürich (CH)"}}"#.to_owned()),
        ("p0-c", format!(r#"{{"outputs":{{"a":"{}","city":"Zürich (CH)"}}}}"#, many.join(" "))),
    ];
    append(store, S0, 0, data.map(|(id, data)| plan(id, 5_000, &data)).into()).await;
    let plans = async |text: &str| -> Vec<String> {
        let conditions = DataConditions::parse(text).expect("they are conditions");
        let search = EventSearch {
            conditions: conditions.clone(),
            types: vec!["goal_accepted".into()],
            ..EventSearch::default()
        };
        let found = store.search(&search, 99).await.expect("the search is answered");
        // As its callers do.
        let fit = found.iter().filter(|event| conditions.hold_for(&event.line));
        fit.map(|event| event.position.plan.to_string()).collect()
    };
    assert_eq!(plans(r#"$.outputs.city == "Zürich (CH)""#).await, ["p0-c", "p0-a"], "also behind 2,000 other words");
    assert_eq!(plans("$.outputs.price == 120").await, ["p0-b", "p0-a"]);
    assert_eq!(plans("$.outputs.price == 120.0 && $.outputs.city == \"Bern\"").await, ["p0-b"]);
    assert_eq!(plans("$.outputs.rooms[*].size == 35").await, ["p0-a"]);
    assert_eq!(plans("$.outputs.rooms[0].size == 35").await, [""; 0]);
    assert_eq!(plans("$.outputs.price >= 100 && $.outputs.note").await, ["p0-b"]);
    assert_eq!(plans("$.outputs.city == \"(\"").await, [""; 0], "a text without words");
}

pub async fn pages_of_a_search_meet(store: &dyn ArchiveStore) {
    append(store, S0, 0, vec![plan("p0-a", 5_000, "{}"), plan("p0-b", 5_000, "{}")]).await;
    let whole = store.search(&EventSearch::default(), 99).await.unwrap();
    let mut pages = Vec::new();
    let mut search = EventSearch::default();
    loop {
        let page = store.search(&search, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        search.before = Some(last.position.clone());
        pages.extend(page);
    }
    assert_eq!(whole.len(), 8);
    assert_eq!(pages, whole);
}

pub async fn plans_are_selected_read_whole_and_pruned(store: &dyn ArchiveStore) {
    let mut other = plan("p0-b", 6_000, "{}");
    other.end.as_mut().expect("it is whole").namespace = Namespace::from("team");
    append(store, S0, 0, vec![plan("p0-a", 5_000, "{}"), other, plan("p0-c", 7_000, r#"{"word":"kingfisher"}"#)]).await;
    append(store, S1, 0, vec![plan("p1-a", 6_000, "{}")]).await;
    let ids = async |selection: PlanSelection, after: Option<PlanPosition>, limit| -> Vec<String> {
        let found = store.select(&selection, after.as_ref(), limit).await.expect("plans are selected");
        found.into_iter().map(|position| position.plan.to_string()).collect()
    };
    let all = PlanSelection::default;
    assert_eq!(ids(all(), None, 9).await, ["p0-a", "p0-b", "p1-a", "p0-c"]);
    let after = PlanPosition { finished_ms: 6_000, plan: "p0-b".into() };
    assert_eq!(ids(all(), Some(after), 1).await, ["p1-a"]);
    let team = || PlanSelection { namespace: Some(Namespace::from("team")), ..all() };
    assert_eq!(ids(team(), None, 9).await, ["p0-b"]);
    assert_eq!(store.namespaces().await.expect("the archive answers"), [Namespace::default(), Namespace::from("team")]);
    let old = || PlanSelection { ended_before_ms: Some(7_000), ..all() };
    assert_eq!(ids(old(), None, 9).await, ["p0-a", "p0-b", "p1-a"]);

    let whole = store.find_archived(&"p1-a".into()).await.expect("the plan is read").expect("it is archived");
    assert_eq!((whole.shard, whole.changed_ms, &whole.row), (S1, 6_000, &end(4, 6_000)));
    assert_eq!(store.find_archived(&"p0-none".into()).await.expect("the archive answers"), None);

    let pruned = store.prune(&PlanSelection { ended_before_ms: Some(7_000), ..team() }, 9).await.expect("it is pruned");
    assert_eq!(pruned, PrunedRows { plans: 1, events: 4 });
    assert_eq!(store.prune(&old(), 1).await.expect("it is pruned"), PrunedRows { plans: 1, events: 4 });
    assert_eq!(ids(all(), None, 9).await, ["p1-a", "p0-c"]);
    assert_eq!(store.find_archived(&"p0-a".into()).await.expect("the archive answers"), None);
    assert!(seqs(store, "p0-a", 0, 9).await.is_empty());
    let found = store.search(&EventSearch { words: vec!["kingfisher".into()], ..EventSearch::default() }, 9).await;
    assert_eq!(found.expect("the search is answered").len(), 4, "the words of other plans are left");
    assert_eq!(store.prune(&old(), 9).await.expect("it is pruned").plans, 1);
    assert_eq!(store.prune(&old(), 9).await.expect("nothing is left"), PrunedRows::default());
}

/// A whole plan with these payloads under these keys.
fn with_blobs(id: &str, changed_ms: u64, blobs: &[(&str, &str)]) -> PlanPart {
    let blobs = blobs.iter().map(|(key, content)| BlobRow { key: (*key).into(), content: (*content).into() });
    PlanPart { blobs: blobs.collect(), ..plan(id, changed_ms, "{}") }
}

async fn blob(store: &dyn ArchiveStore, plan: &str, key: &str) -> Option<String> {
    store.blob(&plan.into(), key).await.expect("the archive answers")
}

pub async fn large_payloads_are_stored_once_and_go_with_their_last_plan(store: &dyn ArchiveStore) {
    let big = format!(r#""\\u0000 Zürich {}""#, "x".repeat(300_000));
    let first = with_blobs("p0-a", 5_000, &[("k:1", &big), ("k:2", "[1]"), ("k:3", &big)]);
    for _ in 0..2 {
        append(store, S0, 0, vec![first.clone(), with_blobs("p0-b", 6_000, &[("k:9", &big)])]).await;
    }
    for (plan, key, content) in
        [("p0-a", "k:1", Some(big.as_str())), ("p0-a", "k:2", Some("[1]")), ("p0-b", "k:9", Some(big.as_str()))]
    {
        assert_eq!(blob(store, plan, key).await.as_deref(), content, "{plan} {key}");
    }
    assert_eq!(blob(store, "p0-b", "k:1").await, None, "a plan has only its own payloads");
    assert_eq!(store.blob_keys(&"p0-a".into(), "", 2).await.unwrap(), ["k:1", "k:2"]);
    assert_eq!(store.blob_keys(&"p0-a".into(), "k:2", 2).await.unwrap(), ["k:3"]);

    let ended_before = |ended_ms| PlanSelection { ended_before_ms: Some(ended_ms), ..PlanSelection::default() };
    store.prune(&ended_before(5_001), 9).await.expect("it is pruned");
    assert_eq!(blob(store, "p0-a", "k:1").await, None);
    assert_eq!(blob(store, "p0-b", "k:9").await.as_deref(), Some(big.as_str()), "another plan refers to it");
    store.prune(&ended_before(u64::MAX), 9).await.expect("it is pruned");
    assert_eq!(blob(store, "p0-b", "k:9").await, None);
    // What is stored again is there again.
    append(store, S0, 0, vec![with_blobs("p0-c", 7_000, &[("k:1", &big)])]).await;
    assert_eq!(blob(store, "p0-c", "k:1").await.as_deref(), Some(big.as_str()));
}

pub async fn payloads_of_a_copy_that_did_not_end_are_replaced(store: &dyn ArchiveStore) {
    let part = |blobs: &[(&str, &str)]| PlanPart { events: Vec::new(), end: None, ..with_blobs("p0-a", 5_000, blobs) };
    append(store, S0, 0, vec![part(&[("k:1", "[1]"), ("k:2", "[2]")])]).await;
    append(store, S0, 0, vec![part(&[("k:1", "[3]")])]).await;
    let rest = PlanPart { is_first: false, ..with_blobs("p0-a", 5_000, &[("k:1", "[4]"), ("k:3", "[5]")]) };
    append(store, S0, 0, vec![rest]).await;
    assert_eq!(blob(store, "p0-a", "k:1").await.as_deref(), Some("[3]"), "a reference keeps its payload");
    assert_eq!(blob(store, "p0-a", "k:2").await, None);
    assert_eq!(blob(store, "p0-a", "k:3").await.as_deref(), Some("[5]"));
}

/// Writes so many events in batches of the default size, and prints events a second and times of searches.
///
/// - `settle`: what the database does by itself some time after many writes.
pub async fn measure(store: &dyn ArchiveStore, events_max: u64, settle: impl AsyncFnOnce()) {
    const PLAN_EVENTS: u64 = 100;
    const BATCH_EVENTS: u64 = 2_000;
    let begun = tokio::time::Instant::now();
    for batch in 0..events_max / BATCH_EVENTS {
        let parts = (0..BATCH_EVENTS / PLAN_EVENTS).map(|n| {
            let number = batch * (BATCH_EVENTS / PLAN_EVENTS) + n;
            let data = format!(
                r#"{{"outputs":{{"city":"city{}","price":{number},"text":"A quiet room near the station, breakfast included, \
                   free cancellation until two days before arrival"}},"worker":"host-a1b2c3d4","duration_ms":{}}}"#,
                number % 1_000,
                number % 977
            );
            let events = events(1, PLAN_EVENTS, &data);
            PlanPart { events, end: Some(end(PLAN_EVENTS, 5_000 + number)), ..plan(&format!("p0-{number}"), 5_000 + number, "") }
        });
        append(store, S0, batch, parts.collect()).await;
    }
    let took = begun.elapsed().as_secs_f64();
    eprintln!("{events_max} events in {took:.1} s: {:.0} events/s", events_max as f64 / took);
    settle().await;
    let all = EventSearch::default;
    let of = |text: &str| DataConditions::parse(text).expect("it is a condition");
    let searches = [
        ("plan", EventSearch { plan: Some("p0-77".into()), ..all() }),
        ("a rare word", EventSearch { words: vec!["city77".into()], ..all() }),
        ("a frequent word", EventSearch { words: vec!["breakfast".into()], ..all() }),
        ("two words", EventSearch { words: vec!["city77".into(), "breakfast".into()], ..all() }),
        ("a path with a rare value", EventSearch { conditions: of("$.outputs.city == \"city77\""), ..all() }),
        ("a path with a number", EventSearch { conditions: of("$.outputs.price == 77"), ..all() }),
        ("a path with a frequent value", EventSearch { conditions: of("$.worker == \"host-a1b2c3d4\""), ..all() }),
    ];
    for (name, search) in searches {
        let mut times = Vec::new();
        for _ in 0..40 {
            let begun = tokio::time::Instant::now();
            store.search(&search, 200).await.expect("the search is answered");
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        eprintln!("{name}: p50 {:.1} ms, p95 {:.1} ms", times[20], times[37]);
    }
}
