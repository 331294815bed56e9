//! Lists in prose: numbered, dashed, or one word `Step 1:` a line. Each item is a step with a description.

use serde_json::{Map, Value};

use crate::edit::{EditKind, Edits};
use crate::reading::{Item, Reading, Verdict};
use crate::span::Span;

/// Reads the items of a list in prose; nothing unless there are two.
pub(crate) fn read(text: &str) -> Option<Reading> {
    let mut items = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(words) = item(line.trim()) else { continue };
        let from = start + line.find(words)?;
        let mut step = Map::new();
        step.insert("description".to_owned(), Value::String(words.to_owned()));
        items.push(Item { value: Value::Object(step), span: Span::new(from, from + words.len()) });
    }
    if items.len() < 2 {
        return None;
    }
    let span = Span::new(items.first()?.span.start, items.last()?.span.end);
    let mut edits = Edits::default();
    edits.respelled(EditKind::LinesListed, span, span.of(text), "");
    let value = Value::Array(items.iter().map(|i| i.value.clone()).collect());
    Some(Reading { verdict: Verdict::Repaired, value: Some(value), span, items, edits: edits.list, others: Vec::new() })
}

/// What stands behind `1.`, `2)`, `-`, `*`, `•` or `Step 3:`.
fn item(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(['*', '#']).trim_start();
    if let Some(rest) = line.strip_prefix(['-', '•']) {
        return rest.starts_with(' ').then(|| rest.trim()).filter(|r| !r.is_empty());
    }
    let step = line.strip_prefix("Step ").or_else(|| line.strip_prefix("step "));
    let rest = step.unwrap_or(line);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 4 {
        return None;
    }
    let rest = rest[digits..].strip_prefix(['.', ')', ':'])?;
    rest.starts_with([' ', '*']).then(|| rest.trim_matches(['*', ' ', ':'])).filter(|r| !r.is_empty())
}
