//! `import`: converts workflows of other systems to plans.

use super::input::read_file;
use crate::args::{Format, WfformatArgs};
use crate::exit::{CommandResult, Exit, Failed};
use crate::import::wfformat;
use crate::output::{Screen, json, yaml};

pub fn wfformat(screen: &Screen, args: &WfformatArgs) -> CommandResult {
    let options = wfformat::ImportOptions { time_scale: args.time_scale, agent_type: args.agent_type.as_str().into() };
    let plan = wfformat::plan(&read_file(&args.file)?, &options)
        .map_err(|error| Failed::invalid(format!("{}: {error}", args.file)))?;
    match screen.format {
        Format::Json => screen.line(json(&plan, true))?,
        Format::Jsonl => screen.line(json(&plan, false))?,
        Format::Name => plan.steps.iter().try_for_each(|step| screen.line(step.id.as_str()))?,
        Format::Table | Format::Wide | Format::Yaml | Format::None => screen.text(&yaml(&plan))?,
    }
    Ok(Exit::Done)
}
