//! `plan revisions`: lists the revisions of a plan.

use goalmill_common::id::PlanId;
use goalmill_common::revision::RevisionRecord;
use goalmill_common::view::Page;

use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit};
use crate::output::{Palette, Tone};
use crate::watch::short;

pub async fn run(context: &CommandContext, plan: &str) -> CommandResult {
    let plan = context.client.resolve(plan).await?;
    let page = context.client.revisions(&plan).await?;
    context.screen.list(
        &page,
        &page.items,
        |record| record.revision.to_string(),
        |palette| revisions_text(&page, &plan, palette),
    )?;
    Ok(Exit::Done)
}

fn revisions_text(page: &Page<RevisionRecord>, plan: &PlanId, palette: Palette) -> String {
    if page.items.is_empty() {
        return format!("plan {plan} was not revised\n");
    }
    let mut text = String::new();
    for record in &page.items {
        let who = record.actor.as_deref().unwrap_or(&record.planner);
        let about = record.step.as_ref().map(|step| format!(" of {step}")).unwrap_or_default();
        text.push_str(&format!(
            "{} {} · {} · {}{about} · {who} · confidence {:.2} → {:.2}\n",
            palette.tone(Tone::Bold, format!("revision {}", record.revision)),
            goalmill_common::clock::rfc3339(record.time_ms),
            record.strategy,
            record.trigger.replace('_', " "),
            record.confidence_before,
            record.confidence_after,
        ));
        for why in [&record.reason, &record.summary].into_iter().filter(|why| !why.is_empty()) {
            text.push_str(&format!("  {}\n", short(why)));
        }
        record.changes.iter().for_each(|line| text.push_str(&format!("    {}\n", short(line))));
    }
    text
}
