//! Checks many cases, or shows one: `cargo run -p goalmill-spec --example seeds -- FIRST COUNT`, `-- FILE`, or the case of
//! a seed: `-- SEED`. `-- find FIRST COUNT` ends with the first case that differs, which it does not make small.

use std::io::{Error, Write, stdout};

use goalmill_spec::{Case, Verdict, check_engine, drive, generate, run, shrink, survey};

/// Findings that are made small and shown.
const SHOWN: usize = 10;
/// Cases that are compared before the next look for one that differs.
const CHUNK: usize = 50;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    match (words.first(), numbers.as_slice()) {
        (Some(word), [first, count]) if word == "find" => find(*first, *count),
        (Some(_), [first, count]) => check_many(*first, *count),
        (Some(_), [seed]) => writeln!(stdout(), "{}", serde_json::to_string(&generate(*seed))?),
        (Some(file), []) => show(file),
        _ => Err(Error::other("give FIRST COUNT, a SEED, or the file of a case")),
    }
}

fn find(first: u64, count: u64) -> std::io::Result<()> {
    let mut out = stdout().lock();
    for begin in (first..first + count).step_by(CHUNK) {
        let survey = survey(begin..(begin + CHUNK as u64).min(first + count));
        if let Some((seed, _, finding)) = survey.found.first() {
            return writeln!(out, "seed {seed} differs: {:?} {}", finding.kind, finding.text);
        }
    }
    writeln!(out, "no case of {count} differs")
}

fn check_many(first: u64, count: u64) -> std::io::Result<()> {
    let survey = survey(first..first + count);
    let mut out = stdout().lock();
    writeln!(out, "{}\n{}", survey.pairs.table(), survey.summary())?;
    for (seed, _, finding) in &survey.found {
        writeln!(out, "seed {seed}: {:?} {}", finding.kind, finding.text)?;
    }
    for (seed, case, finding) in survey.found.into_iter().take(SHOWN) {
        writeln!(out, "\nseed {seed}: {:?} {}\n  laws {:?}", finding.kind, finding.text, finding.expected.laws)?;
        let small = shrink(case, &|other| other.kind == finding.kind);
        writeln!(out, "  {}", serde_json::to_string(&small)?)?;
        if let Verdict::Found(finding) = check_engine(&small) {
            writeln!(out, "  small: {:?} {}\n  laws {:?}", finding.kind, finding.text, finding.expected.laws)?;
        }
    }
    Ok(())
}

/// Shows what the engine does, and what the laws say.
fn show(file: &str) -> std::io::Result<()> {
    let case: Case = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let plan = case.plan().map_err(|issues| Error::other(format!("{issues:?}")))?;
    let driven = drive(&plan, &case.script);
    let order = driven.as_ref().map_or_else(|_| Vec::new(), |run| run.asks.clone());
    let expected = run(&plan, &case.script, &order, None);
    writeln!(stdout(), "seen {driven:#?}\nby the laws {expected:#?}\n{:?}", check_engine(&case))
}
