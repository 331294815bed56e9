//! Selects events by type, step and phase.

use goalmill_common::event::{self, Record};
use goalmill_common::id::is_id;
use schemars::Schema;

use super::query_parameters::RawParameters;
use super::response;

/// Longest phase, in characters.
const PHASE_CHARS_MAX: usize = 256;

/// Which events are wanted; all of them by default.
#[derive(Clone, Debug, Default)]
pub(super) struct EventFilter {
    pub(super) types: Vec<String>,
    /// Events of this step, and events of the plan that list it.
    pub(super) step: Option<String>,
    /// Events of this phase, and of its steps.
    pub(super) phase: Option<String>,
}

impl EventFilter {
    pub(super) const NAMES: [&'static str; 3] = ["types", "step", "phase"];

    pub(super) fn parse(given: &mut RawParameters) -> Self {
        Self {
            types: given.value("types", parse_types).unwrap_or_default(),
            step: given.value("step", parse_step),
            phase: given.value("phase", parse_phase),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.types.is_empty() && self.step.is_none() && self.phase.is_none()
    }

    pub(super) fn matches(&self, record: &Record) -> bool {
        let event = &record.event;
        self.step.as_deref().is_none_or(|step| event.concerns(step))
            && self.phase.as_deref().is_none_or(|phase| event.phase() == Some(phase))
            && (self.types.is_empty() || self.types.iter().any(|name| name == event.type_name()))
    }
}

/// Adds the form that [`parse_types`] takes.
pub(super) fn add_types_pattern(schema: &mut Schema) {
    let one = format!("({})", event::types().collect::<Vec<_>>().join("|"));
    schema.insert("pattern".into(), format!("^{one}(,{one})*$").into());
}

/// Reason and hint of what cannot be read.
type Refused = (String, String);

pub(super) fn parse_step(text: &str) -> Result<String, Refused> {
    match is_id(text) {
        true => Ok(text.to_owned()),
        false => Err((format!("`{}` is not an id", response::shown(text)), "give the step's id".to_owned())),
    }
}

pub(super) fn parse_phase(text: &str) -> Result<String, Refused> {
    match text.chars().count() <= PHASE_CHARS_MAX {
        true => Ok(text.to_owned()),
        false => Err((format!("a phase has at most {PHASE_CHARS_MAX} characters"), "give the phase's id".to_owned())),
    }
}

/// Parses a comma-separated list of event types; else returns reason and hint.
pub(super) fn parse_types(listed: &str) -> Result<Vec<String>, Refused> {
    let one = |name: &str| {
        if event::types().any(|known| known == name) {
            return Ok(name.to_owned());
        }
        let all: Vec<&str> = event::types().collect();
        let detail =
            format!("there are no events of the type `{}`; there are {}", response::shown(name), all.join(", "));
        Err((detail, "name some of these types, separated by commas, or leave `types` out".to_owned()))
    };
    listed.split(',').map(str::trim).map(one).collect()
}
