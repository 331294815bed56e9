//! Runs that failed, in which people have marked the decisive mistake: is trouble noticed soon after, and not before?
//!
//! The detector hears orders, answers and, where the run's orchestrator wrote one, its ledger. For each run of
//! Magentic-One counts whether it raised a sign after the mistake, within ten messages of it, and before it (false).
//! A run may count in all three. The same is counted for the ledger alone and for the detector without it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use goalmill_engine::notice::{Message, Sign, Watch};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rows::{Out, read};

/// Messages within which a mistake should be noticed.
const NEAR: u64 = 10;

#[derive(Deserialize)]
struct Run {
    id: String,
    mistake_step: Value,
    history: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    i: u64,
    role: String,
    #[serde(default)]
    name: String,
    content: String,
}

#[derive(Deserialize)]
struct Ledger {
    /// The run's id.
    log: String,
    step: u64,
    raw: String,
}

#[derive(Serialize)]
struct Told<'a> {
    id: &'a str,
    mistake: u64,
    /// Each sign: the message at which it was raised, and why.
    signs: Vec<Value>,
    after: bool,
    within_10: bool,
    before: bool,
}

/// What the detector hears besides orders and answers.
#[derive(Clone, Copy, PartialEq)]
enum Ears {
    All,
    WithoutLedger,
    LedgerOnly,
}

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let runs: Vec<Run> = read(&dir.join("failures/who_when.jsonl"))?;
    let mut ledgers = BTreeMap::<String, BTreeMap<u64, String>>::new();
    for ledger in read::<Ledger>(&dir.join("failures/magentic_ledgers.jsonl"))? {
        ledgers.entry(ledger.log).or_default().insert(ledger.step, ledger.raw);
    }
    let none = BTreeMap::new();
    for run in &runs {
        let ledger = ledgers.get(&run.id).unwrap_or(&none);
        let signs = listen(run, ledger, Ears::All);
        let verdict = Verdict::of(&signs, run.mistake()?);
        let signs = signs.iter().map(|(place, sign)| json!({"at": place, "sign": describe(sign)})).collect();
        let Verdict { after, within, before } = verdict;
        out.row(&Told { id: &run.id, mistake: run.mistake()?, signs, after, within_10: within, before })?;
    }
    let count = |ears: Ears, with_orchestrator: bool| -> Result<Value> {
        let (mut total, mut after, mut within, mut before) = (0, 0, 0, 0);
        for run in runs.iter().filter(|run| run.has_orchestrator() == with_orchestrator) {
            let signs = listen(run, ledgers.get(&run.id).unwrap_or(&none), ears);
            let verdict = Verdict::of(&signs, run.mistake()?);
            total += 1;
            after += u32::from(verdict.after);
            within += u32::from(verdict.within);
            before += u32::from(verdict.before);
        }
        Ok(json!({"runs": total, "after": after, "within_10": within, "before": before}))
    };
    Ok(json!({
        "eval": "ledger",
        "magentic": count(Ears::All, true)?,
        "magentic_without_ledger": count(Ears::WithoutLedger, true)?,
        "magentic_ledger_only": count(Ears::LedgerOnly, true)?,
        "others": count(Ears::All, false)?,
    }))
}

struct Verdict {
    after: bool,
    within: bool,
    before: bool,
}

impl Verdict {
    fn of(signs: &[(u64, Sign)], mistake: u64) -> Self {
        let any = |wanted: &dyn Fn(u64) -> bool| signs.iter().any(|(place, _)| wanted(*place));
        Self {
            after: any(&|place| place >= mistake),
            within: any(&|place| (mistake..=mistake + NEAR).contains(&place)),
            before: any(&|place| place < mistake),
        }
    }
}

impl Run {
    fn mistake(&self) -> Result<u64> {
        let number = self.mistake_step.as_u64().or_else(|| self.mistake_step.as_str()?.trim().parse().ok());
        number.with_context(|| format!("{}: `mistake_step` is not a number", self.id))
    }

    /// Whether one agent gives orders to the others, as in Magentic-One.
    fn has_orchestrator(&self) -> bool {
        self.history.iter().any(|said| said.role.starts_with("Orchestrator"))
    }
}

