//! Fuzzes the reader with mutated texts and checks properties of every result.
//!
//! `cargo run --release -p goalmill-reader --example fuzz_corpus -- SECONDS [SEED] [FILE…]`: of a `.jsonl` file the `raw`
//! fields are seeds, of any other the whole text. The dearest texts that are known come first. A text that breaks a rule is written to `failed-N.txt` in the
//! folder for temporary files. It needs no nightly compiler, which the fuzz target does.

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use goalmill_reader::{
    Edit, Item, ReaderLimits, Reading, Stream, TextEnd, ToolCatalogue, Verdict, parse_calls, parse_ended_value,
    parse_value,
};
use serde_json::Value;

#[path = "../tests/reader/worst_case.rs"]
mod worst_case;

/// Pieces that notations are made of, and texts that once were hard.
const SEEDS: &[&str] = include!("../tests/reader/hostile.rs");
/// What one text may cost in one way of reading it. Microseconds of processor time.
const COST_MAX_US: u64 = 50_000;
/// Most texts are short, so that many are tried. Bytes.
const SHORT_MAX: usize = 4096;
/// One in this many texts is long.
const LONG_EVERY: u64 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().ok_or("how many seconds?")?.parse()?;
    let seed = arguments.next().map_or(Ok(1), |s| s.parse())?;
    let mut seeds: Vec<String> = SEEDS.iter().map(|s| (*s).to_owned()).collect();
    for file in arguments {
        seeds.extend(seeds_of(Path::new(&file))?);
    }
    let mut fuzzer = Fuzzer {
        dice: Dice(seed),
        seeds,
        catalogue: ToolCatalogue::from_schemas([("f", None), ("get_weather", None), ("do_it", Some(&schema()))]),
        worst: BTreeMap::new(),
        broken: 0,
    };
    for (_, text) in worst_case::texts(ReaderLimits::default().bytes_max) {
        fuzzer.strike(&text);
    }
    say(&format!("the dearest texts known: broken rules {}, worst {:?}", fuzzer.broken, fuzzer.worst));
    let begun = wall_us();
    let mut texts = 0_u64;
    let mut bytes = 0;
    while wall_us() - begun < seconds * 1_000_000 {
        let text = fuzzer.text();
        bytes += text.len();
        texts += 1;
        fuzzer.strike(&text);
    }
    say(&format!("texts {texts}, bytes {bytes}, broken rules {}, worst {:?}", fuzzer.broken, fuzzer.worst));
    if fuzzer.broken == 0 { Ok(()) } else { Err("rules were broken".into()) }
}

fn schema() -> Value {
    serde_json::json!({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]})
}

fn seeds_of(file: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    if file.extension().is_none_or(|e| e != "jsonl") {
        return Ok(vec![text]);
    }
    let raw = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("raw")?.as_str().map(str::to_owned);
    Ok(text.lines().filter_map(raw).collect())
}

struct Fuzzer {
    dice: Dice,
    seeds: Vec<String>,
    catalogue: ToolCatalogue,
    /// The dearest text of each way to read, in microseconds.
    worst: BTreeMap<&'static str, u64>,
    broken: usize,
}

impl Fuzzer {
    /// A text made of the seeds.
    fn text(&mut self) -> String {
        let mut text = self.piece();
        for _ in 0..self.dice.below(6) {
            self.mutate(&mut text);
        }
        if self.dice.below(LONG_EVERY) == 0 {
            return self.long(&text);
        }
        cut(&mut text, SHORT_MAX);
        text
    }

    fn piece(&mut self) -> String {
        let n = self.dice.up_to(self.seeds.len());
        self.seeds[n].clone()
    }

    /// Up to `bytes_max`: a few openings, one unit over and over, a few endings.
    fn long(&mut self, unit: &str) -> String {
        let sizes = [100_000, 300_000, ReaderLimits::default().bytes_max];
        let size = sizes[self.dice.up_to(sizes.len())];
        let mut unit = unit.to_owned();
        if self.dice.below(2) == 0 {
            let length = 1 + self.dice.up_to(40);
            cut(&mut unit, length);
        }
        if unit.is_empty() {
            unit.push('[');
        }
        let (head, tail) = (self.piece(), self.piece());
        let mut text = if self.dice.below(2) == 0 { head } else { String::new() };
        text.push_str(&unit.repeat(size / unit.len() + 1));
        cut(&mut text, size.saturating_sub(tail.len()));
        if self.dice.below(2) == 0 {
            text.push_str(&tail);
        }
        text
    }

    fn mutate(&mut self, text: &mut String) {
        let at = self.place(text);
        match self.dice.below(9) {
            0 => text.truncate(at),
            1 => {
                let end = self.place(text).max(at);
                text.replace_range(at..end.min(self.near(text, at)), "");
            }
            2 => {
                let other = self.piece();
                let from = self.place(&other);
                let to = self.near(&other, from);
                text.insert_str(at, &other[from..to]);
            }
            3 => {
                let other = self.piece();
                text.insert_str(at, &other);
            }
            4 => {
                let end = self.near(text, at);
                let copy = text[at..end].repeat(1 + self.dice.up_to(20));
                text.insert_str(at, &copy);
            }
            5 | 6 => {
                let signs =
                    ["{", "}", "[", "]", "(", ")", "'", "\"", ":", ",", "\\", "\n", " ", "=", "`", "é", "’", "\0"];
                text.insert_str(at, signs[self.dice.up_to(signs.len())]);
            }
            7 => {
                if let Some(c) = text[at..].chars().next() {
                    text.replace_range(at..at + c.len_utf8(), "");
                }
            }
            _ => *text = if text.contains('"') { text.replace('"', "'") } else { text.replace('\'', "\"") },
        }
    }

