//! `plan validate`: validates a plan locally, or on a named server, which also routes it.

use goalmill_common::command::Planned;
use goalmill_common::goal::{Goal, INPUTS};
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::view::Preview;
use goalmill_formats::{convert_goal, convert_plan, workflow_plan};
use goalmill_plan::document::{self, Format};
use goalmill_plan::foreign;
use goalmill_plan::validate::{self, Rules};

use super::config::settings;
use super::plan_inputs::{plan_inputs, with_inputs};
use super::{input, preview, source_lines};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit};

/// - `inputs`: flags that give inputs.
pub async fn run(context: &CommandContext, file: &str, inputs: &[String]) -> CommandResult {
    let source = input::document(file)?;
    let document = source.clone();
    let document = if inputs.is_empty() { document } else { with_inputs(document, plan_inputs(inputs)?) };
    let preview = if context.asked {
        context.client.validate(&document).await?
    } else {
        let preview = preview_document(document.text.as_bytes(), &settings(None, &[])?.settings.limits);
        if preview
            .plan
            .as_ref()
            .is_some_and(|plan| plan.steps.iter().any(|step| step.kind.needs_worker() && step.agent_type.is_open()))
        {
            context.screen.note("steps for `auto` are routed by a server only; name one with `--server URL`");
        }
        preview
    };
    preview::show(&context.screen, &preview)?;
    for place in source_lines::excerpts(file, &source.text, &preview.issues) {
        context.screen.note(format!("  ┌ {place}"));
    }
    Ok(if preview.valid { Exit::Done } else { Exit::InvalidInput })
}

fn preview_document(text: &[u8], limits: &Limits) -> Preview {
    match check_document(text, limits) {
        Ok(Checked::Goal { notes, .. }) => Preview { valid: true, warnings: notes, ..Preview::refused(Vec::new()) },
        Ok(Checked::Plan(planned)) => validate::preview(*planned, None),
        Err(issues) => Preview::refused(issues),
    }
}

/// What a document turned out to be.
pub(super) enum Checked {
    Plan(Box<Planned>),
    /// A workflow that makes its plan, with notes on how it was read.
    Goal {
        goal: Box<Goal>,
        notes: Vec<Issue>,
    },
}

/// Reads and validates a document, in our form or in that of another planner.
pub(super) fn check_document(text: &[u8], limits: &Limits) -> Result<Checked, Vec<Issue>> {
    let mut draft = document::parse_document(text, Format::Auto, limits)?;
    if foreign::is_workflow(&draft) {
        match workflow_plan(&draft) {
            Some(plan) => draft = plan,
            None => {
                let converted = convert_goal(draft, limits)?;
                let goal = validate::goal(&converted.document, limits).map_err(|issues| converted.locate(issues))?;
                return Ok(Checked::Goal { goal: Box::new(goal), notes: converted.notes });
            }
        }
    }
    let mut converted = convert_plan(draft, limits)?;
    let mut goal = match document::split_goal(&converted.document) {
        Some(goal) => validate::goal(&goal, limits).map_err(|issues| converted.locate(issues))?,
        None => Goal::default(),
    };
    let is_given = goal.metadata.contains_key(INPUTS);
    let rules = Rules { inputs: goal.input_names().filter(|_| is_given), ..Rules::default() };
    let valid =
        validate::validate_plan_by(&converted.document, limits, &rules).map_err(|issues| converted.locate(issues))?;
    if is_given {
        validate::give_inputs(&mut goal, valid.plan())?;
    }
    let planned = valid.with_notes(std::mem::take(&mut converted.notes)).without_routing().submitted();
    Ok(Checked::Plan(Box::new(planned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Preview {
        preview_document(text.as_bytes(), &Limits::default())
    }

    #[test]
    fn a_plan_is_checked_without_a_server() {
        let preview = checked("steps:\n- {id: a, agent_type: echo, estimates: {seconds: 2, cost: 0.5}}\n");
        assert!(preview.valid && preview.issues.is_empty(), "{preview:?}");
        assert_eq!((preview.critical_path_seconds, preview.cost), (2.0, 0.5));
        assert_eq!((preview.seconds_from.estimated, preview.seconds_from.unknown), (1, 0));
    }

    #[test]
    fn every_issue_is_named() {
        let preview =
            checked("steps:\n- {id: a, agent_type: echo, dependencies: [b]}\n- {id: c, agent_type: x, when: '{{'}\n");
        assert!(!preview.valid && preview.plan.is_none() && preview.issues.len() >= 2, "{preview:?}");
        let preview = checked("{\"steps\": [");
        assert_eq!(preview.issues.len(), 1, "{preview:?}");
    }
}