/// Every sign in a run, with the message at which it was raised.
fn listen(run: &Run, ledger: &BTreeMap<u64, String>, ears: Ears) -> Vec<(u64, Sign)> {
    let mut watch = Watch::default();
    let mut signs = Vec::new();
    for said in &run.history {
        let Some(message) = message(said, ledger.get(&said.i)) else { continue };
        let is_verdict = matches!(message, Message::Verdict { .. });
        let heard = match ears {
            Ears::All => true,
            Ears::WithoutLedger => !is_verdict,
            Ears::LedgerOnly => is_verdict,
        };
        // Orders are counted in any case: they say how far the run is.
        let sign = watch.hear(said.i, &message).filter(|_| heard);
        signs.extend(sign.map(|sign| (said.i, sign)));
    }
    signs
}

/// What a message of the log is to the detector.
fn message(said: &Said, ledger: Option<&String>) -> Option<Message> {
    if let Some(order) = said.role.strip_prefix("Orchestrator (-> ") {
        return Some(Message::Order { to: order.trim_end_matches(')').into(), text: said.content.clone() });
    }
    if said.role.starts_with("Orchestrator") {
        return verdict(ledger.unwrap_or(&said.content));
    }
    if said.role == "human" {
        return None;
    }
    let who = if said.name.is_empty() { &said.role } else { &said.name };
    if let Some(code) = said.content.strip_prefix("exitcode: ").and_then(|rest| rest.split_whitespace().next())
        && code != "0"
    {
        return Some(Message::Error { from: who.clone(), code: format!("EXIT_{code}") });
    }
    Some(Message::Answer { from: who.clone(), text: said.content.clone() })
}

/// The two answers of a progress ledger, also when it was cut off or has text around it.
fn verdict(text: &str) -> Option<Message> {
    let answer = |field: &str| {
        let after = &text[text.find(&format!("\"{field}\""))?..];
        let after = after[after.find("\"answer\"")? + "\"answer\"".len()..].trim_start_matches([':', ' ']);
        if after.starts_with("true") { Some(true) } else { after.starts_with("false").then_some(false) }
    };
    Some(Message::Verdict { in_loop: answer("is_in_loop")?, progress: answer("is_progress_being_made")? })
}

fn describe(sign: &Sign) -> Value {
    match sign {
        Sign::RepeatedOrder { earlier } => json!({"repeated_order": earlier}),
        Sign::NothingNew { earlier } => json!({"nothing_new": earlier}),
        Sign::RepeatedError { code, times } => json!({"repeated_error": code, "times": times}),
        Sign::Stalled => json!("stalled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(i: u64, role: &str, content: &str) -> Said {
        Said { i, role: role.into(), name: String::new(), content: content.into() }
    }

    #[test]
    fn a_ledger_is_read_also_with_text_around_it() {
        let ledger = "Updated: {\"is_in_loop\": {\"reason\": \"x\", \"answer\": true}, \
                      \"is_progress_being_made\": {\"reason\": \"y\",\n \"answer\": false}, \"next\": ";
        assert_eq!(verdict(ledger), Some(Message::Verdict { in_loop: true, progress: false }));
        assert_eq!(verdict("Initial plan"), None);
    }

    #[test]
    fn messages_are_told_apart_by_their_role() {
        let order = message(&said(3, "Orchestrator (-> Web)", "look"), None);
        assert_eq!(order, Some(Message::Order { to: "Web".into(), text: "look".into() }));
        let failed = message(&said(4, "Terminal", "exitcode: 1 (failed)"), None);
        assert_eq!(failed, Some(Message::Error { from: "Terminal".into(), code: "EXIT_1".into() }));
        assert_eq!(message(&said(0, "human", "hello"), None), None);
    }

    #[test]
    fn a_sign_counts_by_where_it_is() {
        let verdict = Verdict::of(&[(3, Sign::Stalled), (30, Sign::Stalled)], 10);
        assert!(verdict.before && verdict.after && !verdict.within);
    }
}
