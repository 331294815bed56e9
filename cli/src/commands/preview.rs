//! Shows a validated plan that does not run.

use goalmill_client::ClientError;
use goalmill_common::plan::Step;
use goalmill_common::problem::Issue;
use goalmill_common::view::{PlanningProgress, Preview, SecondsFrom};
use indicatif::ProgressBar;
use serde_json::{Map, Value};

use super::graph;
use crate::context::CommandContext;
use crate::exit::Failed;
use crate::output::{Palette, Screen, Tone, while_reporting};
use crate::watch::{cut, limits, short};

/// Characters of the inputs of one step.
const INPUTS_CHARS_MAX: usize = 240;

/// Plans a goal; a terminal shows the model that is asked, the mode and the tokens of its answers so far.
///
/// - `what`: the beginning of the line of progress.
pub async fn ask(context: &CommandContext, what: &str, goal: &Value) -> Result<Preview, ClientError> {
    let CommandContext { screen, client, .. } = context;
    if !screen.shows_progress() {
        return client.preview(goal).await;
    }
    let ask = |bar: ProgressBar| {
        client.preview_with_progress(goal, move |progress| bar.set_message(progress_text(what, progress)))
    };
    while_reporting(screen, what, ask).await
}

fn progress_text(what: &str, progress: &PlanningProgress) -> String {
    let PlanningProgress { model, mode, calls, output_tokens, seconds: _ } = progress;
    match calls {
        0 => what.to_owned(),
        1 => format!("{what} · `{model}` · {mode} · {output_tokens} tokens"),
        _ => format!("{what} · `{model}` · {mode} · call {calls} · {output_tokens} tokens"),
    }
}

/// Prints the issues of an invalid plan, or the steps of a valid one.
pub fn show(screen: &Screen, preview: &Preview) -> Result<(), Failed> {
    screen.show(preview, if preview.valid { "valid" } else { "invalid" }, |palette| preview_text(preview, palette))
}

fn preview_text(preview: &Preview, palette: Palette) -> String {
    let mut text = String::new();
    if preview.valid {
        text.push_str(&palette.tone(Tone::Good, "✓ the plan is valid"));
        let steps = preview.plan.as_ref().map_or(0, |plan| plan.steps.len());
        text.push_str(&format!(" · {} · {steps} steps · confidence {:.2}", preview.planner, preview.confidence));
        // Without estimates there is nothing to say about time.
        if preview.critical_path_seconds > 0.0 {
            text.push_str(&format!(" · longest path {:.1} s", preview.critical_path_seconds));
            text.push_str(&sources(preview.seconds_from));
        }
        // Minus zero, the sum of nothing, is shown as zero.
        text.push_str(&format!(" · {:.2} USD\n", preview.cost + 0.0));
    } else {
        let issues = preview.issues.len();
        let word = if issues == 1 { "issue" } else { "issues" };
        text.push_str(&palette.tone(Tone::Bad, format!("✗ the plan has {issues} {word}\n")));
    }
    preview.issues.iter().for_each(|issue| text.push_str(&issue_text(issue, Tone::Bad, palette)));
    preview.warnings.iter().for_each(|issue| text.push_str(&issue_text(issue, Tone::Wait, palette)));
    for line in preview.goal.iter().flat_map(|goal| goal.read_lines()) {
        let model = preview.goal.as_ref().map_or("", |goal| goal.model.as_str());
        text.push_str(&palette.tone(Tone::Dim, format!("  read by model {model}: {}\n", short(&line))));
    }
    let facts = preview.plan.as_ref().and_then(|plan| plan.metadata.get("facts")?.as_object());
    if let Some(facts) = facts {
        text.push_str(&palette.tone(Tone::Dim, facts_text(facts)));
    }
    for route in &preview.routes {
        let best = route.candidates.first().map(|c| format!(" (score {:.2})", c.score)).unwrap_or_default();
        text.push_str(&format!("  route {} → {}{best}\n", route.step, route.agent_type));
    }
    if let Some(plan) = preview.plan.as_ref().filter(|_| preview.valid) {
        let nodes: Vec<graph::Node> = plan.steps.iter().map(graph::Node::of_step).collect();
        text.push('\n');
        text.push_str(&graph::tree(&nodes, palette));
        text.push('\n');
        plan.steps.iter().for_each(|step| text.push_str(&step_text(step, palette)));
        if plan.approve.is_some() {
            text.push_str("  a person approves the plan before it starts\n");
        }
    }
    text
}

