//! An exported log, folded again, gives what is served; a log that was tampered with is refused, with the place.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::Result;
use goalmill_common::event::Record;
use goalmill_tests::installation::{Installation, step};
use goalmill_tests::process::binary;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

/// Retries, a skipped step, a condition that is false, and outputs that flow.
fn eventful() -> Value {
    json!({"name": "eventful", "steps": [
        step("a", "echo", &[], json!({"x": 2})),
        {"id": "flaky", "agent_type": "fail", "dependencies": ["a"], "inputs": {"times": 99}, "on_failure": "skip",
         "retry": {"max": 1, "initial_ms": 1, "max_ms": 1}},
        {"id": "never", "agent_type": "echo", "dependencies": ["a"], "when": "steps.a.outputs.x > 5"},
        step("b", "echo", &["a", "flaky", "never"], json!({"y": "{{ steps.a.outputs.x * 3 }}"})),
    ]})
}

/// Runs an eventful plan and exports it: its log, a line an event, and how it was served.
async fn exported() -> Result<(Vec<String>, Value)> {
    let it = Installation::embedded().await?;
    let id = it.submit(&eventful()).await?;
    let served = it.await_end(&id, LIMIT).await?;
    let events = it.get(&format!("/v1/plans/{id}/events?limit=1000")).await?;
    let lines = events["items"].as_array().expect("a list").iter().map(Value::to_string).collect();
    it.stop().await;
    Ok((lines, served))
}

fn fold(lines: &[String]) -> Result<Value, (usize, String)> {
    let mut state = None;
    for (n, line) in lines.iter().enumerate() {
        let record = Record::from_line(line).map_err(|error| (n, error.to_string()))?;
        goalmill_engine::replay(&mut state, &record).map_err(|error| (n, error.to_string()))?;
    }
    Ok(serde_json::to_value(state.expect("the log has events").view(true)).expect("a plan has a JSON form"))
}

fn replay(dir: &Path, lines: &[String], expect: Option<&Value>) -> Result<Output> {
    let file = dir.join("log.jsonl");
    std::fs::write(&file, lines.join("\n"))?;
    let mut command = Command::new(binary());
    command.arg("replay").arg(&file);
    if let Some(expect) = expect {
        let path = dir.join("plan.json");
        std::fs::write(&path, expect.to_string())?;
        command.arg("--expect").arg(path);
    }
    Ok(command.output()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_log_gives_what_was_served() -> Result<()> {
    let (lines, served) = exported().await?;
    assert!(served["counts"]["skipped"].as_u64() >= Some(1), "the plan was eventful: {served:#}");
    assert_eq!(fold(&lines), Ok(served.clone()));
    let dir = tempfile::tempdir()?;
    let good = replay(dir.path(), &lines, Some(&served))?;
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    let mut other = served;
    other["steps"][0]["status"] = json!("failed");
    let bad = replay(dir.path(), &lines, Some(&other))?;
    assert_eq!(bad.status.code(), Some(8));
    assert!(
        String::from_utf8_lossy(&bad.stderr).contains("/steps/0/status"),
        "{}",
        String::from_utf8_lossy(&bad.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_with_one_event_missing_swapped_or_repeated_is_refused_with_the_place() -> Result<()> {
    let (lines, _) = exported().await?;
    // Also renumbered, so that the numbers alone do not give it away.
    let renumbered = |lines: &[String]| -> Vec<String> {
        let number = |(n, line): (usize, &String)| {
            let mut event: Value = serde_json::from_str(line).expect("a line is JSON");
            event["seq"] = json!(n + 1);
            event.to_string()
        };
        lines.iter().enumerate().map(number).collect()
    };
    for n in 0..lines.len() - 1 {
        let mut without = lines.clone();
        without.remove(n);
        assert_eq!(fold(&without).expect_err("an event is missing").0, n, "without {}", lines[n]);
        let mut swapped = lines.clone();
        swapped.swap(n, n + 1);
        assert_eq!(fold(&swapped).expect_err("events are swapped").0, n);
        let mut repeated = lines.clone();
        repeated.insert(n, lines[n].clone());
        assert_eq!(fold(&repeated).expect_err("an event comes twice").0, n + 1);
        assert!(fold(&renumbered(&repeated)).is_err(), "twice, and renumbered: {}", lines[n]);
    }
    let dir = tempfile::tempdir()?;
    let mut without = lines.clone();
    without.remove(3);
    let refused = replay(dir.path(), &without, None)?;
    assert_eq!(refused.status.code(), Some(8));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("line 4") && told.contains("event 5") && told.contains("event 3"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_event_is_refused_or_gives_another_state() -> Result<()> {
    let (lines, served) = exported().await?;
    let dir = tempfile::tempdir()?;
    let mut changed = 0;
    for n in 0..lines.len() {
        for (from, to) in [
            ("step_completed", "step_failed"),
            ("step_skipped", "step_cancelled"),
            ("plan_completed", "plan_cancelled"),
            ("\"completed\"", "\"failed\""),
        ] {
            let kind = format!("\"type\":\"{from}\"");
            let line = match lines[n].contains(&kind) {
                true => lines[n].replace(&kind, &format!("\"type\":\"{to}\"")),
                false if from.starts_with('"') => lines[n].replace(from, to),
                false => continue,
            };
            if line == lines[n] {
                continue;
            }
            changed += 1;
            let mut tampered = lines.clone();
            tampered[n] = line;
            assert_ne!(fold(&tampered), Ok(served.clone()), "{} was taken for {}", tampered[n], lines[n]);
        }
    }
    assert!(changed >= 3, "something was changed");
    let completed = lines.iter().position(|line| line.contains("step_completed")).expect("a step completed");
    let mut tampered = lines.clone();
    tampered[completed] = lines[completed].replace("step_completed", "step_flew");
    let refused = replay(dir.path(), &tampered, None)?;
    assert_eq!(refused.status.code(), Some(8));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains(&format!("line {}", completed + 1)) && told.contains("step_flew"), "{told}");
    Ok(())
}
