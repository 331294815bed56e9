//! Shows the reply of a model as progress of the step while it is streamed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use goalmill_llm::{Completion, CompletionDelta, CompletionRequest, ModelError, ModelRegistry};
use goalmill_worker::executor::Progress;
use tokio::time::Instant;

/// Time between two updates of the progress.
const INTERVAL: Duration = Duration::from_secs(1);
/// Characters of the reply that one update shows: its end.
const SHOWN_CHARS: usize = 160;
/// Bytes of the reply that are kept for that, at most twice as many.
const KEPT_BYTES: usize = 1_024;

/// Returns a whole completion.
///
/// - `shown`: the progress that shows it while it is written, the share that is done, and the number of the turn.
pub(crate) async fn complete(
    models: &Arc<ModelRegistry>,
    request: CompletionRequest,
    shown: Option<(Progress, f64, u32)>,
) -> Result<Completion, ModelError> {
    let Some((progress, share, turn)) = shown else { return models.complete(&request).await };
    let mut deltas = models.stream(request);
    let (mut tail, mut updated_at) = (ReplyTail::default(), Instant::now());
    while let Some(delta) = deltas.next().await {
        if let CompletionDelta::Ended(result) = delta {
            return *result;
        }
        tail.push(delta.content());
        if updated_at.elapsed() >= INTERVAL && tail.has_news {
            updated_at = Instant::now();
            progress.update(share, format!("turn {turn}: the model writes: {}", tail.shown()));
        }
    }
    Err(ModelError::Cancelled)
}

/// The end of a reply.
#[derive(Default)]
struct ReplyTail {
    text: String,
    /// More than what was shown last.
    has_news: bool,
}

impl ReplyTail {
    fn push(&mut self, more: &str) {
        self.text.push_str(more);
        self.has_news |= !more.is_empty();
        if self.text.len() > 2 * KEPT_BYTES {
            let from = self.text.ceil_char_boundary(self.text.len() - KEPT_BYTES);
            self.text.drain(..from);
        }
    }

    /// One line.
    fn shown(&mut self) -> String {
        self.has_news = false;
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let line = words.join(" ");
        let from = line.char_indices().rev().nth(SHOWN_CHARS - 1).map_or(0, |(at, _)| at);
        if from == 0 { line } else { format!("…{}", &line[from..]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_reply_is_shown_on_one_line() {
        let mut tail = ReplyTail::default();
        tail.push("first\n  second");
        assert_eq!(tail.shown(), "first second");
        assert!(!tail.has_news);
        for _ in 0..10_000 {
            tail.push("äb ");
        }
        assert!(tail.text.len() <= 2 * KEPT_BYTES, "{}", tail.text.len());
        let shown = tail.shown();
        assert!(shown.starts_with('…') && shown.chars().count() == SHOWN_CHARS + 1, "{shown}");
    }
}
