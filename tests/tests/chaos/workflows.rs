//! Traces of workflows, imported and run by two schedulers and three workers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::config::environment;
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::wait::{SOON, until};
use goalmill_tests::workload::{Shape, workflow};
use serde_json::Value;

use crate::machine;

const LIMIT: Duration = Duration::from_mins(5);

/// Imports a trace with the client's own command.
fn import(cluster: &Cluster, file: &Path) -> Result<Value> {
    let path = file.to_str().context("a path is text")?;
    let output = cluster.command(&["import", "wfformat", path, "--time-scale", "0", "-o", "json"]).output()?;
    ensure!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The made traces, and those of the directory in `GOALMILL_DATA`.
fn traces(cluster: &Cluster) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (n, steps) in [10, 60, 300, 2_000].into_iter().enumerate() {
        let shape = Shape { steps, width: 4 + steps / 20, parents_max: 4, seconds_max: 30.0 };
        let file = cluster.dir.path().join(format!("made-{steps}.json"));
        std::fs::write(&file, workflow(shape, n as u64).wfformat(&format!("made {steps}")).to_string())?;
        files.push(file);
    }
    if let Some(data) = environment("GOALMILL_DATA") {
        let mut found: Vec<PathBuf> =
            std::fs::read_dir(Path::new(&data).join("wfinstances"))?.flatten().map(|entry| entry.path()).collect();
        found.sort();
        ensure!(!found.is_empty(), "`{data}/wfinstances` holds no traces");
        files.extend(found);
    }
    Ok(files)
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_workflows_complete_in_order_with_each_step_done_once() -> Result<()> {
    let _machine = machine().await;
    let cluster = Cluster::start(Options::default()).await?;
    for file in traces(&cluster)? {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let document: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
        let traced = document["workflow"]["specification"]["tasks"].as_array().context("a trace has tasks")?;
        let plan = cluster.submit(&name, &import(&cluster, &file)?, LIMIT).await?;
        cluster.await_end(&plan, LIMIT).await?;
        let state = cluster.verify_completed(&plan).await.with_context(|| name.clone())?;
        ensure!(state.counts().completed as usize == traced.len(), "{name}: {:?}", state.counts());
        ensure!(in_order(traced, &cluster.lines(&plan).await?), "{name}: a task began before its parent's end");
        eprintln!("{name}: {} steps completed, {} events", traced.len(), state.seq());
    }
    until(SOON, async || cluster.is_idle().await.unwrap_or(false)).await;
    Ok(())
}

/// Whether each task of the trace went out after all its parents, by the trace and not by the plan.
fn in_order(traced: &[Value], lines: &[Value]) -> bool {
    let places = |kind: &str| -> BTreeMap<&str, usize> {
        let of = lines.iter().enumerate().filter(|(_, line)| line["type"] == kind);
        of.map(|(place, line)| (line["step_id"].as_str().unwrap_or_default(), place)).collect()
    };
    let (out, completed) = (places("step_queued"), places("step_completed"));
    let place = |of: &BTreeMap<&str, usize>, id: &Value| of.get(id.as_str().unwrap_or_default()).copied();
    traced.iter().all(|task| {
        let out = place(&out, &task["id"]);
        let parents = task["parents"].as_array().into_iter().flatten();
        let before = |parent: &Value| place(&completed, parent).is_some_and(|done| Some(done) < out);
        out.is_some() && parents.into_iter().all(before)
    })
}
