//! `worker list` and `worker drain`.

use std::time::Duration;

use goalmill_common::agent::WorkerBeat;
use goalmill_common::clock::{Clock, rfc3339};
use goalmill_common::id::WorkerId;
use goalmill_common::view::Page;
use tokio::time::{Instant, sleep};

use crate::args::TimeFormat;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Table, Tone, time};

pub async fn list(context: &CommandContext) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let page = client.workers().await?;
    screen.list(&page, &page.items, |beat| beat.worker.to_string(), |_| people(&page, clock, screen))?;
    Ok(Exit::Done)
}

/// Poll interval of a draining worker.
const LOOK: Duration = Duration::from_millis(500);

pub async fn drain(context: &CommandContext, part: &str, wait: bool, timeout: Option<Duration>) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let worker = find(&client.workers().await?.items, part)?;
    let beat = client.drain(&worker).await?;
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    while wait && client.workers().await?.items.iter().any(|beat| beat.worker == worker) {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Failed::new(Exit::Timeout, format!("worker {worker} has not ended yet; it goes on draining"))
                .help("look at it: goalmill worker list"));
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Exit::Interrupted);
            }
        }
    }
    screen.show(&beat, worker.as_str(), |_| match (wait, beat.busy) {
        (true, _) => format!("{worker} has ended"),
        (false, busy) => format!("{worker} drains; it runs {busy} tasks\n  look at it: goalmill worker list"),
    })?;
    Ok(Exit::Done)
}

/// The worker with this id, or with a unique beginning or end of it.
fn find(beats: &[WorkerBeat], part: &str) -> Result<WorkerId, Failed> {
    if let Some(beat) = beats.iter().find(|beat| beat.worker.as_str() == part) {
        return Ok(beat.worker.clone());
    }
    let means = |beat: &&WorkerBeat| {
        let id = beat.worker.as_str();
        !part.is_empty() && (id.starts_with(part) || id.ends_with(part))
    };
    let found: Vec<&WorkerBeat> = beats.iter().filter(means).collect();
    match found.as_slice() {
        [one] => Ok(one.worker.clone()),
        [] => Err(Failed::new(Exit::NotFound, format!("no worker is called `{part}`"))
            .help("list them: goalmill worker list")),
        [first, second, ..] => Err(Failed::new(
            Exit::Usage,
            format!("`{part}` is not unique: it may mean `{}` or `{}`", first.worker, second.worker),
        )
        .help("give more of the id")),
    }
}

fn people(page: &Page<WorkerBeat>, clock: &Clock, screen: &Screen) -> String {
    let (palette, form) = (screen.palette, screen.times(TimeFormat::Relative));
    let up = if form == TimeFormat::Relative { "UP" } else { "STARTED" };
    let mut table = Table::new(&["WORKER", "BUSY", "STATE", up, "SEEN", "HOST", "VERSION", "AGENTS"]).right(&[1, 3, 4]);
    for beat in &page.items {
        let agents: Vec<&str> = beat.agents.iter().map(|agent| agent.as_str()).collect();
        let state =
            if beat.draining { palette.tone(Tone::Wait, "draining") } else { palette.tone(Tone::Good, "ready") };
        table.row([
            beat.worker.to_string(),
            format!("{}/{}", beat.busy, beat.slots),
            state,
            time(&rfc3339(beat.started_ms), form, clock),
            time(&rfc3339(beat.seen_ms), form, clock),
            beat.host.clone(),
            beat.version.clone(),
            agents.join(","),
        ]);
    }
    table.render(palette, "no workers; start one: goalmill worker --demo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_found_by_a_unique_part_of_its_id() {
        let beat = |id: &str| -> WorkerBeat {
            serde_json::from_value(serde_json::json!({
                "worker": id, "agents": [], "slots": 1, "busy": 0, "draining": false, "version": "0", "host": "h",
                "started_ms": 0, "seen_ms": 0,
            }))
            .expect("it is a heartbeat")
        };
        let beats = [beat("host-aa"), beat("host-ab"), beat("host")];
        assert_eq!(find(&beats, "ab").expect("it is unique").as_str(), "host-ab");
        assert_eq!(find(&beats, "host").expect("it is a whole id").as_str(), "host");
        assert_eq!(find(&beats, "host-").expect_err("it may be two").exit, Exit::Usage);
        assert_eq!(find(&beats, "x").expect_err("there is none").exit, Exit::NotFound);
        assert_eq!(find(&beats, "").expect_err("it says nothing").exit, Exit::NotFound);
    }
}
