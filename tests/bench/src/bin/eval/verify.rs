//! Holds the plan verifier against the labels of another one, and against what it said in recorded dialogues.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use goalmill_common::clock::unix_us;
use goalmill_htn::{PlanLine, PlanVerdict, PlanVerifier, StepFault, parse_domain, parse_plan, parse_problem};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rows::{self, Out};

#[derive(Deserialize)]
struct Row {
    id: String,
    suite: String,
    domain: String,
    instance: i64,
    plan: Vec<String>,
    valid: bool,
}

#[derive(Deserialize)]
struct Instance {
    suite: String,
    domain: String,
    instance: i64,
    pddl: String,
}

#[derive(Deserialize)]
struct Dialogue {
    id: String,
    domain: String,
    problem: String,
    turns: Vec<(String, String)>,
}

/// Plans are verified so often each for the timing.
const TIMES: u64 = 100;

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let dir = dir.join("plan_verify");
    let domains: BTreeMap<String, String> = rows::whole(&dir.join("planbench_domains.json"))?;
    let mut figures = labels(&dir, &domains, out)?;
    let critic = dialogues(&dir, &domains, out)?;
    figures["critic"] = critic;
    Ok(figures)
}

fn labels(dir: &Path, domains: &BTreeMap<String, String>, out: &mut Out) -> Result<Value> {
    let mut problems = BTreeMap::new();
    for instance in rows::read::<Instance>(&dir.join("planbench_instances.jsonl"))? {
        problems.insert((instance.suite, instance.domain, instance.instance), instance.pddl);
    }
    let mut verifiers: BTreeMap<(String, String, i64), PlanVerifier> = BTreeMap::new();
    let (mut agreed, mut checked, mut us) = (0u64, 0u64, 0u64);
    let mut disagreements = Vec::new();
    for row in rows::read::<Row>(&dir.join("planbench_plans.jsonl"))? {
        let key = (row.suite.clone(), row.domain.clone(), row.instance);
        if !verifiers.contains_key(&key) {
            let pddl = problems.get(&key).with_context(|| format!("row `{}` has no instance", row.id))?;
            let domain = domains.get(&row.domain).with_context(|| format!("row `{}` has no domain", row.id))?;
            verifiers.insert(key.clone(), verifier(domain, pddl).with_context(|| row.id.clone())?);
        }
        let verifier = &verifiers[&key];
        // A line that is no action in brackets makes the plan one that means nothing.
        let plan: Vec<PlanLine> = row.plan.iter().map(|line| only(line)).collect();
        let start = unix_us();
        for _ in 1..TIMES {
            std::hint::black_box(verifier.verify(std::hint::black_box(&plan)));
        }
        let verdict = verifier.verify(&plan);
        us += unix_us() - start;
        checked += 1;
        if verdict.is_valid() == row.valid {
            agreed += 1;
        } else {
            disagreements.push(json!({"id": row.id, "label": row.valid, "verdict": verdict.to_string()}));
        }
        out.row(&json!({"id": row.id, "valid": verdict.is_valid(), "verdict": verdict.to_string()}))?;
    }
    Ok(json!({
        "what": "verify",
        "plans": checked,
        "agreed": agreed,
        "agreement": share(agreed, checked),
        "us_a_plan": us as f64 / (checked * TIMES).max(1) as f64,
        "disagreements": disagreements,
    }))
}

fn only(line: &str) -> PlanLine {
    let mut read = parse_plan(line);
    match read.len() {
        1 if line.trim().starts_with('(') => read.remove(0),
        _ => vec![line.to_owned()],
    }
}

fn verifier(domain: &str, problem: &str) -> Result<PlanVerifier> {
    let domain = parse_domain(domain)?;
    let problem = parse_problem(&domain, problem)?;
    PlanVerifier::new(&domain, &problem).map_err(|reason| anyhow!(reason))
}

/// What the recorded verifier said of a plan.
#[derive(Debug, PartialEq, Eq)]
enum Critique {
    /// It could not make sense of the plan.
    Senseless,
    Step(usize, String, BTreeSet<String>),
    Goal(BTreeSet<String>),
    Other,
}