    fn place(&mut self, text: &str) -> usize {
        let mut at = self.dice.up_to(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    fn near(&mut self, text: &str, at: usize) -> usize {
        let mut end = (at + self.dice.up_to(64)).min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        end
    }

    fn strike(&mut self, text: &str) {
        let struck = catch_unwind(AssertUnwindSafe(|| self.check(text)));
        let fault = match struck {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => fault,
            Err(_) => "panic".to_owned(),
        };
        self.broken += 1;
        let file = std::env::temp_dir().join(format!("failed-{}.txt", self.broken));
        let kept = std::fs::write(&file, text).map_or_else(|e| e.to_string(), |()| file.display().to_string());
        say(&format!("{fault}: {} bytes, {kept}", text.len()));
    }

    fn check(&mut self, text: &str) -> Result<(), String> {
        let limits = ReaderLimits::default();
        let catalogue = self.catalogue.clone();
        let reading = self.timed("read", || parse_value(text, &ToolCatalogue::default(), &limits))?;
        spans(text, &reading.items, &reading.edits)?;
        if reading.verdict == Verdict::Exact && serde_json::from_str::<Value>(text).ok() != reading.value {
            return Err("exact, but not the value".to_owned());
        }
        let known = self.timed("read with a catalogue", || parse_value(text, &catalogue, &limits))?;
        spans(text, &known.items, &known.edits)?;
        let called = self.timed("calls", || parse_calls(text, &catalogue, &limits))?;
        spans(text, &[], &called.edits)?;
        self.timed("calls of any name", || parse_calls(text, &ToolCatalogue::default(), &limits))?;
        self.stream(text, &reading)?;
        self.prefix(text, &reading)
    }

    fn stream(&mut self, text: &str, whole: &Reading) -> Result<(), String> {
        let size = 1 + self.dice.up_to(text.len().max(1)) / 8;
        let (given, ending) = self.timed("stream", || {
            let mut stream = Stream::new(ReaderLimits::default());
            let given: Vec<Item> = text.as_bytes().chunks(size.max(16)).flat_map(|c| stream.push(c)).collect();
            (given, stream.finish(&ToolCatalogue::default(), TextEnd::Stopped))
        })?;
        if ending.reading.value != whole.value {
            return Err("the stream ends with another value".to_owned());
        }
        let kept = given.iter().filter(|g| ending.reading.items.contains(g)).count();
        if kept + ending.withdrawn.len() < given.len() {
            return Err("a step of the stream is neither in the plan nor withdrawn".to_owned());
        }
        Ok(())
    }

    /// A text that is cut, with this known to the reader, is reported as truncated, and has no step that the whole has not.
    /// A whole that breaks the rules of its notation is held to that only if both are read from the same first step on
    /// without a guess: what stands behind the cut may make another passage or notation the likelier one.
    fn prefix(&mut self, text: &str, whole: &Reading) -> Result<(), String> {
        let clear = |r: &Reading| r.others.is_empty() && r.edits.iter().all(|e| e.kind.keeps_meaning());
        if text.len() > SHORT_MAX || whole.items.is_empty() {
            return Ok(());
        }
        let at = self.place(text);
        let cut = parse_ended_value(&text[..at], TextEnd::Cut, &ToolCatalogue::default(), &ReaderLimits::default());
        if matches!(cut.verdict, Verdict::Exact | Verdict::Repaired) && at < text.len() {
            return Err(format!("cut at {at}, it is not said to be truncated"));
        }
        let exact = whole.verdict == Verdict::Exact;
        let held = exact || whole.items.first() == cut.items.first() && clear(whole) && clear(&cut);
        let mut items = cut.items.as_slice();
        if let Some((last, before)) = items.split_last() {
            // Before it is seen what follows, a text or a word may continue behind its quote or its blank.
            let is_closed =
                last.span.slice(text).ends_with(['}', ']', ')']) || last.span.end < text[..at].trim_end().len();
            items = if exact || is_closed { items } else { before };
        }
        if held && !whole.items.starts_with(items) {
            return Err(format!("cut at {at}, it has a step that the whole has not"));
        }
        Ok(())
    }

    fn timed<T>(&mut self, what: &'static str, mut work: impl FnMut() -> T) -> Result<T, String> {
        let mut least = u64::MAX;
        let mut done = None;
        // Other work on the machine makes caches cold; a text is dear only if it is so three times.
        for _ in 0..3 {
            let begun = processor_us();
            done = Some(work());
            least = least.min(processor_us() - begun);
            if least <= COST_MAX_US {
                break;
            }
        }
        let worst = self.worst.entry(what).or_default();
        *worst = least.max(*worst);
        match done {
            Some(done) if least <= COST_MAX_US => Ok(done),
            _ => Err(format!("{what} takes {least} us")),
        }
    }
}

fn spans(text: &str, items: &[Item], edits: &[Edit]) -> Result<(), String> {
    for span in items.iter().map(|i| i.span).chain(edits.iter().map(|e| e.at)) {
        if text.get(span.start..span.end).is_none() {
            return Err(format!("{span:?} is not of the text"));
        }
    }
    Ok(())
}

fn cut(text: &mut String, mut length: usize) {
    if length < text.len() {
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        text.truncate(length);
    }
}

/// `SplitMix64` (Steele, Lea, Flood, 2014).
struct Dice(u64);

impl Dice {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draw() % n.max(1)
    }

    fn up_to(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or_default()
    }
}

/// Processor time of this thread, as Linux counts it; elsewhere the time of the clock.
fn processor_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    ns.map_or_else(wall_us, |ns| ns / 1000)
}

#[expect(clippy::disallowed_methods, reason = "a program of its own, which measures")]
fn wall_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[expect(clippy::print_stdout, reason = "a program whose output this is")]
fn say(line: &str) {
    println!("{line}");
}
