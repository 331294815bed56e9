//! Events from outside that are kept.

use goalmill_broker::KeptEvent;
use goalmill_common::id::Namespace;

use crate::stage::Stage;

on_both_back_ends! {
    events_of_a_topic_are_kept_in_their_order_and_once,
    a_namespace_keeps_a_number_of_events,
    an_event_is_kept_for_its_time,
}

const HOUR_MS: u64 = 3_600_000;

fn event(namespace: &str, topic: &str, id: &str) -> KeptEvent {
    let text = format!("{{\"id\":\"{id}\",\"name\":\"ü\"}}");
    KeptEvent { namespace: namespace.into(), topic: topic.into(), id: id.into(), text, retention_ms: HOUR_MS, most: 3 }
}

async fn kept(stage: &Stage, namespace: &str, topic: &str) -> Vec<String> {
    stage.broker.kept_events(&namespace.into(), topic).await.unwrap()
}

async fn events_of_a_topic_are_kept_in_their_order_and_once(mut stage: Stage) {
    assert!(kept(&stage, "red", "t").await.is_empty());
    for id in ["b", "a", "b"] {
        assert!(stage.broker.keep_event(&event("red", "t", id)).await.unwrap());
        stage.later(5).await;
    }
    let texts = [event("red", "t", "b").text, event("red", "t", "a").text];
    assert_eq!(kept(&stage, "red", "t").await, texts);
    assert!(kept(&stage, "red", "t2").await.is_empty() && kept(&stage, "blue", "t").await.is_empty());
}

async fn a_namespace_keeps_a_number_of_events(stage: Stage) {
    for (topic, id) in [("t", "1"), ("t", "2"), ("u", "1")] {
        assert!(stage.broker.keep_event(&event("red", topic, id)).await.unwrap());
    }
    assert!(!stage.broker.keep_event(&event("red", "v", "1")).await.unwrap(), "there are three");
    assert!(stage.broker.keep_event(&event("red", "t", "2")).await.unwrap(), "it is there");
    assert!(stage.broker.keep_event(&event("reds", "v", "1")).await.unwrap(), "it is another namespace");
    assert!(kept(&stage, "red", "v").await.is_empty());
    let counts = ["red", "reds", "blue"].map(Namespace::from);
    for (namespace, count) in counts.iter().zip([3, 1, 0]) {
        assert_eq!(stage.broker.count_kept_events(namespace).await.unwrap(), count, "{namespace}");
    }
}

async fn an_event_is_kept_for_its_time(mut stage: Stage) {
    stage.broker.keep_event(&event("red", "t", "1")).await.unwrap();
    stage.later(HOUR_MS + 1_000).await;
    assert!(kept(&stage, "red", "t").await.is_empty());
    for id in ["2", "3", "4"] {
        assert!(stage.broker.keep_event(&event("red", "t", id)).await.unwrap(), "there is room again");
    }
}
