//! `schema`, `completions`, `man` and `version`.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use goalmill_common::schema::{NAMES, schema};
use goalmill_common::wire;
use goalmill_formats::format_schema;
use serde_json::{Value, json as object};

use crate::COMMIT;
use crate::args::{Cli, Format, SchemaArgs};
use crate::exit::{CommandResult, Exit, Failed};
use crate::features;
use crate::output::{Screen, json, yaml};

/// The schema of files of tests, which no server reads.
const TEST: &str = "test";

pub fn run(screen: &Screen, args: &SchemaArgs) -> CommandResult {
    if let Some(format) = args.format {
        return show(screen, format.as_str(), &format_schema(format));
    }
    let Some(name) = &args.name else {
        let names: Vec<&str> = NAMES.iter().copied().chain([TEST]).collect();
        screen.list(&names, &names, |name| (*name).to_owned(), |_| names.join("\n"))?;
        return Ok(Exit::Done);
    };
    let of_tests = || (name == TEST).then(goalmill_testkit::test_schema);
    let schema = schema(name)
        .or_else(of_tests)
        .ok_or_else(|| Failed::new(Exit::NotFound, format!("there is no schema `{name}`")))?;
    show(screen, name, &schema)
}

fn show(screen: &Screen, name: &str, schema: &Value) -> CommandResult {
    match screen.format {
        Format::Yaml => screen.text(&yaml(schema))?,
        Format::Name => screen.line(name)?,
        Format::Jsonl => screen.line(json(schema, false))?,
        Format::Table | Format::Wide | Format::Json | Format::None => screen.line(json(schema, true))?,
    }
    Ok(Exit::Done)
}

pub fn version(screen: &Screen) -> CommandResult {
    let version = env!("CARGO_PKG_VERSION");
    let about = object!({
        "version": version,
        "commit": COMMIT,
        "protocol": wire::PROTOCOL,
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "features": features::built_in(),
    });
    screen.show(&about, version, |_| format!("goalmill {version} ({COMMIT})"))?;
    Ok(Exit::Done)
}

/// Writes manual pages of the program and its commands to `dir`, or prints that of the program.
pub fn man(screen: &Screen, dir: Option<&Path>) -> CommandResult {
    let mut program = Cli::command();
    program.build();
    let Some(dir) = dir else {
        screen.text(&page(program)?)?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(dir)
        .map_err(|error| Failed::other(format!("`{}` cannot be made: {error}", dir.display())))?;
    let mut written = Vec::new();
    write_pages(program, dir, &mut written)?;
    screen.list(&written, &written, Clone::clone, |_| {
        format!("{} pages are written to {}", written.len(), dir.display())
    })?;
    Ok(Exit::Done)
}

fn write_pages(command: clap::Command, dir: &Path, written: &mut Vec<String>) -> Result<(), Failed> {
    let below: Vec<clap::Command> =
        command.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?)
        .map_err(|error| Failed::other(format!("`{}` cannot be written: {error}", path.display())))?;
    written.push(path.display().to_string());
    below.into_iter().try_for_each(|command| write_pages(command, dir, written))
}

fn page(command: clap::Command) -> Result<String, Failed> {
    let mut page = Vec::new();
    Man::new(command).manual("Goalmill").render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

pub fn completions(screen: &Screen, shell: Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "goalmill", &mut script);
    screen.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
