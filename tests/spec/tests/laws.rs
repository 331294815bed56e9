//! Compares the engine with the laws on random plans, and watches the list of laws that it does not keep yet.

use std::collections::BTreeSet;
use std::io::{Write, stderr};

use goalmill_spec::{Known, Law, Survey, Verdict, check_engine, known, shrink, survey};

/// Random plans of a run of CI.
const PLANS: u64 = 3_000;

#[test]
fn the_engine_keeps_the_laws_on_random_plans() {
    let broken: BTreeSet<Law> = known().into_iter().map(|known| known.law).collect();
    let survey = survey(0..PLANS, &broken);
    // The harness hides what the macros print if the test passes.
    writeln!(stderr(), "{}\n{}", survey.pairs.table(), survey.summary()).expect("stderr is open");
    assert!(survey.found.is_empty(), "{}", findings(survey));
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

#[test]
fn laws_that_are_known_to_be_broken_are_still_broken() {
    let wrong: Vec<String> = known().iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Why an entry does not show that its law is broken.
fn wrong(known: &Known) -> Option<String> {
    let Known { law, reason, case } = known;
    match check_engine(case) {
        Verdict::Found(finding) if finding.expected.laws == BTreeSet::from([*law]) => {
            eprintln!("not kept yet: {law:?}: {} ({reason})", finding.text);
            None
        }
        Verdict::Found(finding) => Some(format!("the case of {law:?} speaks of {:?}", finding.expected.laws)),
        Verdict::Kept(_) => Some(format!("{law:?} is kept now: remove it from the list ({reason})")),
        Verdict::Undecided(why) => Some(format!("the case of {law:?} is undecided: {why:?}")),
        Verdict::Invalid(why) => Some(format!("the document of {law:?} is refused: {why}")),
    }
}
