//! Colours and marks of statuses.

use console::Style;
use goalmill_common::status::{PlanStatus, StatusGroup, StepStatus};

/// Meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    /// Waits, or needs attention.
    Wait,
    /// Running.
    Busy,
    /// Secondary.
    Dim,
    Bold,
}

/// Adds colours when enabled.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    colours: bool,
}

impl Palette {
    pub fn new(colours: bool) -> Self {
        Self { colours }
    }

    #[cfg(test)]
    pub fn plain() -> Self {
        Self { colours: false }
    }

    pub fn is_coloured(self) -> bool {
        self.colours
    }

    pub fn tone(self, tone: Tone, text: impl AsRef<str>) -> String {
        let text = text.as_ref();
        if !self.colours || text.is_empty() {
            return text.into();
        }
        let style = Style::new().force_styling(true);
        let style = match tone {
            Tone::Good => style.green(),
            Tone::Bad => style.red(),
            Tone::Wait => style.yellow(),
            Tone::Busy => style.cyan(),
            Tone::Dim => style.dim(),
            Tone::Bold => style.bold(),
        };
        style.apply_to(text).to_string()
    }
}

pub fn plan_tone(status: PlanStatus) -> Tone {
    group_tone(status.group())
}

pub fn step_tone(status: StepStatus) -> Tone {
    if status.is_in_flight() { Tone::Busy } else { group_tone(status.group()) }
}

fn group_tone(group: StatusGroup) -> Tone {
    match group {
        StatusGroup::Good => Tone::Good,
        StatusGroup::Bad => Tone::Bad,
        StatusGroup::Warn | StatusGroup::Person => Tone::Wait,
        StatusGroup::Busy => Tone::Busy,
        StatusGroup::Next | StatusGroup::Idle => Tone::Dim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_there_are_no_control_codes() {
        assert_eq!(Palette::plain().tone(Tone::Bad, "failed"), "failed");
        assert!(Palette::new(true).tone(Tone::Bad, "failed").contains("\u{1b}[31m"));
    }
}
