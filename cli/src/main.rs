//! `goalmill`: one program for all roles and client commands.

mod args;
mod bench;
mod commands;
mod context;
mod doctor;
mod eval;
mod exit;
mod features;
mod import;
#[cfg_attr(not(feature = "mcp"), path = "mcp_disabled.rs")]
mod mcp;
mod output;
mod plan_test;
mod planning_trace;
mod prompt;
mod replay;
mod roles;
mod shell_quoting;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use goalmill_common::telemetry::{self, LogFormat};
use tokio::runtime::Builder;

use args::{Cli, Command, Format, LogForm, RoleArgs};
use exit::CommandResult;
use output::Screen;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The commit that the program was built from, 12 hexadecimal digits, or `unknown`: `build.rs`.
const COMMIT: &str = env!("GOALMILL_COMMIT");

fn main() -> ExitCode {
    if let Some(ended) = goalmill_launcher::launch(std::env::args_os()) {
        return ended;
    }
    goalmill_http::install_tls();
    let cli = Cli::parse();
    if is_role(&cli.command) {
        if let Some(ended) = goalmill_launcher::run_as_init() {
            return ended;
        }
        if let Ok(program) = std::env::current_exe() {
            goalmill_launcher::set_program(program);
        }
    }
    let screen = Screen::new(&cli.globals);
    log(&cli);
    telemetry::set_commit(COMMIT);
    let is_server = server_args(&cli.command).is_some();
    if is_server {
        telemetry::log_panics();
    }
    ExitCode::from(match start(cli, screen.clone()) {
        Ok(exit) => exit.code(),
        Err(failed) => {
            let text = match screen.format {
                Format::Json | Format::Jsonl => failed.to_json().to_string(),
                Format::Table | Format::Wide | Format::Yaml | Format::Name | Format::None => format!("error: {failed}"),
            };
            let text = output::sanitize(&text);
            if is_server {
                telemetry::write_line(&text);
            } else {
                drop(writeln!(std::io::stderr(), "{text}"));
            }
            failed.exit.code()
        }
    })
}

/// Whether the process may start programs.
fn is_role(command: &Command) -> bool {
    matches!(command, Command::Dev(_) | Command::Scheduler(_) | Command::Worker(_))
        || matches!(command, Command::Test(args) if !args.agent.is_empty())
}

fn start(cli: Cli, screen: Screen) -> CommandResult {
    let mut builder = match threads() {
        // No other thread takes part: memory stays in one heap, and nothing is handed over.
        1 => Builder::new_current_thread(),
        several => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(several);
            builder
        }
    };
    let runtime = builder.enable_all().build()?;
    let outcome = runtime.block_on(commands::run(cli, screen));
    runtime.shutdown_background();
    outcome
}

/// Threads of the runtime: half of the cores, because a role shares its machine with Redis or with other roles, and
/// a switch between threads costs more than most of the work itself.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// The arguments of a scheduler or a worker: no person reads the output of these.
fn server_args(command: &Command) -> Option<&RoleArgs> {
    if let Command::Scheduler(args) = command {
        Some(&args.role)
    } else if let Command::Worker(args) = command
        && args.command.is_none()
    {
        Some(&args.run.role)
    } else {
        None
    }
}

/// Starts the log: warnings for client commands, info for roles, or the requested level.
fn log(cli: &Cli) {
    let role = server_args(&cli.command);
    let level = match (cli.globals.quiet, cli.globals.verbose) {
        (true, _) => "error",
        (false, 0) if role.is_some() => "info",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let format = match role.map(|role| role.log_format) {
        Some(LogForm::Json) => LogFormat::Json,
        Some(LogForm::Text) | None => LogFormat::Text,
    };
    telemetry::log(level, format);
}
