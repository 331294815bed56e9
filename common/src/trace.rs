//! W3C Trace Context, version 00 and what later versions promise.
//!
//! Source: W3C Recommendation "Trace Context", <https://www.w3.org/TR/trace-context/>.

use std::fmt;

/// Most bytes of a `traceparent`; version 00 has 55.
const BYTES_MAX: usize = 128;

/// Which trace something belongs to, and which of its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Never 0.
    pub trace_id: u128,
    /// Never 0.
    pub span_id: u64,
    /// The sampled flag: the trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` when it is none.
    pub fn parse(traceparent: &str) -> Option<Self> {
        if !is_traceparent(traceparent) {
            return None;
        }
        let mut parts = traceparent.split('-').skip(1);
        let trace_id = u128::from_str_radix(parts.next()?, 16).ok()?;
        let span_id = u64::from_str_radix(parts.next()?, 16).ok()?;
        let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn with_span(self, span_id: u64) -> Self {
        Self { span_id, ..self }
    }
}

/// As a `traceparent` of version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled))
    }
}

/// The trace id in a `traceparent`, for logs; `None` when it is none.
pub fn trace_id(traceparent: &str) -> Option<&str> {
    is_traceparent(traceparent).then(|| &traceparent[3..35])
}

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
    fn a_traceparent_is_read_and_written() {
        let context = TraceContext::parse(GOOD).expect("it is one");
        assert_eq!((context.span_id, context.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), GOOD);
        assert_eq!(context.with_span(1).to_string(), GOOD.replace("00f067aa0ba902b7", "0000000000000001"));
        let later = format!("{}-more", GOOD.replacen("00", "01", 1).replace("-01", "-02"));
        assert_eq!(TraceContext::parse(&later).map(|context| context.is_sampled), Some(false));
        assert_eq!(trace_id(GOOD), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert_eq!((TraceContext::parse("00-x"), trace_id("00-x")), (None, None));
    }

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
