//! Text functions that several packages use.

use std::borrow::Cow;

/// At most `chars` characters of what a client wrote, so that a message may repeat it.
pub fn shorten(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A key as one part of a JSON Pointer (RFC 6901, section 3).
pub fn pointer_part(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) { key.replace('~', "~0").replace('/', "~1").into() } else { key.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shorten("déjà", 4), "déjà");
        assert_eq!(shorten("déjà", 3), "déj…");
    }

    #[test]
    fn keys_with_signs_of_their_own_are_escaped() {
        assert_eq!((pointer_part("a/b~1").as_ref(), pointer_part("ab").as_ref()), ("a~1b~01", "ab"));
    }
}
