//! Progress of the calls of a planner, for those who wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::response_mode::ResponseMode;

/// Shared by a planner, whose calls move it, and by who shows it. Its calls are streamed, so that it moves.
#[derive(Clone, Debug, Default)]
pub struct ProgressMeter(Arc<Mutex<CallProgress>>);

/// How far calls have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallProgress {
    /// The name of the model that is called; empty before the first call.
    pub model: String,
    /// How the form of its answer is requested.
    pub mode: Option<ResponseMode>,
    /// Calls that have begun.
    pub calls: u64,
    /// Tokens of the answers so far; those of the answer under way are estimated.
    pub output_tokens: u64,
    /// The part of `output_tokens` of the last call.
    last_tokens: u64,
}

impl ProgressMeter {
    pub fn current_progress(&self) -> CallProgress {
        self.progress().clone()
    }

    pub(crate) fn begin(&self, model: &str, mode: ResponseMode) {
        let mut progress = self.progress();
        let (calls, output_tokens) = (progress.calls.saturating_add(1), progress.output_tokens);
        *progress = CallProgress { model: model.to_owned(), mode: Some(mode), calls, output_tokens, last_tokens: 0 };
    }

    pub(crate) fn add_output(&self, tokens: u64) {
        let mut progress = self.progress();
        progress.output_tokens = progress.output_tokens.saturating_add(tokens);
        progress.last_tokens = progress.last_tokens.saturating_add(tokens);
    }

    /// The last call has ended with so many tokens.
    pub(crate) fn end(&self, tokens: u64) {
        let mut progress = self.progress();
        progress.output_tokens = progress.output_tokens.saturating_sub(progress.last_tokens).saturating_add(tokens);
        progress.last_tokens = tokens;
    }

    fn progress(&self) -> MutexGuard<'_, CallProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimated_tokens_are_replaced_by_counted_ones() {
        let meter = ProgressMeter::default();
        meter.begin("a", ResponseMode::JsonSchema);
        meter.add_output(5);
        meter.add_output(2);
        assert_eq!(meter.current_progress().output_tokens, 7);
        meter.end(4);
        meter.begin("b", ResponseMode::Text);
        meter.add_output(3);
        let progress = meter.current_progress();
        assert_eq!((progress.model.as_str(), progress.calls, progress.output_tokens), ("b", 2, 7));
        assert_eq!(progress.mode, Some(ResponseMode::Text));
    }
}
