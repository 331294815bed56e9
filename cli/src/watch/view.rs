//! The live view: lines for events, and in a terminal spinners for running steps.

use std::collections::BTreeMap;
use std::time::Duration;

use goalmill_common::event::Record;
use goalmill_common::id::StepId;
use goalmill_common::status::StepStatus;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::board::{Board, Row};
use super::lines::{change_lines, ending};
use super::note::short;
use crate::exit::Failed;
use crate::output::{Palette, Screen, cleanup_words, sanitize, seconds};

/// Most running steps that are shown.
const SPINNERS_MAX: usize = 12;
const TICK: Duration = Duration::from_millis(100);

/// Shows one plan.
pub struct View<'a> {
    screen: &'a Screen,
    /// Missing outside a terminal.
    spinners: Option<Spinners>,
}

impl<'a> View<'a> {
    pub fn new(screen: &'a Screen) -> Self {
        let spinners = (screen.live && screen.is_for_people()).then(|| Spinners::new(screen.palette));
        // On a terminal that cannot move its cursor they would swallow the lines.
        Self { screen, spinners: spinners.filter(|spinners| !spinners.bars.is_hidden()) }
    }

    /// Shows the change of `record`, which `board` already contains.
    pub fn show(&mut self, board: &Board, record: &Record) -> Result<(), Failed> {
        if !self.screen.is_for_people() {
            return Ok(());
        }
        let mut lines = change_lines(board, record, self.screen.palette, self.spinners.is_none());
        if board.status().is_final() {
            if let Some(spinners) = self.spinners.take() {
                spinners.end();
            }
            lines.extend(ending(board, self.screen.palette));
        }
        match &mut self.spinners {
            Some(spinners) => {
                for line in &lines {
                    spinners.bars.println(sanitize(line)).map_err(Failed::other)?;
                }
                spinners.update(board, record.event.step());
                Ok(())
            }
            None => lines.iter().try_for_each(|line| self.screen.line(line)),
        }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if let Some(spinners) = self.spinners.take() {
            spinners.end();
        }
    }
}

struct Spinners {
    bars: MultiProgress,
    total: ProgressBar,
    steps: BTreeMap<StepId, ProgressBar>,
    palette: Palette,
}

impl Spinners {
    fn new(palette: Palette) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let total = bars.add(ProgressBar::new_spinner());
        total.set_style(style("  {spinner} {msg} · {elapsed}"));
        total.enable_steady_tick(TICK);
        Self { bars, total, steps: BTreeMap::new(), palette }
    }

    fn update(&mut self, board: &Board, step: Option<&StepId>) {
        let counts = board.counts();
        if counts.total > 0 && self.total.length().is_none() {
            self.total.set_style(style(if self.palette.is_coloured() {
                "  {bar:24.cyan/dim} {pos}/{len} steps · {elapsed} · {msg}"
            } else {
                "  {bar:24} {pos}/{len} steps · {elapsed} · {msg}"
            }));
        }
        if counts.total == 0 {
            let tokens = board.usage().tokens;
            let spent = if tokens > 0 { format!(" · {tokens} tokens") } else { String::new() };
            self.total.set_message(format!("{}{spent}", board.status().as_str()));
            self.total.tick();
            return;
        }
        if let Some(row) = step.and_then(|step| board.row(step)) {
            self.update_step(&row);
        }
        self.total.set_length(counts.total.into());
        self.total.set_position((counts.completed + counts.failed + counts.skipped).into());
        let hidden = (counts.in_progress as usize).saturating_sub(self.steps.len());
        let status = board.status().as_str().replace('_', " ");
        let more = if hidden > 0 { format!(" · {hidden} more under way") } else { String::new() };
        self.total.set_message(format!("{status}{more}"));
        self.total.tick();
    }

    fn update_step(&mut self, row: &Row<'_>) {
        let is_shown = matches!(row.status, StepStatus::Queued | StepStatus::Running | StepStatus::Retrying);
        if !is_shown {
            if let Some(bar) = self.steps.remove(row.id()) {
                bar.finish_and_clear();
                self.bars.remove(&bar);
            }
            return;
        }
        if !self.steps.contains_key(row.id()) {
            if self.steps.len() >= SPINNERS_MAX {
                return;
            }
            let bar = self.bars.insert_before(&self.total, ProgressBar::new_spinner());
            bar.set_style(style(if self.palette.is_coloured() {
                "  {spinner:.cyan} {msg}"
            } else {
                "  {spinner} {msg}"
            }));
            bar.enable_steady_tick(TICK);
            self.steps.insert(row.id().clone(), bar);
        }
        if let Some(bar) = self.steps.get(row.id()) {
            bar.set_message(sanitize(&under_way(row)).into_owned());
        }
    }

    fn end(self) {
        for bar in self.steps.values() {
            bar.finish_and_clear();
        }
        self.total.finish_and_clear();
    }
}

/// Text of a step's spinner.
fn under_way(row: &Row<'_>) -> String {
    let doing = match (row.status, row.waiting_since_ms, row.due_ms) {
        (StepStatus::Retrying, Some(since), Some(due)) => {
            format!("{} waits {} for another try", row.status.mark(), seconds(due.saturating_sub(since)))
        }
        (StepStatus::Queued, ..) => "waits for a worker".into(),
        _ => match (row.message, row.progress) {
            (Some(message), _) if !message.is_empty() => short(message),
            (_, Some(share)) => format!("{:.0} %", share * 100.0),
            _ => short(&row.spec.description),
        },
    };
    let part = cleanup_words(row.spec.undoes.as_ref(), row.spec.always).map(|part| format!("  ({part})"));
    format!("{}  {}  {doing}{}", row.id(), row.agent_type, part.unwrap_or_default())
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are spelled here").progress_chars("━╸─")
}
