//! Lists in prose: numbered, dashed, or one word `Step 1:` a line. Each item is a step with a description.

use serde_json::{Map, Value};

use crate::edit::{EditKind, Edits};
use crate::limits::ReaderLimits;
use crate::reading::{Item, Reading, TextEnd, Verdict};
use crate::shape;
use crate::span::TextSpan;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextLine<'a> {
    Item(&'a str),
    /// A number or a dash, and nothing behind it.
    Bare,
    Other,
}

/// Reads the items of a list in prose; nothing unless there are two.
///
/// Nothing closes such a list, so its last line counts only if nothing says that it was cut.
pub(crate) fn parse_lines(text: &str, ended: TextEnd, limits: &ReaderLimits) -> Option<Reading> {
    let mut items = Vec::new();
    let mut at = 0;
    let mut cut = None;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let last = at == text.len() && !line.ends_with('\n');
        match self::line(line.trim()) {
            TextLine::Item(_) if items.len() >= limits.values_max => {
                cut = Some(start);
                break;
            }
            TextLine::Item(words) if is_entry(words) => return None,
            TextLine::Item(words) => {
                let from = start + line.find(words)?;
                let bold = line.matches("**").count() % 2 == 1;
                if last && (ended == TextEnd::Cut || bold || is_cut(words, &items)) {
                    cut = Some(text.trim_end().len());
                }
                items.push(Item { value: step(words), span: TextSpan::new(from, from + words.len()) });
            }
            TextLine::Bare if last && !items.is_empty() => cut = Some(text.trim_end().len()),
            TextLine::Other if last && goes_on(line) && (ended == TextEnd::Cut || ends_inside(line.trim())) => {
                cut = Some(text.trim_end().len());
            }
            TextLine::Bare | TextLine::Other => {}
        }
    }
    if items.len() < 2 {
        return None;
    }
    let span = TextSpan::new(items.first()?.span.start, items.last()?.span.end);
    if cut.is_some() && at == text.len() && is_open(text, span.end) {
        items.pop();
    }
    let mut edits = Edits::default();
    edits.respelled(EditKind::LinesListed, span, span.slice(text), "");
    let value = Value::Array(items.iter().map(|i| i.value.clone()).collect());
    let verdict = cut.map_or(Verdict::Repaired, |at| Verdict::Truncated { at });
    Some(Reading { verdict, value: Some(value), span, items, edits: edits.list, others: Vec::new() })
}

fn step(words: &str) -> Value {
    let mut step = Map::new();
    step.insert("description".to_owned(), Value::String(words.to_owned()));
    Value::Object(step)
}

/// Whether an item is an entry of a table, as YAML writes it: such a list is no prose.
fn is_entry(words: &str) -> bool {
    words.split_once(':').is_some_and(|(key, _)| key.starts_with(char::is_lowercase) && shape::is_step_key(key))
}

/// Whether a line continues with the item above it.
fn goes_on(line: &str) -> bool {
    line.starts_with([' ', '\t']) && !line.trim().is_empty()
}

/// Whether the text ends in the item that ends at `end`: on its line, or on a line that continues with it.
fn is_open(text: &str, end: usize) -> bool {
    let mut rest = text[end..].split('\n').skip(1);
    !text.ends_with('\n') && rest.all(goes_on)
}

/// What stands behind `1.`, `2)`, `-`, `*`, `•` or `Step 3:`.
fn line(line: &str) -> TextLine<'_> {
    let line = line.trim_start_matches(['*', '#']).trim_start();
    let words = |rest: &'_ str| rest.is_empty().then_some(TextLine::Bare);
    if let Some(rest) = line.strip_prefix(['-', '•']) {
        let item = rest.trim();
        return words(item).unwrap_or(if rest.starts_with(' ') { TextLine::Item(item) } else { TextLine::Other });
    }
    let step = line.strip_prefix("Step ").or_else(|| line.strip_prefix("step "));
    let rest = step.unwrap_or(line);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 4 {
        return TextLine::Other;
    }
    if digits == rest.len() {
        return TextLine::Bare;
    }
    let Some(rest) = rest[digits..].strip_prefix(['.', ')', ':']) else { return TextLine::Other };
    let item = rest.trim_matches(['*', ' ', ':']);
    words(item).unwrap_or(if rest.starts_with([' ', '*']) { TextLine::Item(item) } else { TextLine::Other })
}

/// Words that are not the last of a sentence.
const INNER: [&str; 34] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "because", "between", "but", "by", "each", "for", "from", "his",
    "if", "into", "is", "its", "my", "of", "or", "our", "than", "that", "the", "their", "to", "using", "via", "which",
    "with", "your",
];

/// Whether the words plainly end in the middle: in a bracket or a quote, behind a word that wants another, or without
/// the full stop that all the items before them have.
fn is_cut(words: &str, before: &[Item]) -> bool {
    let stops = ['.', '!', '?', ';', '。', '！', '？', '；', '…'];
    let stopped = |item: &Item| item.value["description"].as_str().is_some_and(|w| w.ends_with(stops));
    ends_inside(words) || before.len() > 1 && before.iter().all(stopped) && !words.ends_with(stops)
}

/// Whether a line ends in a bracket or a quote, or behind a sign or a word that wants another.
pub(crate) fn ends_inside(words: &str) -> bool {
    let count = |sign: char| words.matches(sign).count();
    let open = [('(', ')'), ('[', ']'), ('{', '}'), ('（', '）'), ('“', '”'), ('「', '」'), ('《', '》')];
    let last = words.rsplit(' ').next().unwrap_or(words);
    words.ends_with([',', '(', '[', '{', '/', '&', '+', '=', '-', '–', ':', '，', '、', '：', '\\', '<'])
        || open.iter().any(|(open, close)| count(*open) > count(*close))
        || count('`') % 2 == 1
        || count('"') % 2 == 1
        || INNER.contains(&last)
}
