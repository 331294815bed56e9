//! Limits on JSON from agents: every reader of the log must be able to parse it.
//!
//! JSON allows more than parsers accept: any depth, numbers of any size, halves of surrogate pairs. Without these checks
//! such JSON would stay in the log for good.

pub use crate::budget::{COST_MAX, TOKENS_MAX};
use crate::constraint::Measures;
use crate::json::Json;
use crate::report::{Report, TokenSplit};
use crate::text::pointer_part;

/// JSON that passes a limit, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at `{pointer}`: {detail}")]
pub struct JsonLimitError {
    /// JSON Pointer to the value.
    pub pointer: String,
    /// What is wrong with it.
    pub detail: String,
}

impl JsonLimitError {
    fn at(pointer: &str, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// Checks JSON: nesting of at most `nesting_max` lists and objects, numbers that fit into 64 bits, whole characters.
pub fn check_json(json: &Json, nesting_max: usize) -> Result<(), JsonLimitError> {
    if is_plain(json.text(), nesting_max) {
        return Ok(());
    }
    Scan { text: json.text(), at: 0, open: Vec::new(), nesting_max }.scan_text()
}

/// Whether a quick check finds nothing that could be wrong: most answers have no escape and no long number, and are not
/// deep.
fn is_plain(text: &str, nesting_max: usize) -> bool {
    let (mut depth, mut digits, mut is_string) = (0, 0, false);
    for byte in text.bytes() {
        match (is_string, byte) {
            (_, b'\\') => return false,
            (_, b'"') => is_string = !is_string,
            (true, _) => {}
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth -= 1,
            (false, b'e' | b'E') if digits > 0 => return false,
            (false, _) => {}
        }
        digits = if byte.is_ascii_digit() && !is_string { digits + 1 } else { 0 };
        if depth > nesting_max || digits > 15 {
            return false;
        }
    }
    true
}

/// Checks that a text of JSON has no number that 64 bits do not hold: a parser would round it.
pub fn check_numbers(text: &str) -> Result<(), JsonLimitError> {
    let is_long = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    if !text.as_bytes().windows(19).any(is_long) {
        return Ok(());
    }
    Scan { text, at: 0, open: Vec::new(), nesting_max: usize::MAX }.scan_text()
}

/// Reads a text of JSON whose numbers 64 bits hold; the error is a sentence for people.
pub fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check_numbers(text).map_err(|wrong| wrong.to_string())?;
    Ok(value)
}

/// Checks everything in a report that an agent made; the pointer leads into the report.
pub fn check_report(report: &Report, nesting_max: usize) -> Result<(), JsonLimitError> {
    let parts = [("/outputs", &report.outputs), ("/adjustments", &report.adjustments), ("/sub_plan", &report.sub_plan)];
    for (field, json) in parts {
        if let Some(json) = json {
            check_json(json, nesting_max)
                .map_err(|e| JsonLimitError { pointer: format!("{field}{}", e.pointer), ..e })?;
        }
    }
    check_split(report.usage)?;
    check_measures(&report.measures)?;
    check_usage(report.cost, report.tokens)
}

/// Checks the split of tokens that an attempt or a call reports.
pub fn check_split(split: Option<TokenSplit>) -> Result<(), JsonLimitError> {
    if split.is_some_and(|split| split.sum() > TOKENS_MAX) {
        return Err(JsonLimitError::at("/usage", format!("more than {TOKENS_MAX} tokens")));
    }
    Ok(())
}

/// Checks the amounts that an attempt reports beside cost and tokens.
pub fn check_measures(measures: &Measures) -> Result<(), JsonLimitError> {
    match measures.iter().find(|(_, amount)| !(0.0..=COST_MAX).contains(*amount)) {
        Some((name, _)) => {
            let pointer = format!("/measures/{}", pointer_part(name));
            Err(JsonLimitError { pointer, detail: format!("the amount is not in 0..={COST_MAX}") })
        }
        None => Ok(()),
    }
}

/// Checks the cost and the tokens that an attempt reports.
pub fn check_usage(cost: Option<f64>, tokens: Option<u64>) -> Result<(), JsonLimitError> {
    if cost.is_some_and(|cost| !(0.0..=COST_MAX).contains(&cost)) {
        return Err(JsonLimitError::at("/cost", format!("the cost is not in 0..={COST_MAX} US dollars")));
    }
    if tokens.is_some_and(|tokens| tokens > TOKENS_MAX) {
        return Err(JsonLimitError::at("/tokens", format!("more than {TOKENS_MAX} tokens")));
    }
    Ok(())
}

/// Whether 64 bits hold the number: an integer as it is, any other one as the nearest float.
fn fits(number: &str) -> bool {
    if number.contains(['.', 'e', 'E']) {
        number.parse::<f64>().is_ok_and(f64::is_finite)
    } else {
        number.len() <= 18 || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok()
    }
}

/// A list or an object that is open.
struct OpenContainer {
    is_object: bool,
    /// Items before the one at hand.
    index: usize,
    /// The key at hand, with its quotes: where it begins and ends.
    key: (usize, usize),
}

/// One pass over text that is known to be JSON.
struct Scan<'t> {
    text: &'t str,
    at: usize,
    open: Vec<OpenContainer>,
    nesting_max: usize,
}

