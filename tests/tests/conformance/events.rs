//! Events from outside that are kept.

use std::collections::BTreeSet;

use goalmill_broker::{FieldsPage, Keeping, KeptEvent};
use goalmill_common::id::Namespace;
use goalmill_common::keys::Keys;

use crate::stage::Stage;

on_both_back_ends! {
    events_of_a_topic_are_kept_in_their_order_and_once,
    a_namespace_keeps_a_number_of_events,
    an_event_is_kept_for_its_time,
    events_that_were_taken_do_not_count_and_the_oldest_of_them_make_room,
    events_that_came_shortly_before_and_were_not_taken_are_named,
    a_forgotten_event_is_as_if_it_had_not_come,
    pages_of_fields_have_every_field,
}

const HOUR_MS: u64 = 3_600_000;

fn event(namespace: &str, topic: &str, id: &str) -> KeptEvent {
    let text = format!("{{\"id\":\"{id}\",\"name\":\"ü\"}}");
    KeptEvent { namespace: namespace.into(), topic: topic.into(), id: id.into(), text, retention_ms: HOUR_MS, most: 4 }
}

/// The kept events of a topic, read in pages of two.
async fn kept(stage: &Stage, namespace: &str, topic: &str) -> Vec<String> {
    let (broker, namespace) = (&stage.broker, Namespace::from(namespace));
    let (mut texts, mut place) = (Vec::new(), String::new());
    loop {
        let heads = broker.kept_events(&namespace, topic, &place, 2).await.unwrap();
        let Some(last) = heads.last() else { return texts };
        place.clone_from(&last.place);
        for head in &heads {
            texts.extend(broker.kept_event(&namespace, topic, head).await.unwrap());
        }
    }
}

async fn count(stage: &Stage, namespace: &str) -> u64 {
    stage.broker.count_kept_events(&namespace.into()).await.unwrap()
}

async fn events_of_a_topic_are_kept_in_their_order_and_once(stage: Stage) {
    assert!(kept(&stage, "red", "t").await.is_empty());
    for (id, keeping) in [("b", Keeping::New), ("a", Keeping::New), ("d", Keeping::New), ("b", Keeping::Known)] {
        assert_eq!(stage.broker.keep_event(&event("red", "t", id)).await.unwrap(), keeping, "{id}");
    }
    assert_eq!(kept(&stage, "red", "t").await, ["b", "a", "d"].map(|id| event("red", "t", id).text));
    assert!(kept(&stage, "red", "t2").await.is_empty() && kept(&stage, "blue", "t").await.is_empty());
}

async fn a_namespace_keeps_a_number_of_events(stage: Stage) {
    let keep = async |namespace, topic, id| stage.broker.keep_event(&event(namespace, topic, id)).await.unwrap();
    for (topic, id) in [("t", "1"), ("t", "2"), ("u", "1"), ("u", "2")] {
        assert_eq!(keep("red", topic, id).await, Keeping::New);
    }
    assert_eq!(keep("red", "v", "1").await, Keeping::Full, "there are four");
    assert_eq!(keep("red", "t", "2").await, Keeping::Known);
    assert_eq!(keep("reds", "v", "1").await, Keeping::New, "it is another namespace");
    assert!(kept(&stage, "red", "v").await.is_empty());
    for (namespace, is) in [("red", 4), ("reds", 1), ("blue", 0)] {
        assert_eq!(count(&stage, namespace).await, is, "{namespace}");
    }
}

async fn an_event_is_kept_for_its_time(mut stage: Stage) {
    for id in ["1", "0"] {
        stage.broker.keep_event(&event("red", "t", id)).await.unwrap();
    }
    stage.broker.take_event(&event("red", "t", "0")).await.unwrap();
    stage.later(HOUR_MS + 1_000).await;
    assert!(kept(&stage, "red", "t").await.is_empty());
    for id in ["2", "3", "4", "5"] {
        let keeping = stage.broker.keep_event(&event("red", "t", id)).await.unwrap();
        assert_eq!(keeping, Keeping::New, "there is room again");
    }
}

async fn events_that_were_taken_do_not_count_and_the_oldest_of_them_make_room(stage: Stage) {
    for n in 0..12 {
        let event = event("red", "t", &format!("e{n:02}"));
        assert_eq!(stage.broker.keep_event(&event).await.unwrap(), Keeping::New, "{n}");
        for _ in 0..2 {
            stage.broker.take_event(&event).await.unwrap();
        }
        let again = stage.broker.keep_event(&event).await.unwrap();
        assert_eq!((again, count(&stage, "red").await), (Keeping::Known, 0), "it is there for other plans");
    }
    let last = ["e08", "e09", "e10", "e11"].map(|id| event("red", "t", id).text);
    assert_eq!(kept(&stage, "red", "t").await, last);
}

async fn events_that_came_shortly_before_and_were_not_taken_are_named(stage: Stage) {
    let earlier = async |id: &str, limit| {
        let earlier = stage.broker.earlier_events(&event("red", "t", id), HOUR_MS, limit).await.unwrap();
        earlier.into_iter().map(|head| head.id).collect::<Vec<String>>()
    };
    for id in ["d", "c", "b", "a"] {
        stage.broker.keep_event(&event("red", "t", id)).await.unwrap();
    }
    assert_eq!((earlier("a", 9).await, earlier("d", 9).await), (vec!["d".into(), "c".into(), "b".into()], Vec::new()));
    stage.broker.take_event(&event("red", "t", "c")).await.unwrap();
    assert_eq!((earlier("a", 9).await, earlier("b", 9).await), (vec!["d".into(), "b".into()], vec!["d".into()]));
    assert_eq!((earlier("a", 1).await, earlier("none", 9).await), (vec!["b".into()], Vec::new()));
}

async fn a_forgotten_event_is_as_if_it_had_not_come(stage: Stage) {
    let event = event("red", "t", "1");
    stage.broker.keep_event(&event).await.unwrap();
    stage.broker.forget_event(&event).await.unwrap();
    assert_eq!((kept(&stage, "red", "t").await, count(&stage, "red").await), (Vec::new(), 0));
    assert_eq!(stage.broker.keep_event(&event).await.unwrap(), Keeping::New);
}

async fn pages_of_fields_have_every_field(stage: Stage) {
    let key = Keys::default().waits();
    let all: BTreeSet<String> = (0..1_500).map(|n| format!("p0-{n} step")).collect();
    for field in &all {
        stage.broker.put_field(&key, field, "x").await.unwrap();
    }
    let (mut found, mut pages, mut place) = (BTreeSet::new(), 0, Some(String::new()));
    while let Some(after) = place {
        let page = stage.broker.fields_page(&key, &after, 100).await.unwrap();
        found.extend(page.fields.into_iter().map(|(field, _)| field));
        (pages, place) = (pages + 1, page.next);
    }
    assert_eq!(found, all);
    assert!(pages > 5, "{pages}");
    assert_eq!(stage.broker.fields_page("goalmill:none", "", 100).await.unwrap(), FieldsPage::default());
}
