//! Comments in JSON, as people write them into documents: `// …` to the end of the line, and `/* … */`.

use std::borrow::Cow;

/// The text with spaces in place of its comments, so that every place in it stays where it is.
///
/// A comment that does not end is left, for the parser to refuse.
pub fn blank_json_comments(text: &str) -> Cow<'_, str> {
    if !text.contains('/') {
        return Cow::Borrowed(text);
    }
    let (bytes, mut blanked) = (text.as_bytes(), Vec::new());
    let (mut at, mut is_string) = (0, false);
    while at < bytes.len() {
        match (is_string, bytes[at]) {
            (true, b'\\') => at += 1,
            (_, b'"') => is_string = !is_string,
            (false, b'/') => {
                let Some(end) = comment_end(text, at) else { break };
                if blanked.is_empty() {
                    blanked = bytes.to_vec();
                }
                blanked[at..end].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
                at = end;
                continue;
            }
            (_, _) => {}
        }
        at += 1;
    }
    String::from_utf8(blanked).ok().filter(|blanked| !blanked.is_empty()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Where the comment ends that begins here; `None` if none does, or if it does not end.
fn comment_end(text: &str, at: usize) -> Option<usize> {
    let comment = &text[at..];
    if comment.starts_with("//") {
        return Some(at + comment.find(['\n', '\r']).unwrap_or(comment.len()));
    }
    let inner = comment.strip_prefix("/*")?;
    Some(at + 2 + inner.find("*/")? + 2)
}

/// Whether a text is JSON and not YAML: its first character, after blanks and comments, is `{`, `[` or `"`.
pub fn looks_like_json(text: &str) -> bool {
    skip_json_comments(text).starts_with(['{', '[', '"'])
}

/// The text from its first character after blanks and comments.
pub fn skip_json_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(end) = comment_end(rest, 0) {
        rest = rest[end..].trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_blanked_and_places_stay() {
        for (text, expected) in [
            ("{\"a\": 1} // ü", "{\"a\": 1}      "),
            ("// x\r\n[1, /* two\n */ 3]", "    \r\n[1,       \n    3]"),
            (r#"{"url": "https://a/*b*/", "q": "\"//"}"#, r#"{"url": "https://a/*b*/", "q": "\"//"}"#),
            ("[1 /* open", "[1 /* open"),
            ("[1 / 2]", "[1 / 2]"),
        ] {
            assert_eq!(blank_json_comments(text), expected);
        }
    }

    #[test]
    fn json_is_known_by_its_first_character_after_comments() {
        for (text, is_json) in [
            ("// a plan\n/* of mine */ {\"steps\": []}", true),
            (" [1]", true),
            ("# a plan\nsteps: []", false),
            ("/ steps", false),
            ("/* open {", false),
            ("", false),
        ] {
            assert_eq!(looks_like_json(text), is_json, "{text}");
        }
    }
}