impl Scan<'_> {
    fn scan_text(mut self) -> Result<(), JsonLimitError> {
        let bytes = self.text.as_bytes();
        let mut awaits_key = false;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'{' | b'[' => {
                    if self.open.len() >= self.nesting_max {
                        return Err(
                            self.error_here(format!("nested deeper than {} lists and objects", self.nesting_max))
                        );
                    }
                    awaits_key = *byte == b'{';
                    self.open.push(OpenContainer { is_object: awaits_key, index: 0, key: (0, 0) });
                    self.at += 1;
                }
                b'}' | b']' => {
                    self.open.pop();
                    awaits_key = false;
                    self.at += 1;
                }
                b',' => {
                    if let Some(open) = self.open.last_mut() {
                        open.index += 1;
                        awaits_key = open.is_object;
                    }
                    self.at += 1;
                }
                b'"' => {
                    let begun = self.at;
                    self.string()?;
                    if let Some(open) = self.open.last_mut().filter(|_| awaits_key) {
                        open.key = (begun, self.at);
                        awaits_key = false;
                    }
                }
                b'-' | b'0'..=b'9' => self.number()?,
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonLimitError> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let long = rest.bytes().take_while(|byte| is_part(byte)).count();
        let number = &rest[..long];
        if !fits(number) {
            return Err(self.error_here("the number does not fit into 64 bits; write it as text, in quotes"));
        }
        self.at += long;
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonLimitError> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') if bytes.get(self.at + 1) == Some(&b'u') => self.unit()?,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Ok(()),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Reads `\uXXXX`, and its second half when it is the first one of two.
    fn unit(&mut self) -> Result<(), JsonLimitError> {
        let unit = |at: usize| {
            let hex = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
            u16::from_str_radix(hex, 16).ok()
        };
        let (first, second) = (unit(self.at), unit(self.at + 6));
        self.at += match (first, second) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => return Err(self.error_here("a `\\u` escape is half of a character")),
            _ => 6,
        };
        Ok(())
    }

    fn error_here(&self, detail: impl Into<String>) -> JsonLimitError {
        let mut pointer = String::new();
        for open in &self.open {
            pointer.push('/');
            if open.is_object {
                let key = self.text.get(open.key.0..open.key.1).unwrap_or_default();
                let name = serde_json::from_str::<String>(key).unwrap_or_else(|_| key.trim_matches('"').to_owned());
                pointer.push_str(&pointer_part(&name));
            } else {
                pointer.push_str(&open.index.to_string());
            }
            if pointer.len() > POINTER_BYTES {
                pointer.push('…');
                break;
            }
        }
        JsonLimitError { pointer, detail: detail.into() }
    }
}

/// Bytes after which a pointer is cut.
const POINTER_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let json = Json::from_text(text.into()).expect("it is JSON");
        check_json(&json, 4).err().map(|e| e.to_string())
    }

    #[test]
    fn json_within_the_limits_passes() {
        for text in [
            r#"{"a":[1,-2.5e3,{"b":"\ud83d\ude00 \" \\u \u00e9"}],"c":null}"#,
            "1e308",
            "18446744073709551615",
            "-9223372036854775808",
            "123456789012345678901234567890.5",
            r#""\\ud800""#,
            "[[[[]]]]",
            "{}",
        ] {
            assert_eq!(found(text), None, "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn json_over_a_limit_is_refused_with_its_pointer() {
        for (text, place) in [
            (r#"{"a":[0,{"b/c":1e400}]}"#, "at `/a/1/b~1c`: the number does not fit"),
            (r#"{"a":"x","b":"\ud800"}"#, "at `/b`: a `\\u` escape"),
            (r#"["\udc00\ud800"]"#, "at `/0`: a `\\u` escape"),
            (r#"{"\ud83d":1}"#, "a `\\u` escape"),
            ("[[1],[[[[]]]]]", "at `/1/0/0/0`: nested deeper than 4"),
            ("[1,18446744073709551616]", "at `/1`: the number"),
            ("[-9223372036854775809]", "at `/0`: the number"),
            (&format!("[1,{}]", "9".repeat(400)), "at `/1`: the number"),
        ] {
            let found = found(text).unwrap_or_default();
            assert!(found.contains(place), "{text}: {found}");
        }
    }

    #[test]
    fn an_amount_is_finite_and_bounded() {
        for cost in [f64::NAN, f64::INFINITY, -1.0, 1.7e308] {
            assert!(check_usage(Some(cost), None).is_err(), "{cost}");
        }
        assert!(check_usage(None, Some(u64::MAX)).is_err());
        for (prompt_tokens, completion_tokens) in [(u64::MAX, 0), (0, u64::MAX), (TOKENS_MAX, 1), (u64::MAX, u64::MAX)]
        {
            assert!(check_split(Some(TokenSplit { prompt_tokens, completion_tokens })).is_err());
        }
        assert_eq!(check_split(Some(TokenSplit { prompt_tokens: TOKENS_MAX, completion_tokens: 0 })), Ok(()));
        for amount in [f64::NAN, f64::INFINITY, -1.0, 1.7e308] {
            let refused =
                check_measures(&Measures::from([("e-mails".to_owned(), amount)])).expect_err("it has no bound");
            assert_eq!(refused.pointer, "/measures/e-mails");
        }
        assert_eq!(check_usage(Some(0.0), Some(0)), Ok(()));
    }
}
