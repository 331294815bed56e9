//! Compares the engine with the laws on random plans.

use std::collections::BTreeSet;
use std::io::{Write, stderr};

use goalmill_spec::{Case, Survey, Verdict, check_engine, shrink, survey};

/// Random plans of a run of CI.
const PLANS: u64 = 8_000;

#[test]
fn the_engine_keeps_the_laws_on_random_plans() {
    let survey = survey(0..PLANS);
    // The harness hides what the macros print if the test passes.
    writeln!(stderr(), "{}\n{}", survey.pairs.table(), survey.summary()).expect("stderr is open");
    assert!(survey.found.is_empty(), "{}", findings(survey));
}

#[test]
fn what_was_found_stays_corrected() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions");
    let files = std::fs::read_dir(folder).expect("the cases are here").map(|file| file.expect("a file").path());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text");
        let case: Case = serde_json::from_str(&text).expect("a case");
        let verdict = check_engine(&case);
        assert!(matches!(verdict, Verdict::Kept(_)), "{}: {verdict:?}", file.display());
    }
}

/// The first finding of each kind, as small as possible.
fn findings(survey: Survey) -> String {
    let mut kinds = BTreeSet::new();
    let first = survey.found.into_iter().filter(|(.., finding)| kinds.insert(finding.kind));
    let lines = first.map(|(seed, case, finding)| {
        let small = shrink(case, &|other| other.kind == finding.kind);
        let small = serde_json::to_string(&small).expect("a case is plain data");
        format!("seed {seed}: {:?}: {}\n  {small}", finding.kind, finding.text)
    });
    lines.collect::<Vec<_>>().join("\n")
}
