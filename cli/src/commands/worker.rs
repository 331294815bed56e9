//! `worker list`: the workers that run.

use goalmill_common::agent::WorkerBeat;
use goalmill_common::clock::{Clock, rfc3339};
use goalmill_common::view::Page;

use super::Context;
use crate::exit::{Exit, Outcome};
use crate::output::{Paint, Table, Tone, age};

pub async fn list(context: &Context) -> Outcome {
    let Context { screen, client, clock } = context;
    let page = client.workers().await?;
    screen.list(&page, &page.items, |beat| beat.worker.to_string(), |paint| people(&page, clock, paint))?;
    Ok(Exit::Done)
}

fn people(page: &Page<WorkerBeat>, clock: &Clock, paint: Paint) -> String {
    let mut table =
        Table::new(&["WORKER", "BUSY", "STATE", "UP", "SEEN", "HOST", "VERSION", "AGENTS"]).right(&[1, 3, 4]);
    for beat in &page.items {
        let agents: Vec<&str> = beat.agents.iter().map(|agent| agent.as_str()).collect();
        let state = if beat.draining { paint.tone(Tone::Wait, "draining") } else { paint.tone(Tone::Good, "ready") };
        table.row([
            beat.worker.to_string(),
            format!("{}/{}", beat.busy, beat.slots),
            state,
            age(&rfc3339(beat.started_ms), clock),
            age(&rfc3339(beat.seen_ms), clock),
            beat.host.clone(),
            beat.version.clone(),
            agents.join(","),
        ]);
    }
    table.render(paint, "no workers; start one: goalmill worker --demo")
}
