//! `planner rules test`: cases of an installation against its rules, without a server.

use serde_json::Value;

use super::{code, err, out, run};

/// The output of a test of `cases` by the rule `tea`.
fn test(cases: &str, args: &[&str]) -> std::process::Output {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let path = |name: &str| dir.path().join(name).to_str().expect("the path is text").to_owned();
    let write = |name: &str, text: &str| std::fs::write(path(name), text).expect("a file can be written");
    std::fs::create_dir(path("rules")).expect("a directory can be made");
    write(
        "rules/tea.yaml",
        "{id: tea, version: 1, goal_type: drinks, confidence: 0.9, match: {score: 1, signals: [{weight: 1, any: [tea]}]}, \
         plan: {steps: [{id: brew, agent_type: kettle}]}}",
    );
    write("settings.toml", &format!("[planner]\nrules_dir = {:?}\n", path("rules")));
    write("cases.yaml", cases);
    run(&[&["planner", "rules", "test", &path("cases.yaml"), "--config", &path("settings.toml")], args].concat())
}

#[test]
fn the_rules_of_the_settings_are_tested_and_each_difference_is_shown() {
    let good = "[{goal: Make tea on a budget of 3 EUR, kind: tea, facts: {budget: {amount: 3}}}, {goal: Serve tea, kind: drinks}]";
    let passed = test(good, &[]);
    assert_eq!((code(&passed), out(&passed)), (0, "2 passed, 0 failed\n".into()), "{}", err(&passed));
    let bad = "[{goal: Make tea, kind: tea}, {goal: Make a trip to Oslo for two, kind: tea, facts: {travellers: 3}}]";
    let failed = test(bad, &[]);
    let text = out(&failed);
    assert_eq!(code(&failed), 1, "{text}");
    for part in
        ["CASE", "kind", "generic", "facts.travellers", "3         2", "1 passed, 1 failed", "rule generic, read:"]
    {
        assert!(text.contains(part), "`{part}` in {text}");
    }
    let json: Value = serde_json::from_str(&out(&test(bad, &["-o", "json"]))).expect("it is JSON");
    assert_eq!((&json["passed"], &json["cases"][1]["failures"][0]["expected"]), (&1.into(), &"tea".into()));
    assert_eq!(out(&test(bad, &["-o", "name"])), "1 passed\n2 failed\n");
    assert_eq!(out(&test(bad, &["-o", "jsonl"])).lines().count(), 2);
}

#[test]
fn cases_that_cannot_be_read_are_refused_with_their_place() {
    for (cases, place) in [
        ("- goal: Make tea\n  kind: tea\n  colour: blue\n", "line 3"),
        ("[{goal: {description: Make tea, priority: 99}, kind: tea}]", "case 1: goal/priority"),
        ("[]", "no cases"),
    ] {
        let refused = test(cases, &[]);
        assert_eq!(code(&refused), 8, "{cases}");
        assert!(err(&refused).contains(place), "{}", err(&refused));
    }
    let long = "#".repeat(1 << 20) + "\n";
    assert_eq!(code(&test(&long, &[])), 8);
    assert_eq!(code(&run(&["planner", "rules", "test", "/nowhere/cases.yaml"])), 5);
}
