//! Regression tests: worst-case inputs stay within the operation budget.

use crate::catalogue::ToolCatalogue;
use crate::limits::{ReaderLimits, WorkBudget};
use crate::reading::{TextEnd, UnreadableReason, Verdict};
use crate::stream::Stream;

#[path = "../tests/reader/worst_case.rs"]
mod texts;

/// Large enough that what grows faster than the text shows, and small enough for a test. Bytes.
const SIZE: usize = 4 * 1024;

#[test]
fn no_text_costs_more_than_its_length_allows_and_what_does_is_said_to() {
    let schema = serde_json::json!({"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]});
    let known = ToolCatalogue::from_schemas([("f", None), ("get_weather", None), ("do_it", Some(&schema))]);
    let limits = ReaderLimits::default();
    for (name, text) in texts::texts(SIZE) {
        let over = over(&text);
        for catalogue in [&ToolCatalogue::default(), &known] {
            let budget = WorkBudget::for_text(&text);
            let allowed = budget.left();
            let reading = crate::value::within(&text, TextEnd::Stopped, catalogue, &limits, &budget);
            assert!(budget.spent() <= allowed + over, "reading {name} costs {} of {allowed}", budget.spent());
            assert!(budget.left() > 0 || is_said(reading.verdict), "{name} is {:?}", reading.verdict);

            let (finding, gathering) = (WorkBudget::for_text(&text), WorkBudget::half_for_text(&text));
            let reading = crate::calls::within(&text, catalogue, &limits, &finding, &gathering);
            assert!(finding.spent() <= allowed + over, "finding {name} costs {} of {allowed}", finding.spent());
            let half = WorkBudget::half_for_text(&text).left();
            assert!(gathering.spent() <= half + over, "gathering {name} costs {} of {half}", gathering.spent());
            let spent = finding.left() == 0 || gathering.left() == 0;
            assert!(!spent || is_said(reading.verdict), "{name} is {:?}", reading.verdict);
        }
    }
}

#[test]
fn no_stream_costs_more_than_its_length_allows_however_small_the_pieces() {
    for (name, text) in texts::texts(SIZE) {
        let mut stream = Stream::new(ReaderLimits::default());
        for piece in text.as_bytes().chunks(16) {
            stream.push(piece);
        }
        let allowed = WorkBudget::half_for_text(&text).left() + over(&text);
        assert!(stream.work() <= allowed, "{name} costs {} of {allowed}", stream.work());
    }
}

/// What the one thing that uses the work up may cost: it reads to the end of the text in two ways, and
/// looks ahead on the way.
fn over(text: &str) -> usize {
    24 * text.len() + 8192
}

/// Whether a verdict says that not all was read.
fn is_said(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Exact | Verdict::Repaired => false,
        Verdict::Truncated { .. } => true,
        Verdict::Unreadable { reason } => reason != UnreadableReason::NothingFound,
    }
}
