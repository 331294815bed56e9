//! Arithmetic on written numbers: `2 * 3.14`, `10-5`, `(1 + 2) ** 2`, `2 * pi`. Nothing else is ever computed.

use serde_json::Number;

use crate::number;

/// The deepest nesting of brackets and signs.
const DEPTH_MAX: usize = 16;
/// Longer expressions are not computed. Bytes.
const LENGTH_MAX: usize = 200;

/// The value of an expression in which only numbers, `pi`, `+ - * / % **`, and brackets stand.
pub(crate) fn compute(text: &str) -> Option<Number> {
    let text = text.trim();
    if text.len() > LENGTH_MAX || !text.contains(['+', '-', '*', '/', '%', 'i']) {
        return None;
    }
    let dated = |c: char| c.is_ascii_digit() || matches!(c, '-' | '/' | '.');
    if text.chars().all(dated) && !text.starts_with('-') {
        // `2023-10-11`, `12/25`, `555-1234`: dates and codes more often than differences.
        return None;
    }
    evaluate(text)
}

/// As [`compute`], where the schema says that a number is meant: `10-5` is then one.
pub(crate) fn compute_number(text: &str) -> Option<Number> {
    let signs = text.trim().matches(['-', '/', '+', '*']).count();
    if text.len() <= LENGTH_MAX && signs == 1 { evaluate(text.trim()) } else { compute(text) }
}

fn evaluate(text: &str) -> Option<Number> {
    let mut reader = ExpressionParser { text, at: 0, depth: 0 };
    let value = reader.sum()?;
    reader.blank();
    if reader.at != text.len() {
        return None;
    }
    match value {
        Amount::Whole(n) => Some(Number::from(n)),
        Amount::Real(r) => Number::from_f64(r),
    }
}

/// `"a" + 'b'`, without escapes.
pub(crate) fn join(text: &str) -> Option<String> {
    let mut joined = String::new();
    let mut rest = text.trim();
    loop {
        let quote = rest.chars().next().filter(|q| matches!(q, '"' | '\''))?;
        let end = rest[1..].find([quote, '\\'])? + 1;
        if !rest[end..].starts_with(quote) {
            return None;
        }
        joined.push_str(&rest[1..end]);
        rest = rest[end + 1..].trim_start();
        if rest.is_empty() {
            return Some(joined);
        }
        rest = rest.strip_prefix('+')?.trim_start();
    }
}

#[derive(Clone, Copy)]
enum Amount {
    Whole(i64),
    Real(f64),
}

impl Amount {
    #[expect(clippy::cast_precision_loss, reason = "as in the languages whose notation this is")]
    fn real(self) -> f64 {
        match self {
            Self::Whole(n) => n as f64,
            Self::Real(r) => r,
        }
    }
}

