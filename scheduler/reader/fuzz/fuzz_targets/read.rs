//! Reads any bytes in every way, and holds the answers to what can be checked without knowing the right one.
//!
//! `cargo +nightly fuzz run read --fuzz-dir scheduler/reader/fuzz -- -max_len=65536 -timeout=1`

#![no_main]

use goalmill_reader::{Catalogue, TextEnd, Limits, Stream, Verdict, parse_calls, parse_value};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let catalogue = Catalogue::from_schemas([("f", None), ("get_weather", None)]);
    let reading = parse_value(&text, &catalogue, &Limits::default());
    if reading.verdict == Verdict::Exact {
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), reading.value);
    }
    for span in reading.items.iter().map(|i| i.span).chain(reading.edits.iter().map(|e| e.at)) {
        assert!(text.get(span.start..span.end).is_some());
    }
    drop(parse_calls(&text, &catalogue, &Limits::default()));
    drop(parse_calls(&text, &Catalogue::default(), &Limits::default()));
    let mut stream = Stream::new(Limits::default());
    for chunk in bytes.chunks(1 + bytes.len() / 16) {
        stream.push(chunk);
    }
    drop(stream.finish(&catalogue, TextEnd::Stopped));
});
