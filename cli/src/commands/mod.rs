//! Runs the command of the command line; one file per noun or verb.

mod agent;
mod approvals;
mod archive;
mod bulk;
mod codes;
pub mod config;
mod dead_letters;
mod diff;
mod edit_request;
mod event;
mod events;
mod explain;
mod fork;
mod goal_document;
mod graph;
mod health;
mod import;
pub mod input;
mod logs;
mod model_check;
mod plan;
mod plan_inputs;
mod planner;
pub mod preview;
mod questions;
mod queue;
pub mod results;
mod revisions;
mod schema;
mod source_lines;
mod stats;
mod step;
mod stored_plans;
pub mod submit;
mod token;
mod validate;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use goalmill_client::{Client, Notice};
use goalmill_common::clock::Clock;
use goalmill_engine::Engine;

use results::show_results;

use crate::args::{Cli, Command, Format, Globals, ImportCommand, SERVER, WorkerCommand};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Failed};
use crate::output::Screen;
use crate::{bench, doctor, eval, mcp, plan_test, replay, roles, watch};

/// Runs the command of the command line.
pub async fn run(cli: Cli, screen: Screen) -> CommandResult {
    // What checks a server tells what it is like now.
    let repeats = !matches!(cli.command, Command::Doctor(_));
    let context = prepare_context(cli.globals, repeats, screen)?;
    match cli.command {
        Command::Dev(args) => roles::dev::run(&context, &args).await,
        Command::Trial => std::process::exit(goalmill_scheduler::run_trial(std::io::stdin(), Engine::default())),
        Command::Scheduler(args) => roles::scheduler::run(&context.screen, &args).await,
        Command::Worker(args) => match args.command {
            Some(WorkerCommand::List) => worker::list(&context).await,
            Some(WorkerCommand::Drain { worker, wait, timeout }) => {
                worker::drain(&context, &worker, wait, timeout).await
            }
            None => roles::worker::run(&context.screen, &args.run).await,
        },
        Command::Submit(args) => submit::goal(&context, &args).await,
        Command::Run(args) => submit::plan(&context, &args).await,
        Command::Watch(args) => watch_plan(&context, &args).await,
        Command::Plan(command) => plan::run(&context, command).await,
        Command::Step(command) => step::run(&context, command).await,
        Command::Explain(args) => explain::run(&context, &args).await,
        Command::Events(args) => events::run(&context, &args).await,
        Command::Event(command) => event::run(&context, command).await,
        Command::Logs(args) => logs::run(&context, &args).await,
        Command::Stats(args) => stats::run(&context, &args).await,
        Command::Agent(command) => agent::run(&context, command).await,
        Command::Planner(command) => planner::run(&context, command).await,
        Command::Model(command) => planner::models(&context, &command).await,
        Command::Queue(command) => queue::run(&context, command).await,
        Command::Dead(command) => dead_letters::run(&context, command).await,
        Command::Token(command) => token::run(&context, command).await,
        Command::Archive(command) => archive::run(&context, command).await,
        Command::Test(args) => plan_test::run(&context.screen, &args).await,
        Command::Replay(args) => replay::run(&context.screen, &args),
        Command::Bench(args) => {
            let json = matches!(context.screen.format, Format::Json | Format::Jsonl);
            bench::run(args, json).await.map_err(|error| Failed::other(format!("{error:#}")))
        }
        Command::Eval(args) => eval::run(&context, &args).await,
        Command::Doctor(args) => doctor::run(&context, &args).await,
        Command::Health => health::run(&context).await,
        Command::Config(args) => config::run(&context.screen, &args),
        Command::Schema(args) => schema::run(&context.screen, &args),
        Command::Mcp(args) => Box::pin(mcp::run(&context, args.allow_writes)).await,
        Command::Import(ImportCommand::Document { file }) => import::document(&context.screen, &file),
        Command::Import(ImportCommand::Wfformat(args)) => import::wfformat(&context.screen, &args),
        Command::Completions(args) => schema::completions(&context.screen, args.shell),
        Command::Man(args) => schema::man(&context.screen, args.dir.as_deref()),
        Command::Version => schema::version(&context.screen),
    }
}

/// What commands work with.
///
/// - `repeats`: whether requests are repeated that may be repeated.
fn prepare_context(globals: Globals, repeats: bool, screen: Screen) -> Result<CommandContext, Failed> {
    let asked = globals.server.is_some();
    let server = globals.server.as_deref().unwrap_or(SERVER);
    let Globals { token, ca_file, namespace, retry_for, .. } = globals;
    let retry_for = if repeats { retry_for } else { Duration::ZERO };
    let notices = screen.clone();
    let notice: Notice = Arc::new(move |text| notices.note(text));
    let client = Client::new(server)?
        .with_token(token)?
        .with_ca_file(ca_file.as_deref())?
        .in_namespace(namespace)?
        .retrying(retry_for, Some(notice).filter(|_| screen.is_for_people()));
    Ok(CommandContext { client, asked, screen, clock: Clock::system() })
}

async fn watch_plan(context: &CommandContext, args: &crate::args::WatchArgs) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let plan = client.resolve(&args.plan).await?;
    let patience = watch::Patience { show: true, stop_at_approval: false, timeout: args.timeout, ..Default::default() };
    let waited = watch::wait(screen, watch::Source::Api(client.clone()), &plan, patience).await?;
    if let (false, watch::Waited::Settled(board)) = (screen.is_for_people(), &waited)
        && let Some(results) = board.results()
    {
        show_results(screen, &results)?;
    }
    Ok(watch::left_alone(screen, &plan, &waited))
}

/// The first line of a text, cut unless the output is wide.
fn cell(screen: &Screen, text: &str) -> String {
    if screen.is_wide() { watch::cut(text, usize::MAX) } else { watch::short(text) }
}

/// Refuses a text that is not a valid id.
fn checked_id(what: &str, text: &str) -> Result<(), Failed> {
    if goalmill_common::id::is_id(text) {
        return Ok(());
    }
    Err(Failed::new(crate::exit::Exit::Usage, format!("`{text}` is no {what}"))
        .help("ids are letters, digits, `.`, `_`, `:`, `-`, and begin with a letter or digit"))
}
