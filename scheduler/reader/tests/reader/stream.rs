use goalmill_reader::{Ending, Item, ReaderLimits, Stream, TextEnd, ToolCatalogue, Verdict};
use serde_json::json;

const PLAN: &str = "Here is the plan:\n```json\n{\"goal\": \"é\", \"steps\": [\n  {\"id\": \"a\", \"action\": \"find\", \"inputs\": {\"q\": \"x]}\\\"\"}},\n  {\"id\": \"b\", \"action\": \"book\"},\n  {\"id\": \"c\", \"action\": \"pay\"}\n]}\n```\n";

#[test]
fn each_step_is_given_when_its_bracket_closes() {
    let closes: Vec<usize> = PLAN.match_indices("},\n").map(|(n, _)| n + 1).collect();
    let mut stream = Stream::new(ReaderLimits::default());
    let mut given = Vec::new();
    for (n, byte) in PLAN.bytes().enumerate() {
        for item in stream.push(&[byte]) {
            given.push((n + 1, item));
        }
    }
    assert_eq!(given.len(), 3);
    assert_eq!([given[0].0, given[1].0], closes[..]);
    assert_eq!(given[0].1.value["id"], json!("a"));
    assert!(given[0].1.span.slice(PLAN).starts_with("{\"id\": \"a\""));
}

#[test]
fn chunks_of_any_size_give_the_same() {
    let lines = "{\"id\": \"a\", \"action\": \"é\"}\n{\"id\": \"b\", \"action\": \"y\"}\nok";
    let python = "[{'step': 'é', 'tool': None}, {'step': \"it's\", 'tool': ('a', 'b')}, {'step': 'c'}]";
    let calls = "[f(a=1), g(b='x')]";
    for text in [PLAN, lines, python, calls] {
        let (whole, _) = fed(text, text.len());
        assert!(whole.len() > 1, "{text}");
        for size in [1, 2, 3, 7, 50] {
            let (given, ending) = fed(text, size);
            assert_eq!(given, whole, "{size} {text}");
            assert_eq!(ending.withdrawn, [] as [usize; 0], "{size} {text}");
            assert_eq!(ending.reading.items, given);
        }
    }
}

#[test]
fn a_cut_stream_keeps_what_it_gave() {
    let cut = PLAN.find("\"pay").expect("there");
    let (given, ending) = fed(&PLAN[..cut], 5);
    assert_eq!(given.len(), 2);
    assert_eq!(ending.reading.items, given);
    assert!(matches!(ending.reading.verdict, Verdict::Truncated { .. }));
}

#[test]
fn what_the_server_says_was_cut_is_truncated_even_when_it_looks_whole() {
    let mut stream = Stream::new(ReaderLimits::default());
    stream.push(b"[{\"id\": \"a\"}]");
    let ending = stream.finish(&ToolCatalogue::default(), TextEnd::Cut);
    assert_eq!(ending.reading.verdict, Verdict::Truncated { at: 13 });
}

#[test]
fn a_step_given_from_an_example_is_withdrawn() {
    let text = "E.g. {\"id\": \"x\", \"action\": \"nothing\"}. The plan:\n[{\"id\": \"a\", \"action\": \"find\"}, {\"id\": \"b\", \"action\": \"find\"}]";
    let catalogue = ToolCatalogue::from_schemas([("find", None)]);
    let mut stream = Stream::new(ReaderLimits::default());
    stream.push(text.as_bytes());
    let ending = stream.finish(&catalogue, TextEnd::Stopped);
    assert_eq!(ending.withdrawn, [0]);
    assert_eq!(ending.given[1..], ending.reading.items[..]);
}

#[test]
fn what_a_text_holds_that_is_an_argument_is_not_given() {
    let inner = "[{'id': 'x', 'action': 'f'}, {'id': 'y', 'action': 'g'}]";
    for before in ["run(code=\"", "run(code=\"plan = ", "run(code=\"\"\"\n", "run('"] {
        let (given, _) = fed(&format!("{before}{inner}\")"), 5);
        assert_eq!(given, [], "{before}");
    }
    for before in ["Here's the \"plan\": ", "plan = ", "It's f(a=\"b\"), then:\n"] {
        let (given, _) = fed(&format!("{before}{inner}"), 5);
        assert_eq!(given.len(), 2, "{before}");
    }
}

#[test]
fn a_broken_step_stops_the_forecast_and_the_whole_is_read_at_the_end() {
    let text = "[{'step': 'a', 'tool': 'x'}, {'step': 'at 9 o'clock', 'tool': 'y'}, {'step': 'c', 'tool': 'z'}]";
    let (given, ending) = fed(text, 4);
    assert_eq!(given.len(), 1);
    assert_eq!(ending.reading.items.len(), 3);
    assert_eq!(ending.withdrawn, [] as [usize; 0]);
}

#[test]
fn bytes_that_are_no_text_are_shown_as_question_marks() {
    let mut stream = Stream::new(ReaderLimits::default());
    stream.push(b"[{\"id\": \"\xff\"}");
    stream.push(b", {\"id\": \"\xc3");
    stream.push(b"\xa9\"}]\xe2\x82");
    let ending = stream.finish(&ToolCatalogue::default(), TextEnd::Stopped);
    assert_eq!(ending.text, "[{\"id\": \"?\"}, {\"id\": \"é\"}]?");
    assert_eq!(ending.reading.items.len(), 2);
}

fn fed(text: &str, size: usize) -> (Vec<Item>, Ending) {
    let mut stream = Stream::new(ReaderLimits::default());
    let given = text.as_bytes().chunks(size).flat_map(|chunk| stream.push(chunk)).collect();
    (given, stream.finish(&ToolCatalogue::default(), TextEnd::Stopped))
}
