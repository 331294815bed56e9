//! `explain`: why a plan does not progress, as a chain of causes with hints; and the meaning of a code.

use goalmill_common::view::Explanation;

use super::codes;
use crate::args::ExplainArgs;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Tone, plan_tone, step_tone};

pub async fn run(context: &CommandContext, args: &ExplainArgs) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    if args.codes {
        return codes::list(screen);
    }
    if codes::is_meant(&args.plan) {
        return codes::explain(screen, &args.plan);
    }
    let plan = client.resolve(&args.plan).await?;
    let mut explanation = client.explain(&plan).await?;
    if let Some(step) = &args.step {
        explanation.steps.retain(|candidate| candidate.step_id.as_str() == step);
        if explanation.steps.is_empty() {
            let known = client.plan(&plan).await?.steps;
            if !known.iter().any(|candidate| candidate.id.as_str() == step) {
                return Err(Failed::new(Exit::NotFound, format!("plan {plan} has no step `{step}`"))
                    .help(format!("list its steps: goalmill plan get {plan}")));
            }
            screen.note(format!("nothing holds step {step} up"));
        }
    }
    screen.show(&explanation, plan.as_str(), |palette| people(&explanation, palette))?;
    if screen.is_for_people() && args.step.is_none() && !explanation.status.is_final() {
        let view = client.plan(&plan).await?;
        for line in super::questions::open_requests(&view, &context.clock) {
            screen.line(format!("\n{} {line}", screen.palette.tone(Tone::Wait, "?")))?;
        }
    }
    Ok(Exit::Done)
}

fn people(explanation: &Explanation, palette: Palette) -> String {
    let status = palette.tone(plan_tone(explanation.status), explanation.status.as_str());
    let plan = palette.tone(Tone::Bold, explanation.plan_id.as_str());
    let mut text = format!("{plan}  {status}\n{}\n", explanation.summary);
    if !explanation.planner_note.is_empty() {
        text.push_str(&format!("{} {}\n", palette.tone(Tone::Wait, "!"), explanation.planner_note));
    }
    for line in &explanation.goal_read {
        text.push_str(&palette.tone(Tone::Dim, format!("read in the text of the goal: {line}\n")));
    }
    for step in &explanation.steps {
        let tone = step_tone(step.status);
        let id = palette.tone(Tone::Bold, step.step_id.as_str());
        text.push_str(&format!(
            "\n{} {id}  {}\n",
            palette.tone(tone, step.status.mark()),
            palette.tone(tone, step.status.as_str())
        ));
        for (depth, cause) in step.because.iter().enumerate() {
            text.push_str(&format!("{}└─ {cause}\n", "   ".repeat(depth + 1)));
        }
        if !step.hint.is_empty() {
            let indent = "   ".repeat(step.because.len() + 1);
            text.push_str(&format!("{indent}{} {}\n", palette.tone(Tone::Good, "→"), step.hint));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use goalmill_common::status::{PlanStatus, StepStatus};
    use goalmill_common::view::StepExplanation;

    use super::*;

    #[test]
    fn each_cause_hangs_under_the_one_before() {
        let explanation = Explanation {
            plan_id: "p0-1".into(),
            status: PlanStatus::Running,
            summary: "1 step waits".into(),
            planner_note: "planner `llm` gave no plan".into(),
            goal_read: vec!["budget: 2000 USD".into()],
            steps: vec![StepExplanation {
                step_id: "budget".into(),
                status: StepStatus::Pending,
                because: vec!["it waits for `hotels`".into(), "no worker serves `hotel_agent`".into()],
                hint: "goalmill worker --agents hotel_agent".into(),
            }],
        };
        let want = "p0-1  running\n1 step waits\n! planner `llm` gave no plan\nread in the text of the goal: budget: 2000 USD\n\n· budget  pending\n   └─ it waits for `hotels`\n      └─ no worker serves \
                    `hotel_agent`\n         → goalmill worker --agents hotel_agent\n";
        assert_eq!(people(&explanation, Palette::plain()), want);
    }
}
