//! `plan put`, `plan list --stored`, `plan get --stored`, `plan retire`: plans under names.

use std::path::Path;

use goalmill_common::limits::Limits;
use goalmill_common::stored_plan::{REF_FORM, StoredPlanRef, StoredPlanView, is_name};
use goalmill_plan::document::{self, Format as DraftFormat};

use super::submit::at_file;
use super::{cell, input};
use crate::args::{Format, TimeFormat};
use crate::context::CommandContext;
use crate::exit::{Exit, Failed};
use crate::output::{Table, time, yaml};

pub async fn put(context: &CommandContext, file: &str, name: Option<String>) -> Result<(), Failed> {
    let plan = input::document(file)?;
    let Some(name) = name.or_else(|| name_of(file, &plan.text)) else {
        let message = format!("`{file}` does not say under which name the plan is stored");
        return Err(Failed::new(Exit::Usage, message).help("give it by `--name NAME`, or as `name` in the document"));
    };
    let stored = context.client.put_stored_plan(&name, &plan).await;
    let view = stored.map_err(|error| at_file(error.into(), file, &plan.text))?;
    let plan = view.reference().to_string();
    context.screen.show(&view, &plan, |_| {
        let inputs = required_input(&view).map(|input| format!(" --input {input}=…")).unwrap_or_default();
        format!("{plan}\n  run it: goalmill run {plan}{inputs}\n")
    })?;
    Ok(())
}

/// The name in the document where it can name a stored plan, else that of the file.
fn name_of(file: &str, text: &str) -> Option<String> {
    let draft = document::parse_document(text.as_bytes(), DraftFormat::Auto, &Limits::default()).ok()?;
    let own = draft.get("name").and_then(|name| name.as_str()).filter(|name| is_name(name));
    let stem = || Path::new(file).file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_name(stem));
    own.or_else(stem).map(ToOwned::to_owned)
}

fn required_input(view: &StoredPlanView) -> Option<String> {
    let schema = view.input_schema.as_ref()?;
    Some(schema.get("required")?.get(0)?.as_str()?.to_owned())
}

/// Lists the newest version of every name, or all versions of one.
pub async fn list(context: &CommandContext, name: &str) -> Result<(), Failed> {
    let CommandContext { screen, client, clock, .. } = context;
    let page = if name.is_empty() { client.stored_plans().await? } else { client.stored_plan_versions(name).await? };
    screen.list(
        &page,
        &page.items,
        |view| view.reference().to_string(),
        |palette| {
            let form = screen.times(TimeFormat::Relative);
            let mut table = Table::new(&["PLAN", "STEPS", "STORED", "BY", "RETIRED", "WHAT"]).right(&[1, 2]);
            for view in &page.items {
                let retired = view.retired.as_ref().map(|retired| format!("by {}", retired.actor));
                table.row([
                    view.reference().to_string(),
                    view.steps.to_string(),
                    time(&view.stored_at, form, clock),
                    view.actor.clone(),
                    retired.unwrap_or_default(),
                    cell(screen, &view.description),
                ]);
            }
            table.render(palette, "no stored plans; store one: goalmill plan put FILE")
        },
    )?;
    Ok(())
}

/// Prints a version as a document, or with who stored it as JSON.
pub async fn get(context: &CommandContext, plan: &str) -> Result<(), Failed> {
    let stored = context.client.stored_plan(&reference(plan)?).await?;
    match context.screen.format {
        Format::Table | Format::Wide => context.screen.text(&yaml(&stored.document)),
        Format::Name => context.screen.line(stored.view.reference().to_string()),
        Format::Json | Format::Jsonl | Format::Yaml | Format::None => {
            context.screen.show(&stored, "", |_| String::new())
        }
    }
}

pub async fn retire(context: &CommandContext, plan: &str, reason: &str) -> Result<(), Failed> {
    let plan = reference(plan)?;
    let view = context.client.retire_stored_plan(&plan, reason).await?;
    let name = view.reference().to_string();
    context.screen.show(&view, &name, |_| format!("{name} is retired; plans that run go on\n"))?;
    Ok(())
}

fn reference(text: &str) -> Result<StoredPlanRef, Failed> {
    StoredPlanRef::parse(text).ok_or_else(|| {
        Failed::new(Exit::Usage, format!("`{text}` does not name a stored plan")).help(format!("give {REF_FORM}"))
    })
}
