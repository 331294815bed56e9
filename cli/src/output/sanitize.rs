//! Sanitizes output: text of agents, models and files must not control the terminal.

use std::borrow::Cow;

/// Starts a colour of [`super::Palette`].
const COLOUR: &str = "\u{1b}[";
/// What [`super::Palette`] writes between the start of a colour and its `m`.
const COLOURS: [&str; 7] = ["0", "1", "2", "31", "32", "33", "36"];

/// The text with every control character escaped as in JSON (`\u001b`), besides line ends, tabs and the colours that
/// the program itself uses. In JSON text the result means the same.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let taken = colour(rest).unwrap_or(next.len_utf8());
        let (piece, after) = rest.split_at(taken);
        if taken == next.len_utf8() && steers(next) {
            out.push_str(&format!("\\u{:04x}", u32::from(next)));
        } else {
            out.push_str(piece);
        }
        rest = after;
    }
    out.into()
}

/// Whether it controls a terminal: control characters and marks of text direction.
fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
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
    fn colours_of_the_program_pass() {
        for tone in [Tone::Good, Tone::Bad, Tone::Wait, Tone::Busy, Tone::Dim, Tone::Bold] {
            let text = Palette::new(true).tone(tone, "text");
            assert_eq!(sanitize(&text), text);
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a": "\u{9b}2J\u{7f}\u{1b}"});
        let text = json(&value, false);
        let shown = sanitize(&text);
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("it is JSON"), value);
    }
}
