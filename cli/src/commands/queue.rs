//! `queue`: waiting and running tasks by agent type.

use std::time::Duration;

use goalmill_common::view::{Page, QueueView};

use super::checked_id;
use crate::args::QueueCommand;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Table, Tone};

pub async fn run(context: &CommandContext, command: QueueCommand) -> CommandResult {
    match command {
        QueueCommand::List => show(context, &context.client.queues().await?)?,
        QueueCommand::Pause { agent_type } => steer(context, &agent_type, "pause").await?,
        QueueCommand::Resume { agent_type } => steer(context, &agent_type, "resume").await?,
        QueueCommand::Top { interval, count } => return top(context, interval, count).await,
    }
    Ok(Exit::Done)
}

async fn steer(context: &CommandContext, agent_type: &str, verb: &str) -> Result<(), Failed> {
    checked_id("agent type", agent_type)?;
    let queue = context.client.steer_queue(agent_type, verb).await?;
    context.screen.show(&queue, agent_type, |_| {
        if queue.paused {
            let on_it = queue.waiting;
            format!("{agent_type} is paused; {on_it} tasks are on the queue and will be taken\n  go on: goalmill queue resume {agent_type}")
        } else {
            format!("{agent_type} goes on")
        }
    })
}

async fn top(context: &CommandContext, interval: Duration, count: Option<u32>) -> CommandResult {
    let mut looks = 0;
    loop {
        let page = context.client.queues().await?;
        if context.screen.live && context.screen.is_for_people() {
            context.screen.clear()?;
        }
        show(context, &page)?;
        looks += 1;
        if count.is_some_and(|count| looks >= count) {
            return Ok(Exit::Done);
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Exit::Done);
            }
        }
    }
}

fn show(context: &CommandContext, page: &Page<QueueView>) -> Result<(), Failed> {
    context.screen.list(page, &page.items, |queue| queue.agent_type.to_string(), |palette| people(page, palette))
}

fn people(page: &Page<QueueView>, palette: Palette) -> String {
    let mut table =
        Table::new(&["AGENT", "WAITING", "RUNNING", "WORKERS", "SLOTS", "DEAD", ""]).right(&[1, 2, 3, 4, 5]);
    for queue in &page.items {
        let is_stuck = queue.waiting > 0 && queue.workers == 0;
        let dead = queue.dead_letters.to_string();
        table.row([
            queue.agent_type.to_string(),
            queue.waiting.to_string(),
            queue.running.to_string(),
            queue.workers.to_string(),
            queue.slots.to_string(),
            if queue.dead_letters > 0 { palette.tone(Tone::Bad, dead) } else { dead },
            match (&queue.quarantined, queue.paused, is_stuck) {
                (Some(problem), ..) => palette.tone(Tone::Bad, format!("in quarantine: {problem}")),
                (None, true, _) => palette.tone(Tone::Wait, "paused"),
                (None, false, true) => palette.tone(Tone::Wait, "no worker serves it"),
                (None, false, false) => String::new(),
            },
        ]);
    }
    table.render(palette, "no queues yet; they come with the first step or worker of an agent type")
}
