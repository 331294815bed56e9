//! `logs`: the newest events of all plans.

use std::collections::BTreeMap;
use std::time::Duration;

use goalmill_client::LogQuery;
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::json::Json;
use goalmill_common::number::milliseconds;
use serde::Deserialize;

use super::events::{event_text, head};
use crate::args::{Format, LogsArgs};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::Tone;

/// Poll interval of `--follow`.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum delay between an event's time and its visibility, in milliseconds.
const LATE_MS: u64 = 5_000;
/// Events per request of `--follow`.
const PAGE_MAX: u16 = 1_000;

pub async fn run(context: &CommandContext, args: &LogsArgs) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let plan = match &args.plan {
        Some(plan) => Some(client.resolve(plan).await?),
        None => None,
    };
    let since_ms = clock.now_ms().saturating_sub(milliseconds(args.since));
    let step = args.step.clone().unwrap_or_default();
    let phase = args.phase.clone().unwrap_or_default();
    let text = args.text.clone().unwrap_or_default();
    let (types, conditions) = (args.types.clone(), args.conditions.clone().unwrap_or_default());
    let mut query = LogQuery { plan, step, types, phase, text, conditions, since_ms, limit: args.limit };
    let page = client.logs(&query).await?;
    if matches!(screen.format, Format::Json | Format::Yaml) && !args.follow {
        screen.show(&page, "", |_| String::new())?;
        return Ok(Exit::Done);
    }
    let mut seen = SeenEvents::default();
    seen.print(context, &page.items)?;
    if !args.follow {
        if page.items.is_empty() {
            screen.note("nothing in that time; look further back with `--since 24h`");
        }
        return Ok(Exit::Done);
    }
    query.limit = PAGE_MAX;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Exit::Interrupted);
            }
        }
        query.since_ms = seen.until_ms.saturating_sub(LATE_MS).max(since_ms);
        seen.print(context, &client.logs(&query).await?.items)?;
    }
}

/// Printed events: the last of each plan, and the latest time.
#[derive(Default)]
struct SeenEvents {
    last: BTreeMap<String, u64>,
    until_ms: u64,
}

#[derive(Deserialize)]
struct Whose {
    plan_id: String,
}

impl SeenEvents {
    /// Prints the events not printed before.
    fn print(&mut self, context: &CommandContext, items: &[Json]) -> Result<(), Failed> {
        let CommandContext { screen, clock, .. } = context;
        for item in items {
            let (line, event) = (item.text(), head(item.text())?);
            let Whose { plan_id } = serde_json::from_str(line)
                .map_err(|error| Failed::other(format!("the event `{line}` cannot be read: {error}")))?;
            self.until_ms = self.until_ms.max(parse_rfc3339(event.time).unwrap_or(0));
            let last = self.last.entry(plan_id.clone()).or_default();
            if event.seq <= *last {
                continue;
            }
            *last = event.seq;
            match screen.format {
                Format::Json | Format::Jsonl | Format::Yaml => screen.line(line)?,
                Format::Name => screen.line(event.type_name)?,
                Format::None => {}
                Format::Table | Format::Wide => {
                    let plan = screen.palette.tone(Tone::Dim, format!("{plan_id:<20}"));
                    screen.line(format!("{plan} {}", event_text(&event, screen, clock)))?;
                }
            }
        }
        Ok(())
    }
}
