//! Hostile entries on the streams that anyone, or any worker, may write to.

use anyhow::Result;
use goalmill_common::id::ShardId;
use goalmill_common::wire::Fields;
use goalmill_tests::cluster::Cluster;

use super::answer;

const PLAN: &str = r#"{"steps": [{"id": "a", "agent_type": "echo"}]}"#;

/// Submissions: id, fields that differ from a good one, the code of the answer.
fn submissions() -> Vec<(&'static str, Fields, &'static str)> {
    let good = |id: &str| -> Vec<(String, Vec<u8>)> {
        [("specversion", "1.0"), ("id", id), ("source", "urn:x"), ("type", "goalmill.plan.submit.v1"), ("data", PLAN)]
            .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
            .to_vec()
    };
    let with = |id: &'static str, name: &str, value: &[u8]| -> Fields {
        let mut fields = good(id);
        match fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, held)) => *held = value.to_vec(),
            None => fields.push((name.to_owned(), value.to_vec())),
        }
        fields
    };
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    vec![
        ("e-type", with("e-type", "type", b"goalmill.plan.submit.v9"), "UNSUPPORTED_TYPE"),
        ("e-version", with("e-version", "specversion", b"9"), "UNSUPPORTED_VERSION"),
        ("e-json", with("e-json", "data", b"{"), "INVALID_JSON"),
        ("e-utf-8", with("e-utf-8", "data", b"{\"x\": \"\xff\"}"), "INVALID"),
        ("e-deep", with("e-deep", "data", deep.as_bytes()), "NESTING_TOO_DEEP"),
        ("e-large", with("e-large", "data", "x".repeat(20 << 20).as_bytes()), "INVALID"),
        ("e-trace", with("e-trace", "traceparent", b"00-x\r\nevil: yes"), "INVALID"),
        ("e-source", with("e-source", "source", b"a\nb"), ""),
    ]
}

/// Entries of an inbox that are neither reports nor requests.
fn inbox() -> Vec<Fields> {
    let entry = |fields: &[(&str, &[u8])]| -> Fields {
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect()
    };
    let many = format!("[{}]", vec![r#"{"plan": "p0-none", "what": "completed"}"#; 10_000].join(","));
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    vec![
        entry(&[("nothing", b"of the kind")]),
        entry(&[("v", b"9"), ("data", b"{}")]),
        entry(&[("v", b"1"), ("data", b"\xff\xfe")]),
        entry(&[("v", b"1"), ("data", deep.as_bytes())]),
        entry(&[("v", b"1"), ("data", many.as_bytes())]),
        entry(&[("v", b"1"), ("request", br#"{"plan": "p0-none", "actor": "x", "verb": {"fly": {}}}"#)]),
        entry(&[("v", b"1"), ("request", br#"{"plan": "p0-none", "actor": "x", "verb": {"pause": {"reason": ""}}}"#)]),
    ]
}

/// Hostile entries in all.
pub(super) const COUNT: usize = 15;

pub(super) async fn send_all(cluster: &Cluster) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for fields in inbox() {
        for shard in 0..4 {
            cluster.broker.send(ShardId(shard), &fields).await?;
        }
    }
    let submissions = submissions();
    for (_, fields, _) in &submissions {
        cluster.broker.submit(fields).await?;
    }
    // Nobody can be told of these two: they have no usable id.
    cluster.broker.submit(&vec![("data".to_owned(), PLAN.as_bytes().to_vec())]).await?;
    cluster.broker.submit(&vec![("id".to_owned(), b"\xff".to_vec())]).await?;
    for (id, _, code) in submissions {
        match answer(cluster, id).await {
            Some(said) if said.to_string().contains(code) => {}
            Some(said) => found.push(format!("{id}: no `{code}` in {said}")),
            None => found.push(format!("{id}: no answer")),
        }
    }
    Ok(found)
}
