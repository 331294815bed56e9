//! `test --from-log`: repeats a recorded plan, with its recorded outcomes or with other agents, and finds the first
//! difference.

use goalmill_common::limits::Limits;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::PlanStatus;
use goalmill_testkit::{
    LogDifference, PlanTest, RecordedPlan, RunError, RunProgress, TestRun, first_difference, parse_agents,
};
use serde::Serialize;

use super::FILE_BYTES_MAX;
use super::agent_command::AgentCommands;
use crate::args::TestArgs;
use crate::commands::input;
use crate::commands::submit::at_file;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::Screen;

/// The result of a repetition.
#[derive(Debug, Serialize)]
struct Repetition {
    same: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<LogDifference>,
    /// Why the repetition has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    /// The status of the plan in the repetition.
    status: PlanStatus,
    /// Events of the log, and of the repetition.
    events: [usize; 2],
}

pub async fn run(screen: &Screen, args: &TestArgs, log: &str, limits: Limits) -> CommandResult {
    let text = input::read_file(log)?;
    let recorded = RecordedPlan::parse(&text).map_err(|why| Failed::invalid(format!("{log}: {why}")))?;
    let test = PlanTest { agents: mocks(args)?, ..PlanTest::default() };
    let agents = AgentCommands::new(&args.agent, &limits)?;
    let records = recorded.records().to_vec();
    let submit = recorded.submission();
    let run = TestRun::start(&test, submit, limits, &agents.names(), Some(recorded));
    let mut run = run.map_err(|error| Failed::invalid(format!("{log}: {error}")))?;
    let stopped = complete(&mut run, &agents).await.err().map(|error| error.to_string());
    let mut difference = first_difference(&records, run.log());
    if stopped.is_some() {
        // What is missing at the end follows from the stop.
        difference = difference.filter(|difference| !difference.is_end_of_log());
    }
    let outcome = run.outcome();
    for warning in outcome.warnings.iter().filter(|warning| warning.contains("mock")) {
        screen.warn(warning);
    }
    let repetition = Repetition {
        same: difference.is_none() && stopped.is_none(),
        events: [records.len(), run.log().len()],
        status: outcome.status,
        difference,
        stopped,
    };
    screen.show(&repetition, if repetition.same { "same" } else { "different" }, |_| match &repetition {
        Repetition { difference: Some(difference), .. } => difference.to_string(),
        Repetition { stopped: Some(why), .. } => format!("no difference until here: {why}"),
        Repetition { events: [recorded, _], status, .. } => {
            format!("the repetition is like the log: {recorded} events, `{}`", status.as_str())
        }
    })?;
    Ok(if repetition.same { Exit::Done } else { Exit::Other })
}

fn mocks(args: &TestArgs) -> Result<goalmill_testkit::AgentMocks, Failed> {
    let Some(file) = &args.mock else { return Ok(goalmill_testkit::AgentMocks::new()) };
    let text = input::read_bounded(file, FILE_BYTES_MAX)?;
    parse_agents(&input::parse(file, &text)?).map_err(|issues| {
        let problem = Problem::new(ErrorCode::InvalidRequest, "the mocks cannot be used").with_errors(issues);
        Failed { exit: Exit::InvalidInput, ..at_file(problem.into(), file, &text) }
    })
}

async fn complete(run: &mut TestRun, agents: &AgentCommands) -> Result<(), RunError> {
    while let RunProgress::Tasks(tasks) = run.advance().await? {
        for task in tasks {
            run.report(agents.report(&task).await);
        }
    }
    Ok(())
}