/// What one step does: its action, its description and its inputs as they are written.
fn step_text(step: &Step, palette: Palette) -> String {
    let action = if step.action.is_empty() { String::new() } else { format!(" · {}", step.action) };
    let described = [step.description.as_str()].into_iter().filter(|text| !text.is_empty());
    let described: String = described.map(|text| format!(" · {}", short(text))).collect();
    let value = step.inputs.value();
    let given = limits(value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()));
    let inputs = if given.is_empty() {
        given
    } else {
        palette.tone(Tone::Dim, format!("      {}\n", cut(&given, INPUTS_CHARS_MAX)))
    };
    format!("  {}{action}{described}\n{inputs}", step.id)
}

/// The facts that were read.
fn facts_text(facts: &Map<String, Value>) -> String {
    let read = limits(facts.iter());
    if read.is_empty() { read } else { format!("  read: {read}\n") }
}

/// Where the steps' seconds come from, as `(2 steps measured, 1 unknown)`; empty when there is none.
fn sources(from: SecondsFrom) -> String {
    let SecondsFrom { measured, estimated, declared, unknown } = from;
    let all = [(measured, "measured"), (estimated, "estimated"), (declared, "declared"), (unknown, "unknown")];
    let counts: Vec<String> = all.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) }
}

fn issue_text(issue: &Issue, tone: Tone, palette: Palette) -> String {
    let place = if issue.pointer.is_empty() { "/" } else { &issue.pointer };
    let mut text = format!("  {} at {place}: {}\n", palette.tone(tone, &issue.code), issue.detail);
    if !issue.hint.is_empty() {
        text.push_str(&format!("    help: {}\n", issue.hint));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_progress_names_model_mode_and_tokens_once_a_model_is_asked() {
        let at = |calls| PlanningProgress {
            model: "small".into(),
            mode: "json_schema".into(),
            calls,
            output_tokens: 312,
            seconds: 2.0,
        };
        assert_eq!(progress_text("planning", &at(0)), "planning");
        assert_eq!(progress_text("planning", &at(1)), "planning · `small` · json_schema · 312 tokens");
        assert_eq!(progress_text("planning", &at(2)), "planning · `small` · json_schema · call 2 · 312 tokens");
    }

    #[test]
    fn a_step_is_shown_with_its_action_its_description_and_its_inputs() {
        let step = json!({"id": "hotels", "agent_type": "hotel_agent", "action": "search_hotels", "description": "Find a hotel",
                          "inputs": {"nights": 3, "flight": "{{ steps.flights.outputs.best }}", "rooms": null}});
        let step: Step = serde_json::from_value(step).expect("it is a step");
        let expected =
            "  hotels · search_hotels · Find a hotel\n      nights 3 · flight {{ steps.flights.outputs.best }}\n";
        assert_eq!(step_text(&step, Palette::new(false)), expected);
        assert_eq!(step_text(&Step::new("a", "b"), Palette::new(false)), "  a\n");
    }

    #[test]
    fn facts_are_one_line() {
        let text = |facts: Value| facts_text(facts.as_object().expect("facts are an object"));
        assert_eq!(
            text(json!({"destination": "Paris", "travellers": 2})),
            "  read: destination Paris · travellers 2\n"
        );
        assert_eq!(text(json!({})), "");
    }
}
