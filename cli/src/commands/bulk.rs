//! `plan bulk`: a verb on all plans that a filter finds.

use goalmill_common::clock::Clock;
use goalmill_common::number::milliseconds;
use goalmill_common::view::BulkAnswer;
use serde_json::json;

use super::dead_letters::confirm;
use crate::args::BulkArgs;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit};
use crate::output::{Palette, Table, Tone, plan_tone};

pub async fn run(context: &CommandContext, args: &BulkArgs) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let mut body = json!({
        "status": args.status, "q": args.search, "limit": args.limit, "reason": args.reason, "dry_run": true,
        "unchanged_since_ms": args.unchanged_for.map(|time| before(clock, time)),
    });
    if !args.dry_run {
        if !args.yes {
            let chosen = client.steer_plans(&args.verb, body.clone()).await?;
            if !chosen.items.is_empty() {
                screen.note(text(&chosen, screen.palette));
                confirm(&format!("{} {} plans", args.verb, chosen.items.len()))?;
            }
        }
        body["dry_run"] = false.into();
    }
    let answer = client.steer_plans(&args.verb, body).await?;
    screen.list(&answer, &answer.items, |item| item.plan_id.to_string(), |palette| text(&answer, palette))?;
    if answer.next.is_some() {
        screen.note("there may be more plans; run it again to go on");
    }
    let is_refused = answer.items.iter().any(|item| item.problem.is_some());
    Ok(if is_refused { Exit::Other } else { Exit::Done })
}

fn before(clock: &Clock, time: std::time::Duration) -> u64 {
    clock.now_ms().saturating_sub(milliseconds(time))
}

fn text(answer: &BulkAnswer, palette: Palette) -> String {
    let mut table = Table::new(&["PLAN", "STATUS", "RESULT", "NAME"]);
    for item in &answer.items {
        let result = match &item.problem {
            Some(problem) => palette.tone(Tone::Bad, &problem.detail),
            None if item.is_done => "done".into(),
            None => "not done: dry run".into(),
        };
        let status = palette.tone(plan_tone(item.status), item.status.as_str());
        table.row([item.plan_id.to_string(), status, result, item.name.clone()]);
    }
    table.render(palette, "no plans fit")
}
