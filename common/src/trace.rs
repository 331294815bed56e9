//! W3C Trace Context, version 00 and what later versions promise.

/// Most bytes of a `traceparent`; version 00 has 55.
const BYTES_MAX: usize = 128;

/// Whether the text is a `traceparent` that may be put into a header: `00-<32 hex>-<16 hex>-<2 hex>`, lower case.
pub fn is_traceparent(text: &str) -> bool {
    let mut parts = text.splitn(5, '-');
    let mut next = || parts.next().unwrap_or_default();
    let (version, trace, parent, flags) = (next(), next(), next(), next());
    let rest = parts.next();
    let is_set = |id: &str| id.bytes().any(|byte| byte != b'0');
    let is_known = is_hex(version, 2) && version != "ff";
    let is_whole = is_hex(trace, 32) && is_set(trace) && is_hex(parent, 16) && is_set(parent) && is_hex(flags, 2);
    // Later versions may append fields.
    let may_go_on = rest.is_none_or(|rest| version != "00" && rest.bytes().all(|byte| byte.is_ascii_graphic()));
    text.len() <= BYTES_MAX && is_known && is_whole && may_go_on
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_the_format_of_the_standard_is_a_traceparent() {
        assert!(is_traceparent(GOOD) && is_traceparent(&GOOD.replacen("00", "cc", 1)));
        assert!(is_traceparent(&format!("{}-more", GOOD.replacen("00", "01", 1))), "a later version");
        let bad = [
            String::new(),
            "00".into(),
            format!("{GOOD}\r\nx: y"),
            format!("{GOOD}-more"),
            format!("{}-a\r\nb", GOOD.replacen("00", "01", 1)),
            GOOD.to_uppercase(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            format!("{}-{}", GOOD.replacen("00", "01", 1), "a".repeat(200)),
        ];
        for text in bad {
            assert!(!is_traceparent(&text), "{text:?}");
        }
    }
}
