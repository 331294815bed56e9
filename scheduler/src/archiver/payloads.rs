//! Large inputs and outputs, to which the log of a plan refers: finds the references, and reads what they stand for.

use std::collections::BTreeSet;

use goalmill_archive::{BlobRow, EventRow};
use goalmill_broker::{Broker, BrokerError};
use goalmill_common::blob_ref;
use goalmill_common::id::PlanId;
use metrics::counter;
use serde_json::Value;

use crate::plan_reader::family_of;

/// References of one plan that are followed; further ones stay references.
const REFERENCES_MAX: usize = 10_000;

/// The payloads of one plan, each read once.
pub(super) struct PlanPayloads {
    seen: BTreeSet<String>,
    bytes_left: usize,
    /// The plan to whose family they belong, once it is known.
    family: Option<PlanId>,
}

impl PlanPayloads {
    /// - `bytes_max`: of all payloads together.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { seen: BTreeSet::new(), bytes_left: bytes_max, family: None }
    }

    /// The keys that these events refer to and no earlier ones did.
    pub(super) fn unseen(&mut self, events: &[EventRow]) -> Vec<String> {
        let mut found = Vec::new();
        // Most events have none, and need not be parsed.
        for event in events.iter().filter(|event| event.line.contains("\"$blob\"")) {
            // An event that no reader takes has no references that could be followed.
            let Ok(line) = serde_json::from_str::<Value>(&event.line) else { continue };
            blob_ref::visit(&line, &mut |key| {
                if self.seen.len() < REFERENCES_MAX && self.seen.insert(key.to_owned()) {
                    found.push(key.to_owned());
                }
            });
        }
        found
    }

    /// The payload under the key. `None` if it is of another plan, has expired, is no JSON, or does not fit into what is left of the limit.
    pub(super) async fn read_payload(
        &mut self,
        broker: &dyn Broker,
        plan: &PlanId,
        key: String,
    ) -> Result<Option<BlobRow>, BrokerError> {
        let family = match &self.family {
            Some(known) => known,
            None => self.family.insert(family_of(broker, plan).await?),
        };
        if !broker.keys().is_blob_of(family, &key) {
            return Ok(None);
        }
        if self.bytes_left == 0 {
            count("left_out");
            return Ok(None);
        }
        let text = broker.get_blob(&key).await?.and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(content) = text.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()) else {
            count("missing");
            return Ok(None);
        };
        let Some(left) = self.bytes_left.checked_sub(content.len()) else {
            count("left_out");
            return Ok(None);
        };
        self.bytes_left = left;
        count("archived");
        Ok(Some(BlobRow { key, content }))
    }
}

fn count(outcome: &'static str) {
    counter!("goalmill_archive_payloads_total", "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests {
    use goalmill_broker::embedded;
    use goalmill_common::clock::Clock;

    use super::*;

    fn event(line: String) -> EventRow {
        EventRow { seq: 1, entry: 1, time_ms: 1, event_type: "step_completed", step: None, phase: None, line }
    }

    #[tokio::test]
    async fn references_are_followed_once_and_within_the_limit() {
        let broker = embedded::open(None, Clock::system()).expect("a store in memory needs nothing");
        let keys = broker.keys().clone();
        let (plan, other) = (PlanId::from("p0-a"), PlanId::from("p0-b"));
        let of = |plan: &PlanId, name: &str| keys.plan_blob(plan, name).expect("it has a shard");
        let key = |name: &str| if name == "foreign" { of(&other, name) } else { of(&plan, name) };
        for (name, content) in [("a", "[1,2]"), ("b", "[3,4,5]"), ("c", "no JSON"), ("d", "7"), ("foreign", "8")] {
            broker.put_blob(&key(name), content.as_bytes(), 60_000).await.expect("it is stored");
        }
        let refer = |name: &str| format!(r#"{{"$blob":"{}","bytes":5}}"#, key(name));
        let events = [
            event(format!(r#"{{"data":{{"outputs":[{},{{"x":{}}},{}]}}}}"#, refer("a"), refer("b"), refer("a"))),
            event(r#"{"data":{"outputs":{"$blob":"meta"}},"other":{"$blob":7}}"#.into()),
            event(format!(r#"{{"data":{{"inputs":{},"outputs":[{},{}]}}}}"#, refer("c"), refer("d"), refer("foreign"))),
            event("{\"$blob\" and no JSON".into()),
        ];
        let mut payloads = PlanPayloads::new(6);
        let found = payloads.unseen(&events);
        let expected = [key("a"), key("b"), "meta".into(), key("c"), key("d"), key("foreign")];
        assert_eq!(found, expected, "each once");
        assert_eq!(payloads.unseen(&events), [""; 0]);
        let mut read = Vec::new();
        for key in found {
            read.extend(payloads.read_payload(broker.as_ref(), &plan, key).await.expect("the store answers"));
        }
        let contents: Vec<&str> = read.iter().map(|blob| blob.content.as_str()).collect();
        assert_eq!(contents, ["[1,2]", "7"], "six bytes, of JSON that is there and belongs to the plan");
        assert!(
            payloads.read_payload(broker.as_ref(), &plan, key("a")).await.expect("the store answers").is_none(),
            "the limit is reached"
        );
    }
}