fn dialogues(dir: &Path, domains: &BTreeMap<String, String>, out: &mut Out) -> Result<Value> {
    let (mut turns, mut same_step, mut same_words, mut other) = (0u64, 0u64, 0u64, 0u64);
    let mut differences = Vec::new();
    for row in rows::read::<Dialogue>(&dir.join("llm_modulo_dialogues.jsonl"))? {
        let texts: String =
            std::iter::once(row.problem.as_str()).chain(row.turns.iter().map(|(_, t)| t.as_str())).collect();
        let domain = definition(&texts, "domain").or_else(|| known(domains, &row.domain, &texts));
        let problem = definition(&texts, "problem");
        let (Some(domain), Some(problem)) = (domain, problem) else {
            other += 1;
            continue;
        };
        let verifier = verifier(domain, problem).with_context(|| row.id.clone())?;
        for (n, pair) in row.turns.windows(2).enumerate() {
            let [(role, answer), (_, said)] = pair else { continue };
            if role != "assistant" {
                continue;
            }
            let recorded = critique(said);
            let plan = parse_plan(answer);
            let verdict = verifier.verify(&plan);
            let ours = told(&verdict, &plan);
            let unknown = matches!(&verdict, PlanVerdict::Failed { fault: StepFault::UnknownObject { .. }, .. });
            if recorded == Critique::Other {
                other += 1;
                continue;
            }
            turns += 1;
            let step = match (&recorded, &ours) {
                (Critique::Step(a, text, _), Critique::Step(b, ours, _)) => a == b && text == ours,
                (Critique::Goal(_), Critique::Goal(_)) => true,
                (Critique::Senseless, Critique::Step(..)) => unknown,
                (a, b) => a == b,
            };
            same_step += u64::from(step);
            same_words += u64::from(recorded == ours);
            if !step && differences.len() < 10 {
                differences.push(
                    json!({"id": row.id, "turn": n, "recorded": format!("{recorded:?}"), "ours": format!("{ours:?}")}),
                );
            }
            out.row(&json!({"id": row.id, "turn": n, "critique": format!("{ours:?}"), "same": step}))?;
        }
    }
    Ok(json!({
        "turns": turns,
        "same_failing_action": same_step,
        "share": share(same_step, turns),
        "same_conditions_too": same_words,
        "not_comparable": other,
        "differences": differences,
    }))
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The text of `(define (KIND …) …)`, up to its last bracket.
fn definition<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    let from = ["(define (", "(define("].iter().filter_map(|d| text.find(&format!("{d}{kind}"))).min()?;
    let mut depth = 0;
    for (at, c) in text[from..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(&text[from..=from + at]);
        }
    }
    None
}

/// The domain of that name, or the one that the problem names.
fn known<'a>(domains: &'a BTreeMap<String, String>, name: &str, text: &str) -> Option<&'a str> {
    let found = domains.get(name).or_else(|| {
        domains.values().find(|d| {
            let title = d.split("(domain").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default().trim();
            text.contains(&format!("(:domain {title})"))
        })
    });
    found.map(String::as_str)
}

/// Reads what the recorded verifier wrote.
fn critique(said: &str) -> Critique {
    if said.contains("Bad plan description") {
        return Critique::Senseless;
    }
    let facts = |text: &str| {
        let upto = text.split("Provide your revised plan").next().unwrap_or_default();
        parse_plan(upto).into_iter().map(|words| words.join(" ").to_lowercase()).collect::<BTreeSet<_>>()
    };
    if let Some((_, rest)) = said.split_once("action at step ") {
        let step = rest.split_whitespace().next().and_then(|n| n.parse().ok());
        let action = rest.lines().nth(1).unwrap_or_default().trim().to_lowercase();
        return step.map_or(Critique::Other, |step| Critique::Step(step, action, facts(rest)));
    }
    match said.split_once("unmet goal condition") {
        Some((_, rest)) => Critique::Goal(facts(rest)),
        None => Critique::Other,
    }
}

fn told(verdict: &PlanVerdict, plan: &[PlanLine]) -> Critique {
    let bare =
        |unmet: &[String]| unmet.iter().map(|u| u.trim_matches(['(', ')']).to_lowercase()).collect::<BTreeSet<_>>();
    match verdict {
        PlanVerdict::Valid => Critique::Other,
        PlanVerdict::GoalUnmet { unmet } => Critique::Goal(bare(unmet)),
        PlanVerdict::Failed { step, fault: StepFault::Unmet { unmet }, .. } => {
            Critique::Step(*step, plan[step - 1].join(" ").to_lowercase(), bare(unmet))
        }
        PlanVerdict::Failed { step, fault: StepFault::UnknownObject { .. }, .. } if plan.len() > step - 1 => {
            Critique::Step(*step, plan[step - 1].join(" ").to_lowercase(), BTreeSet::new())
        }
        PlanVerdict::Failed { .. } => Critique::Senseless,
    }
}
