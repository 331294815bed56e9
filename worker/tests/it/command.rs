//! The `command` executor with real programs.

use std::path::Path;
use std::time::Duration;

use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::limits::Limits;
use goalmill_worker::executor::command::CommandExecutor;
use goalmill_worker::executor::{ExecutionResult, Executor, Progress};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::world::task;

fn command(settings: Value) -> CommandExecutor {
    let settings = serde_json::from_value(settings).expect("they are valid");
    CommandExecutor::new(settings, &Limits::default()).expect("it is made")
}

fn script(text: &str) -> CommandExecutor {
    command(json!({"argv": ["/bin/sh", "-c", text]}))
}

async fn run(command: &CommandExecutor) -> Result<ExecutionResult, Failure> {
    let task = task("a", "x", json!({"q": "it's; $HOME"}));
    let (progress, cancelled) = (Progress::default(), CancellationToken::new());
    let run = command.execute(&task, &progress, &cancelled);
    timeout(Duration::from_mins(1), run).await.expect("it ends")
}

#[tokio::test]
async fn a_program_reads_the_task_and_writes_the_outputs() {
    let outcome = run(&command(json!({"argv": ["/bin/cat"]}))).await.expect("it succeeds");
    let echoed = outcome.outputs.value();
    assert_eq!((&echoed["inputs"]["q"], &echoed["task"]["step"]), (&json!("it's; $HOME"), &json!("a")));
    assert!(echoed["task"].get("token").is_none());
}

#[tokio::test]
async fn a_program_that_was_killed_says_that_memory_may_be_the_reason() {
    let failure = run(&script("kill -9 $$")).await.expect_err("it is killed");
    assert_eq!(failure.code, "SIGNAL_9");
    assert!(failure.message.contains("memory"), "{}", failure.message);
}

#[tokio::test]
async fn a_program_that_ends_well_and_says_nothing_has_no_outputs() {
    assert_eq!(run(&script("exit 0")).await.expect("it is done").outputs.text(), "{}");
    let failure = run(&script("echo null")).await.expect_err("it says nothing");
    assert_eq!(failure.code, "ANSWER_EMPTY");
}

#[tokio::test]
async fn the_exit_code_decides_the_class() {
    for (text, class, code) in [
        ("echo oh >&2; exit 75", FailureClass::Transient, "EXIT_75"),
        ("echo oh >&2; exit 3", FailureClass::Permanent, "EXIT_3"),
        ("echo oh >&2; kill -9 $$", FailureClass::Transient, "SIGNAL_9"),
        (
            "echo oh >&2; echo '{\"error\":{\"code\":\"FULL\",\"message\":\"oh\"}}'; exit 1",
            FailureClass::Permanent,
            "FULL",
        ),
    ] {
        let failure = run(&script(text)).await.expect_err(text);
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{text}");
        assert!(failure.message.contains("oh"), "{text}: {}", failure.message);
    }
    let failure = run(&command(json!({"argv": ["/no/such/program"]}))).await.expect_err("it is missing");
    assert_eq!(failure.code, "COMMAND_NOT_STARTED");
}

#[tokio::test]
async fn the_environment_is_empty_but_for_what_is_let_through() {
    let settings = json!({"argv": ["/usr/bin/env"], "env": ["PATH"], "set": {"SPOKEN": "yes"}});
    let failure = run(&command(settings)).await.expect_err("a list of variables is not JSON");
    assert_eq!(failure.code, "ANSWER_INVALID");
    let shell =
        json!({"argv": ["/bin/sh", "-c", "echo \"[\\\"$SPOKEN\\\",\\\"$HOME\\\"]\""], "set": {"SPOKEN": "yes"}});
    let outcome = run(&command(shell)).await.expect("it succeeds");
    assert_eq!(outcome.outputs.value(), json!(["yes", ""]));
}

#[tokio::test]
async fn endless_output_is_refused() {
    let failure = run(&script("trap '' PIPE; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")).await;
    assert_eq!(failure.expect_err("it is too much").code, "OUTPUT_TOO_LARGE");
}

#[tokio::test]
async fn what_a_program_leaves_behind_does_not_hold_up_its_answer() {
    let outcome = run(&script("sleep 1000 & echo '{\"a\":1}'")).await.expect("it succeeds");
    assert_eq!(outcome.outputs.text(), r#"{"a":1}"#);
}

#[tokio::test]
async fn a_cancelled_program_may_clean_up() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let (ready, cleaned) = (dir.path().join("ready"), dir.path().join("cleaned"));
    let text = "trap 'touch {1}; exit 75' TERM; touch {0}; while :; do sleep 0.01; done";
    let text = text.replace("{0}", &ready.display().to_string()).replace("{1}", &cleaned.display().to_string());
    let (patient, task) = (script(&text), task("a", "x", json!({})));
    let (progress, cancelled) = (Progress::default(), CancellationToken::new());
    let cancelling = async {
        wait_for(|| ready.exists().then_some(())).await;
        cancelled.cancel();
    };
    let (result, ()) = tokio::join!(patient.execute(&task, &progress, &cancelled), cancelling);
    assert_eq!(result.expect_err("it was told to stop").code, "EXIT_75");
    assert!(cleaned.exists());
}

#[tokio::test]
async fn dropping_the_execution_kills_the_whole_group() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let file = dir.path().join("pid");
    let sleeper = script(&format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display()));
    let task = task("a", "x", json!({}));
    let (progress, cancelled) = (Progress::default(), CancellationToken::new());
    let mut execution = sleeper.execute(&task, &progress, &cancelled);
    let pid = tokio::select! {
        _ = &mut execution => panic!("it ended by itself"),
        pid = wait_for(|| std::fs::read_to_string(&file).ok()) => pid.trim().to_owned(),
    };
    assert!(is_alive(&pid));
    drop(execution);
    wait_for(|| (!is_alive(&pid)).then_some(())).await;
}

/// Whether the process runs; one that waits to be reaped does not.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(value) = found() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_mins(1), waiting).await.expect("it happens in time")
}
