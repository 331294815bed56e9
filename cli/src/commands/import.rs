//! `import`: converts workflows and documents of other systems to plans and goals.

use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_plan::draft;
use goalmill_plan::formats;
use goalmill_plan::validate;
use serde::Serialize;
use serde_json::{Value, json};

use super::config::settings;
use super::input::{self, read_file};
use super::source_lines;
use super::validate::{Checked, check_document};
use crate::args::{Format, WfformatArgs};
use crate::exit::{CommandResult, Exit, Failed};
use crate::import::wfformat;
use crate::output::{Screen, json as json_text, yaml};

/// Fields of which a plan has one; a goal has none of them.
const PLAN_FIELDS: [&str; 7] = ["steps", "subtasks", "tasks", "phases", "nodes", "edges", "plan"];

/// Converts a document of another planner.
pub fn document(screen: &Screen, file: &str) -> CommandResult {
    let document = input::document(file)?;
    let limits = settings(None, &[])?.settings.limits;
    let converted = match convert(document.text.as_bytes(), &limits) {
        Ok(converted) => converted,
        Err(issues) => {
            issues.iter().for_each(|issue| screen.note(line(issue)));
            for place in source_lines::excerpts(file, &document.text, &issues) {
                screen.note(format!("  ┌ {place}"));
            }
            return Err(Failed::invalid(format!("{file}: the document cannot be converted")));
        }
    };
    converted.notes.iter().for_each(|note| screen.note(line(note)));
    print(screen, &converted.value)?;
    Ok(Exit::Done)
}

/// A document in our form, and how it was read.
struct Converted {
    value: Value,
    notes: Vec<Issue>,
}

fn convert(text: &[u8], limits: &Limits) -> Result<Converted, Vec<Issue>> {
    let draft = draft::read(text, draft::Format::Auto, limits)?;
    let is_plan = draft.is_array() || PLAN_FIELDS.iter().any(|field| draft.get(field).is_some());
    if !is_plan {
        let converted = formats::convert_goal(draft, limits);
        let goal = validate::goal(&converted.document, limits).map_err(|issues| converted.locate(issues))?;
        return Ok(Converted { value: json!(goal), notes: converted.notes });
    }
    Ok(match check_document(text, limits)? {
        Checked::Plan(planned) => Converted { value: json!(planned.plan), notes: planned.warnings },
        Checked::Goal { goal, notes } => Converted { value: json!(goal), notes },
    })
}

fn line(issue: &Issue) -> String {
    let place = if issue.pointer.is_empty() { "the document" } else { &issue.pointer };
    format!("{place}: {} ({})", issue.detail, issue.code)
}

pub fn wfformat(screen: &Screen, args: &WfformatArgs) -> CommandResult {
    let options = wfformat::ImportOptions { time_scale: args.time_scale, agent_type: args.agent_type.as_str().into() };
    let plan = wfformat::plan(&read_file(&args.file)?, &options)
        .map_err(|error| Failed::invalid(format!("{}: {error}", args.file)))?;
    match screen.format {
        Format::Name => plan.steps.iter().try_for_each(|step| screen.line(step.id.as_str()))?,
        _ => print(screen, &plan)?,
    }
    Ok(Exit::Done)
}

/// Prints a document: YAML, unless JSON is asked for.
fn print(screen: &Screen, document: &impl Serialize) -> Result<(), Failed> {
    match screen.format {
        Format::Json => screen.line(json_text(document, true)),
        Format::Jsonl => screen.line(json_text(document, false)),
        Format::Table | Format::Wide | Format::Yaml | Format::Name | Format::None => screen.text(&yaml(document)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(text: &str) -> Converted {
        convert(text.as_bytes(), &Limits::default()).unwrap_or_else(|issues| panic!("{issues:#?}"))
    }

    #[test]
    fn plans_and_goals_of_other_planners_come_out_in_our_form() {
        let plan = converted(
            r#"{"plan_id": "p", "goal_id": "g", "execution_strategy": "sequential", "subtasks": [
                {"task_id": "a", "description": "look", "agent_type": "TBD", "status": "completed"},
                {"task_id": "b", "description": "book", "agent_type": "hotels", "dependencies": ["a"]}]}"#,
        );
        assert_eq!(
            (&plan.value["steps"][0]["agent_type"], &plan.value["steps"][1]["id"]),
            (&json!("auto"), &json!("b"))
        );
        assert_eq!(plan.notes[0].code, "FORMAT_CONVERTED");
        assert!(plan.notes.iter().any(|note| note.pointer == "/subtasks/0/status"), "{:?}", plan.notes);
        let goal = converted(
            r#"{"goal_id": "g", "description": "a trip", "constraints": [{"type": "budget", "value": "2000 USD", "priority": 9}]}"#,
        );
        assert_eq!(goal.value["description"], "a trip");
        assert!(goal.value.get("steps").is_none() && !goal.notes.is_empty(), "{}", goal.value);
    }

    #[test]
    fn what_is_no_document_is_refused_at_its_place() {
        let issues = convert(br#"{"subtasks": [{"task_id": "a", "descrption": "x"}]}"#, &Limits::default());
        let Err(issues) = issues else { panic!("it is refused") };
        assert!(issues.iter().any(|issue| issue.pointer.starts_with("/subtasks/0")), "{issues:?}");
    }
}
