//! Answers of hostile and broken agents.

use std::fmt::Write;
use std::net::SocketAddr;

use serde_json::json;

use super::{Expect, Hostile};

/// One answer, and the codes of which one the step must fail with; `""` when the answer is one.
pub(super) struct BadAnswer {
    pub(super) name: &'static str,
    pub(super) body: fn() -> Vec<u8>,
    pub(super) codes: &'static [&'static str],
}

const INVALID: &[&str] = &["ANSWER_INVALID"];
const TOO_LARGE: &[&str] = &["OUTPUT_TOO_LARGE", "ANSWER_TOO_LARGE", "HTTP_BODY_TOO_LARGE"];

pub(super) const ANSWERS: &[BadAnswer] = &[
    BadAnswer { name: "deep", body: || nested(100), codes: INVALID },
    BadAnswer { name: "very-deep", body: || nested(100_000), codes: INVALID },
    BadAnswer { name: "huge-number", body: || br#"{"outputs": {"n": 1e999}}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "half-a-surrogate", body: || br#"{"outputs": {"t": "\ud800"}}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "no-utf-8", body: || b"{\"outputs\": {\"t\": \"\xff\xfe\"}}".to_vec(), codes: INVALID },
    BadAnswer { name: "error-text", body: || br#"{"error": "boom"}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "error-class", body: || br#"{"error": {"class": "retryable"}}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "cost-text", body: || br#"{"outputs": {}, "cost": "5"}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "tokens-negative", body: || br#"{"outputs": {}, "tokens": -1}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "cost-huge", body: || br#"{"outputs": {}, "cost": 1.7e308}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "cost-negative", body: || br#"{"outputs": {}, "cost": -5}"#.to_vec(), codes: INVALID },
    BadAnswer { name: "empty", body: Vec::new, codes: &["ANSWER_EMPTY"] },
    BadAnswer { name: "no-json", body: || b"<html>busy</html>".to_vec(), codes: INVALID },
    BadAnswer { name: "too-large", body: || large(4 << 20), codes: TOO_LARGE },
    BadAnswer { name: "many-keys", body: || keys(50_000), codes: &[""] },
];

fn nested(depth: usize) -> Vec<u8> {
    format!(r#"{{"outputs": {{"d": {}1{}}}}}"#, "[".repeat(depth), "]".repeat(depth)).into_bytes()
}

fn large(bytes: usize) -> Vec<u8> {
    format!(r#"{{"outputs": {{"t": "{}"}}}}"#, "x".repeat(bytes)).into_bytes()
}

fn keys(count: usize) -> Vec<u8> {
    let mut text = String::from(r#"{"outputs": {"#);
    for n in 0..count {
        write!(text, "{}\"k{n}\": {n}", if n == 0 { "" } else { "," }).expect("a string takes all text");
    }
    text.push_str("}}");
    text.into_bytes()
}

/// One agent type for each answer.
pub(super) fn settings(agent: SocketAddr) -> String {
    let mut text = String::new();
    for answer in ANSWERS {
        let name = answer.name;
        writeln!(text, "[worker.agents.bad-{name}]\nkind = \"http\"\nurl = \"http://{agent}/{name}\"")
            .expect("a string takes all text");
    }
    text
}

/// A plan for each answer.
pub(super) fn all() -> Vec<Hostile> {
    let plan = |answer: &BadAnswer| {
        let step = json!({"id": "a", "agent_type": format!("bad-{}", answer.name), "retry": {"max": 0}});
        Hostile::plan(answer.name, &json!({"steps": [step]}), Expect::Ends(answer.codes))
    };
    ANSWERS.iter().map(plan).collect()
}
