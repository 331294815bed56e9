//! Programs of the executor `command`: they end with their worker, and so does everything that they started.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use goalmill_tests::dev::Dev;
use goalmill_tests::process::{Process, binary};
use goalmill_tests::wait::{SOON, until, until_some};

/// A program that writes its own process id and that of a child in another session to `pids`, and then does as `does` says.
fn settings(dir: &std::path::Path, does: &str) -> String {
    let pids = dir.join("pids").display().to_string();
    let script = format!("setsid sleep 600 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; {does}");
    format!("[worker.agents.starter]\nkind = \"command\"\nenv = [\"PATH\"]\nargv = [\"sh\", \"-c\", '{script}']\n")
}

const PLAN: &str = "steps: [{id: a, agent_type: starter, timeout: 60s, retry: {max: 0}}]";

/// The processes that the program wrote down.
async fn started(dir: &std::path::Path) -> Result<Vec<String>> {
    let read = async || {
        let text = std::fs::read_to_string(dir.join("pids")).ok()?;
        Some(text.split_whitespace().map(str::to_owned).collect())
    };
    until_some(SOON, read).await.context("the program did not start")
}

/// Whether a process runs; one that ended and is not awaited yet does not.
fn runs(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

async fn wait_ended(processes: &[String]) {
    until(SOON, async || !processes.iter().any(|process| runs(process))).await;
}

#[tokio::test]
async fn programs_end_with_a_worker_that_is_killed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut dev = Dev::start(&[], &settings(dir.path(), "sleep 600")).await?;
    std::fs::write(dev.file("plan.yaml"), PLAN)?;
    dev.says(&["run", &dev.file("plan.yaml").display().to_string()], 0)?;
    let processes = started(dir.path()).await?;
    ensure!(processes.len() == 2 && processes.iter().all(|process| runs(process)), "{processes:?} should run");
    dev.restart(&[]).await?;
    wait_ended(&processes).await;
    Ok(())
}

#[tokio::test]
async fn a_child_that_left_the_group_does_not_hold_the_step() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let dev = Dev::start(&[], &settings(dir.path(), r#"echo "{\"outputs\": {}}""#)).await?;
    std::fs::write(dev.file("plan.yaml"), PLAN)?;
    dev.says(&["run", &dev.file("plan.yaml").display().to_string(), "--wait"], 0)?;
    wait_ended(&started(dir.path()).await?).await;
    Ok(())
}

#[tokio::test]
async fn a_program_that_exceeds_its_time_limit_ends_with_all_its_children() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let dev = Dev::start(&[], &settings(dir.path(), "trap \"\" TERM; sleep 600")).await?;
    std::fs::write(dev.file("plan.yaml"), PLAN.replace("60s", "1s"))?;
    dev.says(&["run", &dev.file("plan.yaml").display().to_string(), "--wait"], 3)?;
    wait_ended(&started(dir.path()).await?).await;
    Ok(())
}

#[tokio::test]
async fn process_1_reaps_what_is_handed_to_it_and_passes_signals_on() -> Result<()> {
    let unshare = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine does not allow process namespaces");
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("log");
    // Its own orphan, which ends: process 1 gets it. The list is printed by the last process before it becomes `sleep`.
    let orphan = "(sh -c \"sleep 0.1 & exec true\"); exec $0 dev --listen 127.0.0.1:0 --metrics off";
    let mut command = Command::new("unshare");
    command.args(unshare).args(["sh", "-c", orphan]).arg(binary());
    command.env("HOME", "/nowhere").env("GOALMILL_CONFIG", dir.path().join("none.toml"));
    std::fs::write(dir.path().join("none.toml"), "")?;
    let mut process = Process::spawn(&mut command, &log)?;
    process.wait_line("Ctrl-C stops everything", SOON).await?;
    let init = children(&process.pid().to_string()).pop().context("process 1 runs")?;
    let only_the_role = async || children(&init).iter().all(|child| runs(child)) && children(&init).len() == 1;
    until(SOON, only_the_role).await;
    let role = children(&init).pop().context("the role runs")?;
    goalmill_tests::process::signal(init.parse()?, goalmill_tests::process::Signal::SIGTERM)?;
    wait_ended(&[role]).await;
    process.wait_exit(SOON).await?;
    Ok(())
}

/// The children of a process, also those that are not awaited yet.
fn children(process: &str) -> Vec<String> {
    let list = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}
