//! Escapes in strings, as JSON and as Python have them.

/// Whose escapes a string follows. They differ in `\/` only: JSON drops the backslash, Python keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeDialect {
    Json,
    Python,
}

/// What decoding met besides JSON's own escapes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecodedEscape {
    /// An escape JSON does not have, or a lone surrogate.
    pub(crate) foreign: bool,
    /// `\/`, on which the dialects differ.
    pub(crate) solidus: bool,
}

/// Decodes what stands between the quotes.
pub(crate) fn decode(raw: &str, dialect: EscapeDialect, met: &mut DecodedEscape) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(c) = rest.chars().next() else {
            out.push('\\');
            break;
        };
        rest = &rest[c.len_utf8()..];
        match c {
            '"' | '\\' => out.push(c),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            '/' => {
                met.solidus = true;
                if dialect == EscapeDialect::Python {
                    out.push('\\');
                }
                out.push('/');
            }
            'u' => rest = unicode(rest, &mut out, met),
            '\'' | '`' => {
                met.foreign = true;
                out.push(c);
            }
            'a' | 'v' | '0' => {
                met.foreign = true;
                out.push(match c {
                    'a' => '\u{7}',
                    'v' => '\u{b}',
                    _ => '\0',
                });
            }
            '\n' => met.foreign = true,
            'x' => rest = hexadecimal(rest, 2, 'x', &mut out, met),
            'U' => rest = hexadecimal(rest, 8, 'U', &mut out, met),
            other => {
                // Neither has it: Python keeps the backslash, and so does this.
                met.foreign = true;
                out.push('\\');
                out.push(other);
            }
        }
    }
    out.push_str(rest);
    out
}

fn unicode<'a>(rest: &'a str, out: &mut String, met: &mut DecodedEscape) -> &'a str {
    let Some(high) = digits(rest, 4) else {
        met.foreign = true;
        out.push_str("\\u");
        return rest;
    };
    let after = &rest[4..];
    if (0xd800..0xdc00).contains(&high)
        && let Some(low) = after.strip_prefix("\\u").and_then(|low| digits(low, 4))
        && (0xdc00..0xe000).contains(&low)
    {
        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        out.extend(char::from_u32(code));
        return &after[6..];
    }
    match char::from_u32(high) {
        Some(c) => out.push(c),
        None => {
            // Half of a pair stands for nothing; as in most readers it becomes the replacement character.
            met.foreign = true;
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
    after
}

fn hexadecimal<'a>(rest: &'a str, count: usize, letter: char, out: &mut String, met: &mut DecodedEscape) -> &'a str {
    met.foreign = true;
    match digits(rest, count).and_then(char::from_u32) {
        Some(c) => {
            out.push(c);
            &rest[count..]
        }
        None => {
            out.push('\\');
            out.push(letter);
            rest
        }
    }
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let word = text.get(..count)?;
    if !word.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(raw: &str, dialect: EscapeDialect) -> (String, bool) {
        let mut met = DecodedEscape::default();
        let text = decode(raw, dialect, &mut met);
        (text, met.foreign)
    }

    #[test]
    fn escapes_are_decoded_as_json_has_them() {
        assert_eq!(decoded(r#"a\"b\\\n\u00e9\ud83d\ude00\/"#, EscapeDialect::Json), ("a\"b\\\né😀/".to_owned(), false));
    }

    #[test]
    fn escapes_json_does_not_have_are_noted() {
        assert_eq!(decoded(r"it\'s \x41 \d \ud83d", EscapeDialect::Python), ("it's A \\d \u{fffd}".to_owned(), true));
        assert_eq!(decoded(r"\/", EscapeDialect::Python), ("\\/".to_owned(), false));
    }
}
