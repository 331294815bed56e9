//! Decodes the bytes of a text.

use goalmill_common::problem::Issue;

use super::issue;

/// Takes bytes as UTF-8, without a byte order mark; says what they look like when they are not.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Issue> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if let Some(name) = wide(bytes) {
        return Err(refusal(format!("the text looks like {name}, not UTF-8")));
    }
    std::str::from_utf8(bytes).map_err(|e| {
        let good = &bytes[..e.valid_up_to()];
        let line = good.split(|b| *b == b'\n').count();
        let column = 1 + good.iter().rev().take_while(|b| **b != b'\n').count();
        refusal(format!(
            "byte 0x{:02X} at line {line} column {column} is not UTF-8; the text may be Latin-1 or Windows-1252",
            bytes[e.valid_up_to()]
        ))
    })
}

/// The name of an encoding with units of two or four bytes.
fn wide(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => Some("UTF-32"),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Some("UTF-16"),
        [0, 0, 0, _, ..] | [_, 0, 0, 0, ..] => Some("UTF-32"),
        [0, _, 0, _, ..] | [_, 0, _, 0, ..] => Some("UTF-16"),
        _ => None,
    }
}

fn refusal(detail: String) -> Issue {
    issue("INVALID_ENCODING", "", detail, "save it as UTF-8")
}
