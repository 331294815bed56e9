//! The evaluation program: figures of the rows that are there, and a line for each row.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn evaluate(what: &str, dir: &Path, out: &Path) -> Output {
    let mut eval = Command::new(env!("CARGO_BIN_EXE_eval"));
    eval.args([what.as_ref(), dir.as_os_str(), "--out".as_ref(), out.as_os_str()]);
    eval.env("RUST_BACKTRACE", "0").output().expect("it starts")
}

fn lines(text: &[u8]) -> Vec<Value> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("each line is JSON"))
        .collect()
}

#[test]
fn sets_that_are_not_there_are_left_out_and_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("parse")).unwrap();
    let plans = [
        ("strict", r#"[{"step": "1. Look", "tool": "eye"}]"#),
        ("literal", "[{'step': '1. Look', 'tool': 'eye'}]"),
        ("fenced", "Here it is:\n```json\n[{\"step\": \"1. Look\", \"tool\": \"eye\"}]\n```\n"),
    ];
    let rows = plans.map(|(id, raw)| json!({"id": id, "raw": raw}).to_string()).join("\n");
    std::fs::write(dir.path().join("parse/ultratool.jsonl"), rows).unwrap();
    let out = dir.path().join("out.jsonl");
    let told = evaluate("parse", dir.path(), &out);
    let errors = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{errors}");
    assert!(errors.contains("workbench_lost_actions.jsonl`"), "{errors}");
    let figures = &lines(&told.stdout)[0];
    assert_eq!((&figures["rows"], &figures["silent_edits"]), (&json!(3), &json!(0)));
    let found = lines(&std::fs::read(&out).unwrap());
    assert_eq!(found.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(), plans.map(|(id, _)| id));
    assert!(found.iter().all(|row| row["value"] == json!([{"step": "1. Look", "tool": "eye"}])), "{found:?}");
}

#[test]
fn a_cycle_among_gold_plans_is_found() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("dag")).unwrap();
    let plan = |id: &str, deps: Value| json!({"id": id, "steps": ["rise", "eat", "go"], "deps": deps}).to_string();
    let rows =
        [plan("good", json!([["1", "2"], ["2", "3"]])), plan("round", json!([["1", "2"], ["2", "1"]]))].join("\n");
    std::fs::write(dir.path().join("dag/asynchow.jsonl"), rows).unwrap();
    let told = evaluate("dag", dir.path(), &dir.path().join("out.jsonl"));
    let figures = &lines(&told.stdout)[0]["asynchow"];
    assert_eq!((&figures["rows"], &figures["cyclic"]), (&json!(2), &json!(1)), "{figures}");
}

#[test]
fn a_folder_without_rows_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for what in ["parse", "calls", "dag"] {
        let told = evaluate(what, dir.path(), &dir.path().join("out.jsonl"));
        let errors = String::from_utf8_lossy(&told.stderr);
        assert!(!told.status.success() && told.stdout.is_empty(), "{what}");
        assert!(errors.contains(&dir.path().display().to_string()), "{errors}");
    }
}
