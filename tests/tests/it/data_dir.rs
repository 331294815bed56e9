//! `goalmill dev --data-dir` goes on where a former process ended.

use anyhow::Result;
use goalmill_tests::dev::Dev;
use goalmill_tests::installation::step;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

/// Leases that are much longer than the test may take.
const SETTINGS: &str = "[scheduler]\nshard_lease_ms = 3600000\ntask_lease_ms = 3600000\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_after_kill_9_without_waiting_for_the_leases_of_the_process_before() -> Result<()> {
    let data = tempfile::tempdir()?;
    let arguments = ["--data-dir", data.path().to_str().expect("a temporary directory has a plain name")];
    let mut dev = Dev::start(&arguments, SETTINGS).await?;
    let file = dev.file("plan.json");
    let steps = [step("a", "sleep", &[], json!({"ms": 5_000})), step("b", "echo", &["a"], json!({}))];
    std::fs::write(&file, json!({"steps": steps}).to_string())?;
    let plan = dev.says(&["run", file.to_str().expect("it has a plain name"), "-o", "name"], 0)?.trim().to_owned();
    let get = |dev: &Dev| -> Value {
        let text = dev.says(&["plan", "get", &plan, "-o", "json"], 0).expect("the plan is there");
        serde_json::from_str(&text).expect("it is JSON")
    };
    until(SOON, async || get(&dev)["steps"][0]["status"] == "running").await;
    dev.restart(&arguments).await?;
    until(SOON, async || get(&dev)["status"] == "completed").await;
    Ok(())
}
