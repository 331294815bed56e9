//! `import`: converts workflows and documents of other systems to plans, goals, cards and answers of agents.

use goalmill_common::card::read_card;
use goalmill_common::failure::Failure;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_formats::convert_goal;
use goalmill_plan::document;
use goalmill_plan::foreign;
use goalmill_plan::validate;
use goalmill_worker::executor::feedback_envelope;
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

/// Fields of capability cards of other planners, and what a card calls them.
const CARD_ALIASES: [(&str, &str); 3] =
    [("specialization", "description"), ("cost_per_invocation", "cost"), ("avg_latency_ms", "latency_ms")];

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
    let draft = document::parse_document(text, document::Format::Auto, limits)?;
    if let Some(answer) = feedback_envelope(draft.to_string().as_bytes()) {
        let refused = |failure: Failure| vec![issue("ANSWER_INVALID", "", failure.message)];
        let notes = feedback_notes(&draft);
        return answer.map(|value| Converted { value, notes }).map_err(refused);
    }
    if foreign::is_card(&draft) {
        let agent = read_card(draft.to_string().as_bytes())?;
        return Ok(Converted { value: json!(agent), notes: card_notes(&draft) });
    }
    if !input::is_plan(&draft) {
        let converted = convert_goal(draft, limits)?;
        let goal = validate::goal(&converted.document, limits).map_err(|issues| converted.locate(issues))?;
        return Ok(Converted { value: json!(goal), notes: converted.notes });
    }
    Ok(match check_document(text, limits)? {
        Checked::Plan(planned) => Converted { value: json!(planned.plan), notes: planned.warnings },
        Checked::Goal { goal, notes } => Converted { value: json!(goal), notes },
    })
}

/// The fields of a card that have other names here.
fn card_notes(draft: &Value) -> Vec<Issue> {
    let renamed = CARD_ALIASES.iter().filter(|(theirs, _)| draft.get(theirs).is_some());
    renamed.map(|(theirs, ours)| converted_field(theirs, &format!("`{theirs}` is `{ours}` here"))).collect()
}

/// The fields of feedback that the answer of an agent does not have.
fn feedback_notes(draft: &Value) -> Vec<Issue> {
    let ignored = [
        ("task_id", "`task_id` is ignored: the task says which step it is"),
        ("duration_seconds", "`duration_seconds` is ignored: the worker measures the attempt"),
    ];
    let is_there = |(field, _): &(&str, &str)| draft.get(field).is_some();
    ignored.into_iter().filter(is_there).map(|(field, detail)| converted_field(field, detail)).collect()
}

fn converted_field(field: &str, detail: &str) -> Issue {
    issue("FORMAT_CONVERTED", &format!("/{field}"), detail.to_owned())
}

fn issue(code: &str, pointer: &str, detail: String) -> Issue {
    Issue { code: code.into(), pointer: pointer.into(), detail, hint: String::new() }
}

fn line(issue: &Issue) -> String {
    let place = if issue.pointer.is_empty() { "the document" } else { &issue.pointer };
    format!("{place}: {} ({})", issue.detail, issue.code)
}

pub fn wfformat(screen: &Screen, args: &WfformatArgs) -> CommandResult {
    let options = wfformat::ImportOptions { time_scale: args.time_scale, agent_type: args.agent_type.as_str().into() };
    let plan = wfformat::import_workflow(&read_file(&args.file)?, &options)
        .map_err(|error| Failed::invalid(format!("{}: {error}", args.file)))?;
    if screen.format == Format::Name {
        plan.steps.iter().try_for_each(|step| screen.line(step.id.as_str()))?;
    } else {
        print(screen, &plan)?;
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
    fn cards_and_feedback_come_out_in_our_form() {
        let card = converted(
            r#"{"agent_type": "venue_agent", "capabilities": ["search_venues"], "specialization": "Venues",
                "cost_per_invocation": 0.03, "avg_latency_ms": 1400, "success_rate": 0.91}"#,
        );
        assert_eq!(
            (&card.value["description"], &card.value["cost"], &card.value["latency_ms"]),
            (&json!("Venues"), &json!(0.03), &json!(1400))
        );
        assert_eq!(card.notes.len(), 3);
        let feedback = converted(
            r#"{"task_id": "t", "feedback_type": "constraint_violation", "errors": ["too dear"], "duration_seconds": 12,
                "cost": 0.03, "suggested_adjustments": "go further out"}"#,
        );
        assert_eq!(feedback.value["error"]["class"], "constraint_violation");
        assert_eq!(feedback.value["suggested_adjustments"][0]["description"], "go further out");
        assert!(feedback.notes.iter().any(|note| note.pointer == "/duration_seconds"), "{:?}", feedback.notes);
        for (text, place) in [
            (r#"{"agent_type": "a", "capabilities": [], "success_rate": 1.7}"#, "/success_rate"),
            (r#"{"task_id": "t", "feedback_type": "done"}"#, ""),
        ] {
            let Err(issues) = convert(text.as_bytes(), &Limits::default()) else { panic!("{text} is refused") };
            assert_eq!(issues[0].pointer, place);
        }
    }

    #[test]
    fn what_is_no_document_is_refused_at_its_place() {
        let issues = convert(br#"{"subtasks": [{"task_id": "a", "descrption": "x"}]}"#, &Limits::default());
        let Err(issues) = issues else { panic!("it is refused") };
        assert!(issues.iter().any(|issue| issue.pointer.starts_with("/subtasks/0")), "{issues:?}");
    }
}
