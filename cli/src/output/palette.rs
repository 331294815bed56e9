//! Colours and marks of statuses.

use console::Style;
use goalmill_common::status::{PlanStatus, StepStatus};

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
    match status {
        PlanStatus::Completed => Tone::Good,
        PlanStatus::Failed | PlanStatus::Rejected => Tone::Bad,
        PlanStatus::Partial | PlanStatus::AwaitingApproval | PlanStatus::Paused => Tone::Wait,
        PlanStatus::Planning | PlanStatus::Running | PlanStatus::Replanning => Tone::Busy,
        PlanStatus::Cancelled => Tone::Dim,
    }
}

pub fn step_tone(status: StepStatus) -> Tone {
    match status {
        StepStatus::Completed => Tone::Good,
        StepStatus::Failed => Tone::Bad,
        StepStatus::Retrying | StepStatus::Blocked | StepStatus::AwaitingApproval => Tone::Wait,
        StepStatus::Queued | StepStatus::Running => Tone::Busy,
        StepStatus::Pending | StepStatus::Ready | StepStatus::Skipped | StepStatus::Cancelled | StepStatus::Revised => {
            Tone::Dim
        }
    }
}

/// One character for a step's status.
pub fn mark(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Completed => "✓",
        StepStatus::Failed => "✗",
        StepStatus::Skipped => "○",
        StepStatus::Cancelled => "⊘",
        StepStatus::Revised => "~",
        StepStatus::Retrying => "↻",
        StepStatus::Running => "▶",
        StepStatus::Queued => "»",
        StepStatus::Blocked => "!",
        StepStatus::AwaitingApproval => "?",
        StepStatus::Ready | StepStatus::Pending => "·",
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
