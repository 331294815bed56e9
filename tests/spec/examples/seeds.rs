//! Checks many cases, or shows one: `cargo run -p goalmill-spec --example seeds -- FIRST COUNT`, or `-- FILE`.

use std::collections::BTreeSet;
use std::io::{Write, stdout};

use goalmill_spec::{Law, known, shrink, survey};

fn main() -> std::io::Result<()> {
    if let Some(file) = std::env::args().nth(1).filter(|word| word.parse::<u64>().is_err()) {
        let case: goalmill_spec::Case = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        let plan = case.plan().map_err(|issues| std::io::Error::other(format!("{issues:?}")))?;
        let driven = goalmill_spec::drive(&plan, &case.script);
        let order = driven.as_ref().map_or_else(|_| Vec::new(), |run| run.asks.clone());
        writeln!(stdout(), "seen {driven:#?}")?;
        let expected = goalmill_spec::run(&plan, &case.script, &order);
        return writeln!(stdout(), "by the laws {expected:#?}\n{:?}", goalmill_spec::check_engine(&case));
    }
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (first, count) = (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(1));
    let shown = numbers.get(2).copied().unwrap_or(10);
    let is_only_without = std::env::args().any(|word| word == "without-laws");
    let laws: BTreeSet<Law> = known().into_iter().map(|known| known.law).collect();
    let survey = survey(first..first + count, &laws);
    let mut out = stdout().lock();
    writeln!(out, "{}", survey.pairs.table())?;
    writeln!(out, "{}", survey.summary())?;
    if std::env::args().any(|word| word == "one-of-each-law") {
        return one_of_each_law(survey);
    }
    for (seed, case, finding) in survey
        .found
        .into_iter()
        .filter(|(.., finding)| !is_only_without || finding.expected.laws.is_empty())
        .take(usize::try_from(shown).unwrap_or(usize::MAX))
    {
        let laws = finding.expected.laws.clone();
        let small = shrink(case, &|other| other.kind == finding.kind && other.expected.laws.is_subset(&laws));
        let text = serde_json::to_string(&small)?;
        writeln!(out, "\nseed {seed}: {:?} {}\n  laws {laws:?}\n  {text}", finding.kind, finding.text)?;
        if let goalmill_spec::Verdict::Found(finding) = goalmill_spec::check_engine(&small) {
            writeln!(out, "  small: {:?} {}\n  laws {:?}", finding.kind, finding.text, finding.expected.laws)?;
        }
    }
    Ok(())
}

/// Prints one small case for each law that is not kept.
fn one_of_each_law(survey: goalmill_spec::Survey) -> std::io::Result<()> {
    let mut shown = BTreeSet::new();
    let mut found = survey.found;
    found.sort_by_key(|(.., finding)| finding.expected.laws.len());
    for (seed, case, finding) in found {
        for law in finding.expected.laws.clone() {
            if shown.contains(&law) {
                continue;
            }
            let small = shrink(case.clone(), &|other| other.expected.laws.contains(&law));
            if let goalmill_spec::Verdict::Found(finding) = goalmill_spec::check_engine(&small)
                && finding.expected.laws.len() == 1
            {
                shown.insert(law);
                let text = serde_json::to_string(&small)?;
                writeln!(stdout(), "\n{law:?} (seed {seed}): {:?} {}\n{text}", finding.kind, finding.text)?;
            }
        }
    }
    Ok(())
}
