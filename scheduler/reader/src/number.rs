//! Numbers in the spellings of JSON, Python and models.

use serde_json::Number;

/// A number, and whether it is spelled as JSON spells it, and whether it is held exactly.
pub(crate) struct ParsedNumber {
    pub(crate) number: Number,
    pub(crate) json: bool,
    pub(crate) exact: bool,
}

/// Reads a whole word as a number; `None` when it is none, or has no finite value.
pub(crate) fn parse_number(word: &str) -> Option<ParsedNumber> {
    let bytes = word.as_bytes();
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    if !digits.is_empty() && digits.len() <= 18 && digits.iter().all(u8::is_ascii_digit) {
        let value = digits.iter().fold(0_i64, |n, d| n * 10 + i64::from(d - b'0'));
        let leading = digits.len() > 1 && digits[0] == b'0';
        if leading {
            // `007` is not a number in either notation; it may be a code.
            return None;
        }
        if bytes[0] == b'-' && value == 0 {
            return Some(ParsedNumber { number: Number::from_f64(-0.0)?, json: true, exact: true });
        }
        let value = if bytes[0] == b'-' { -value } else { value };
        return Some(ParsedNumber { number: Number::from(value), json: true, exact: true });
    }
    if is_json(digits) { json(word) } else { python(word) }
}

/// `int frac? exp?` of the JSON grammar, without its sign.
fn is_json(digits: &[u8]) -> bool {
    let whole = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole == 0 || whole > 1 && digits[0] == b'0' {
        return false;
    }
    let mut rest = &digits[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let n = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if n == 0 {
            return false;
        }
        rest = &fraction[n..];
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let exponent = exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        return !exponent.is_empty() && exponent.iter().all(u8::is_ascii_digit);
    }
    rest.is_empty()
}

fn json(word: &str) -> Option<ParsedNumber> {
    if let Ok(value) = word.parse::<i64>() {
        return Some(ParsedNumber { number: Number::from(value), json: true, exact: true });
    }
    if let Ok(value) = word.parse::<u64>() {
        return Some(ParsedNumber { number: Number::from(value), json: true, exact: true });
    }
    let value = word.parse::<f64>().ok().filter(|v| v.is_finite())?;
    // Digits beyond what a double tells apart are lost.
    let whole = !word.contains(['.', 'e', 'E']);
    let exact = if whole { format!("{value:.0}") == word } else { true };
    Some(ParsedNumber { number: Number::from_f64(value)?, json: true, exact })
}

fn python(word: &str) -> Option<ParsedNumber> {
    let (sign, rest) = match word.as_bytes().first()? {
        b'-' => ("-", &word[1..]),
        b'+' => ("", &word[1..]),
        _ => ("", word),
    };
    let first = rest.as_bytes().first()?;
    if !(first.is_ascii_digit() || *first == b'.') || rest.ends_with('_') || rest.contains("__") {
        return None;
    }
    let plain: String = rest.chars().filter(|c| *c != '_').collect();
    let lower = plain.to_ascii_lowercase();
    let radix = [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().find(|(prefix, _)| lower.starts_with(prefix));
    if let Some((prefix, radix)) = radix {
        let value = i64::from_str_radix(&format!("{sign}{}", &lower[prefix.len()..]), radix).ok()?;
        return Some(ParsedNumber { number: Number::from(value), json: false, exact: true });
    }
    let mut canonical = plain;
    if canonical.starts_with('.') {
        canonical.insert(0, '0');
    }
    if let Some(at) = canonical.find('.')
        && !canonical[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        canonical.insert(at + 1, '0');
    }
    if !is_json(canonical.as_bytes()) {
        return None;
    }
    let spelled = json(&format!("{sign}{canonical}"))?;
    Some(ParsedNumber { json: false, ..spelled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_notations_are_read_and_told_apart() {
        let of = |word: &str| parse_number(word).map(|s| (s.number.to_string(), s.json, s.exact));
        assert_eq!(of("12"), Some(("12".to_owned(), true, true)));
        assert_eq!(of("-1.5e3"), Some(("-1500.0".to_owned(), true, true)));
        assert_eq!(of("1_000"), Some(("1000".to_owned(), false, true)));
        assert_eq!(of(".5"), Some(("0.5".to_owned(), false, true)));
        assert_eq!(of("5."), Some(("5.0".to_owned(), false, true)));
        assert_eq!(of("0x1f"), Some(("31".to_owned(), false, true)));
        assert_eq!(of("-0"), Some(("-0.0".to_owned(), true, true)));
        assert_eq!(of("18446744073709551615"), Some(("18446744073709551615".to_owned(), true, true)));
        assert_eq!(of("123456789012345678901"), Some(("1.2345678901234568e+20".to_owned(), true, false)));
    }

    #[test]
    fn codes_dates_and_infinities_are_not_numbers() {
        for word in ["007", "2023-10-01", "1e999", "", "-", "1__0", "1_", "e5", "1.2.3", "0x", "１"] {
            assert!(parse_number(word).is_none(), "`{word}`");
        }
    }
}
