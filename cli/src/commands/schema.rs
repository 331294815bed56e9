//! `schema` and `completions`: what the program knows about itself.

use clap::CommandFactory;
use clap_complete::Shell;
use goalmill_common::schema::{NAMES, schema};

use crate::args::{Cli, Format, SchemaArgs};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Screen, json, yaml};

pub fn run(screen: &Screen, args: &SchemaArgs) -> Outcome {
    let Some(name) = &args.name else {
        screen.list(&NAMES, NAMES, |name| (*name).to_owned(), |_| NAMES.join("\n"))?;
        return Ok(Exit::Done);
    };
    let schema = schema(name).ok_or_else(|| Failed::new(Exit::NotFound, format!("there is no schema `{name}`")))?;
    match screen.format {
        Format::Yaml => screen.text(&yaml(&schema))?,
        Format::Name => screen.line(name)?,
        Format::Jsonl => screen.line(json(&schema, false))?,
        Format::Table | Format::Json => screen.line(json(&schema, true))?,
    }
    Ok(Exit::Done)
}

pub fn completions(screen: &Screen, shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "goalmill", &mut script);
    screen.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
