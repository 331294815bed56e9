//! Compares the engine with the laws on random plans, and watches the list of laws that it does not keep yet.

use std::collections::BTreeSet;

use goalmill_spec::{Law, Survey, Verdict, check_engine, known, shrink, survey};

/// Random plans of a run of CI.
const PLANS: u64 = 3_000;

#[test]
fn the_engine_keeps_the_laws_on_random_plans() {
    let broken: BTreeSet<Law> = known().into_iter().map(|known| known.law).collect();
    let survey = survey(0..PLANS, &broken);
    eprintln!("{}\n{}", survey.pairs.table(), survey.summary());
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
    for known in known() {
        let verdict = check_engine(&known.case);
        let Verdict::Found(finding) = verdict else {
            panic!("{:?} is kept now: remove it from the list ({})", known.law, known.reason);
        };
        assert!(finding.expected.laws.contains(&known.law), "the case does not speak of {:?}", known.law);
        eprintln!("not kept yet: {:?}: {} ({})", known.law, finding.text, known.reason);
    }
}
