//! Sanitizes output: text of agents, models and files must not control the terminal.

use std::borrow::Cow;

/// Starts a colour of [`super::Palette`].
const COLOUR: &str = "\u{1b}[";
/// What [`super::Palette`] writes between the start of a colour and its `m`.
const COLOURS: [&str; 7] = ["0", "1", "2", "31", "32", "33", "36"];

/// The text with every control character and every character that cannot be seen escaped as in JSON (`\u001b`), besides
/// line ends, tabs, joiners within words and the colours that the program itself uses. In JSON text the result means the same.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    let (mut rest, mut before) = (text, ' ');
    while let Some(next) = rest.chars().next() {
        let taken = colour(rest).unwrap_or(next.len_utf8());
        let (piece, after) = rest.split_at(taken);
        if taken == next.len_utf8() && steers(next) && !joins(before, next) {
            let mut units = [0; 2];
            next.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push_str(piece);
        }
        before = next;
        rest = after;
    }
    out.into()
}

/// Whether it controls a terminal or cannot be seen: control characters, marks of text direction, spaces without a width,
/// fillers and tags.
fn steers(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    is_hidden || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Whether it is a joiner that shapes what stands before it: an emoji, or a letter of a script that joins.
fn joins(before: char, c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}') && before >= '\u{600}' && !steers(before)
}

/// The length of the colour that the text starts with.
fn colour(text: &str) -> Option<usize> {
    let (code, _) = text.strip_prefix(COLOUR)?.split_once('m')?;
    COLOURS.contains(&code).then(|| COLOUR.len() + code.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Palette, Tone, json};

    #[test]
    fn text_of_others_does_not_steer_the_terminal() {
        let hostile = "a\u{1b}[2Jb\u{1b}]0;title\u{7}c\rd\u{9b}31me\u{202e}f\u{7f}\u{1b}[8m\n\tg";
        let shown = sanitize(hostile);
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert!(shown.ends_with("\\u001b[8m\n\tg"), "{shown:?}");
    }

    #[test]
    fn characters_that_cannot_be_seen_are_escaped() {
        for hidden in [
            '\u{ad}', '\u{61c}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2066}',
            '\u{feff}', '\u{3164}', '\u{e0041}',
        ] {
            let shown = sanitize(&format!("pay{hidden}load")).into_owned();
            let unit = hidden.encode_utf16(&mut [0; 2])[0];
            assert!(shown.starts_with(&format!("pay\\u{unit:04x}")) && shown.ends_with("load"), "{shown:?}");
        }
        let names = ["👩\u{200d}👧", "می\u{200c}خواهم", "क्\u{200d}ष", "❤\u{fe0f}", "שלום", "naïve"];
        for name in names {
            assert_eq!(sanitize(name), name);
        }
    }

    #[test]
    fn colours_of_the_program_pass() {
        for tone in [Tone::Good, Tone::Bad, Tone::Wait, Tone::Busy, Tone::Dim, Tone::Bold] {
            let text = Palette::new(true).tone(tone, "text");
            assert_eq!(sanitize(&text), text);
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a": "\u{9b}2J\u{7f}\u{1b}\u{200b}\u{e0041}"});
        let text = json(&value, false);
        let shown = sanitize(&text);
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("it is JSON"), value);
    }
}