struct ExpressionParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl ExpressionParser<'_> {
    fn sum(&mut self) -> Option<Amount> {
        let mut left = self.product()?;
        loop {
            let add = match self.sign(&["+", "-"]) {
                Some("+") => true,
                Some(_) => false,
                None => return Some(left),
            };
            let right = self.product()?;
            left = match (left, right) {
                (Amount::Whole(a), Amount::Whole(b)) => {
                    Amount::Whole(if add { a.checked_add(b)? } else { a.checked_sub(b)? })
                }
                (a, b) => Amount::Real(if add { a.real() + b.real() } else { a.real() - b.real() }),
            };
        }
    }

    fn product(&mut self) -> Option<Amount> {
        let mut left = self.signed()?;
        loop {
            let sign = self.sign(&["**", "*", "//", "/", "%"]);
            if sign == Some("**") {
                return None;
            }
            let Some(sign) = sign else { return Some(left) };
            let right = self.signed()?;
            left = match (sign, left, right) {
                ("*", Amount::Whole(a), Amount::Whole(b)) => Amount::Whole(a.checked_mul(b)?),
                ("*", a, b) => Amount::Real(a.real() * b.real()),
                ("/", a, b) if b.real() != 0.0 => Amount::Real(a.real() / b.real()),
                _ => return None,
            };
        }
    }

    fn signed(&mut self) -> Option<Amount> {
        let negative = self.sign(&["-"]).is_some();
        let base = self.atom()?;
        let value = if self.sign(&["**"]).is_some() { power(base, self.atom_with_sign()?)? } else { base };
        Some(match (negative, value) {
            (false, value) => value,
            (true, Amount::Whole(n)) => Amount::Whole(n.checked_neg()?),
            (true, Amount::Real(r)) => Amount::Real(-r),
        })
    }

    fn atom_with_sign(&mut self) -> Option<Amount> {
        let negative = self.sign(&["-"]).is_some();
        match (negative, self.atom()?) {
            (false, value) => Some(value),
            (true, value) => Some(Amount::Real(-value.real())),
        }
    }

    fn atom(&mut self) -> Option<Amount> {
        self.blank();
        let rest = &self.text[self.at..];
        if rest.starts_with('(') {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return None;
            }
            self.at += 1;
            let value = self.sum()?;
            self.depth -= 1;
            return self.sign(&[")"]).map(|_| value);
        }
        for name in ["math.pi", "Math.PI", "np.pi", "numpy.pi", "pi"] {
            if let Some(after) = rest.strip_prefix(name)
                && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                self.at += name.len();
                return Some(Amount::Real(std::f64::consts::PI));
            }
        }
        let end = rest
            .char_indices()
            .find(|(n, c)| {
                let exponent = matches!(c, '+' | '-') && *n > 0 && rest[..*n].ends_with(['e', 'E']);
                !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || exponent)
            })
            .map_or(rest.len(), |(n, _)| n);
        let spelled = number::parse_number(&rest[..end])?;
        self.at += end;
        match spelled.number.as_i64() {
            Some(n) => Some(Amount::Whole(n)),
            None => spelled.number.as_f64().map(Amount::Real),
        }
    }

    fn sign(&mut self, of: &[&'static str]) -> Option<&'static str> {
        self.blank();
        let sign = of.iter().find(|s| self.text[self.at..].starts_with(**s))?;
        self.at += sign.len();
        Some(sign)
    }

    fn blank(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
}

fn power(base: Amount, exponent: Amount) -> Option<Amount> {
    if let (Amount::Whole(a), Amount::Whole(b)) = (base, exponent)
        && let Ok(b) = u32::try_from(b)
    {
        return a.checked_pow(b).map(Amount::Whole);
    }
    let value = base.real().powf(exponent.real());
    value.is_finite().then_some(Amount::Real(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_on_written_numbers_is_computed() {
        let of = |text: &str| compute(text).map(|n| n.to_string());
        assert_eq!(of("10 - 5"), Some("5".to_owned()));
        assert_eq!(compute_number("10-5").map(|n| n.to_string()), Some("5".to_owned()));
        assert_eq!(of("5 * 2800.0"), Some("14000.0".to_owned()));
        assert_eq!(of("-2 ** 2 + (1 + 2) * 3"), Some("5".to_owned()));
        assert_eq!(of("2*math.pi").map(|n| n[..6].to_owned()), Some("6.2831".to_owned()));
        assert_eq!(of("1 / 4"), Some("0.25".to_owned()));
        assert_eq!(of("2 ** -1"), Some("0.5".to_owned()));
    }

    #[test]
    fn nothing_else_is_computed() {
        for text in [
            "1/0",
            "a+1",
            "2 +",
            "2023-10-11",
            "12/25",
            "9223372036854775807 + 1",
            "f(1)+1",
            "((((((((((((((((((1",
            "5",
        ] {
            assert!(compute(text).is_none(), "`{text}`");
        }
        assert_eq!(join("'a' + \"b\""), Some("ab".to_owned()));
        assert_eq!(join("'a' + b"), None);
    }
}
