//! Reads an amount of money: a number with its currency, in many notations.

use super::words::{Text, WordKind};

/// Largest amount that is taken for one.
const AMOUNT_MAX: f64 = 1e12;

/// An amount at a place of the text.
pub(super) struct MoneyAmount {
    pub value: f64,
    /// The lower end of a range.
    pub low: Option<f64>,
    /// ISO 4217.
    pub currency: Option<&'static str>,
    pub start: usize,
    /// Index of the first word after it.
    pub next: usize,
}

/// An amount that starts at `index`; of a range, its upper end.
pub(super) fn amount_at(text: &Text, index: usize) -> Option<MoneyAmount> {
    let first = single_at(text, index)?;
    let mut next = first.next;
    let range = match text.lower(next) {
        "-" | "–" | "to" => true,
        "and" => text.before(index, 1) == "between",
        _ => false,
    };
    if range {
        next += 1;
        if let Some(second) = single_at(text, next).filter(|s| s.value > first.value || s.currency.is_some()) {
            // "$1-2k": the first end shares the second's thousands.
            let currency = second.currency.or(first.currency);
            let is_short = first.currency.is_none() || first.value < 1_000.0 && second.currency.is_none();
            let is_scaled = is_short && second.value >= 1_000.0 && first.value * 1_000.0 <= second.value;
            let low = first.value * if is_scaled { 1_000.0 } else { 1.0 };
            return Some(MoneyAmount {
                value: second.value.max(first.value),
                low: Some(low).filter(|low| *low < second.value),
                currency,
                start: index,
                next: second.next,
            });
        }
    }
    Some(first)
}

fn single_at(text: &Text, index: usize) -> Option<MoneyAmount> {
    if let Some(grouped) = spaced_thousands(text, index) {
        return Some(grouped);
    }
    let (mut currency, at) = match currency_at(text, index) {
        Some((code, next)) => (Some(code), next),
        None => (None, index),
    };
    let word = text.get(at)?;
    let follows_letters = at > 0 && word.glued && text.words[at - 1].kind == WordKind::Letters && currency.is_none();
    if follows_letters || is_part_of_a_name(text, at) {
        return None;
    }
    let number = text.number(at)?;
    let mut value = number.value;
    let mut next = number.next;
    if let WordKind::Number(_) = word.kind {
        // `300,- €`
        if matches!(text.lower(next), "," | ".")
            && matches!(text.lower(next + 1), "-" | "–" | "—")
            && text.words[next].glued
        {
            next += 2;
        }
        let decimals = decimals_at(text, next);
        let end = decimals.map_or(next, |(_, end)| end);
        let suffix = suffix_at(text, end);
        let end = suffix.map_or(end, |(_, end)| end);
        if currency.is_some() || suffix.is_some() && decimals.is_some() || currency_at(text, end).is_some() {
            value = european_thousands(word.text).unwrap_or(value);
            if let Some((part, end)) = decimals {
                value += part;
                next = end;
            }
        }
        if let Some((factor, after)) = suffix_at(text, next) {
            value *= factor;
            next = after;
        }
    }
    if currency.is_none()
        && let Some((code, after)) = currency_at(text, next)
    {
        currency = Some(code);
        next = after;
    } else if currency.is_none() && text.lower(next) == "kr" {
        // Danish, Norwegian or Swedish.
        return None;
    } else if matches!(text.lower(next), "usd" | "dollars") && currency == Some("USD") {
        next += 1;
    }
    (value > 0.0 && value <= AMOUNT_MAX).then_some(MoneyAmount { value, low: None, currency, start: index, next })
}

/// `,50` of `1.500,50 €`, `,5` of `2,5k EUR`: the part and the index after it.
fn decimals_at(text: &Text, at: usize) -> Option<(f64, usize)> {
    let is_glued = |i: usize| text.get(i).is_some_and(|word| word.glued);
    let digits = text.get(at + 1).filter(|_| text.lower(at) == "," && is_glued(at) && is_glued(at + 1))?;
    match (digits.kind, digits.text.len()) {
        (WordKind::Number(part), 1) => Some((part / 10.0, at + 2)),
        (WordKind::Number(part), 2) => Some((part / 100.0, at + 2)),
        _ => None,
    }
}

/// `20 000 EUR`: groups of three digits before a currency.
fn spaced_thousands(text: &Text, index: usize) -> Option<MoneyAmount> {
    let (before, first) = currency_at(text, index).map_or((None, index), |(code, next)| (Some(code), next));
    let word = text.get(first).filter(|word| word.text.len() <= 3 && matches!(word.kind, WordKind::Number(_)))?;
    let mut digits = word.text.to_owned();
    let mut next = first + 1;
    while let Some(group) =
        text.get(next).filter(|w| !w.glued && w.text.len() == 3 && w.text.bytes().all(|b| b.is_ascii_digit()))
    {
        digits.push_str(group.text);
        next += 1;
    }
    let after = currency_at(text, next);
    let currency = before.or(after.map(|(code, _)| code)).filter(|_| next > first + 1)?;
    let next = if before.is_none() { after.map_or(next, |(_, next)| next) } else { next };
    let value = digits.parse().ok().filter(|value| *value <= AMOUNT_MAX)?;
    Some(MoneyAmount { value, low: None, currency: Some(currency), start: index, next })
}

/// `COVID-19`, `B-52`: a number tied to the word before it by a hyphen.
fn is_part_of_a_name(text: &Text, at: usize) -> bool {
    at >= 2
        && text.words[at].glued
        && text.lower(at - 1) == "-"
        && text.words[at - 1].glued
        && text.words[at - 2].kind == WordKind::Letters
}

/// `2.000` beside a currency is two thousand: money has no three decimals.
fn european_thousands(text: &str) -> Option<f64> {
    let (whole, decimals) = text.split_once('.')?;
    (decimals.len() == 3 && !whole.contains(',') && whole != "0").then(|| format!("{whole}{decimals}").parse().ok())?
}

fn suffix_at(text: &Text, index: usize) -> Option<(f64, usize)> {
    let word = text.get(index)?;
    match word.lower.as_str() {
        "k" if word.glued || currency_at(text, index + 1).is_some() => Some((1_000.0, index + 1)),
        "mio" | "mln" => Some((1_000_000.0, index + 1)),
        "m" | "mn" if word.glued => Some((1_000_000.0, index + 1)),
        "thousand" | "grand" => Some((1_000.0, index + 1)),
        "lakh" | "lakhs" => Some((100_000.0, index + 1)),
        "million" => Some((1_000_000.0, index + 1)),
        _ => None,
    }
}

fn currency_at(text: &Text, index: usize) -> Option<(&'static str, usize)> {
    let word = text.get(index)?;
    if word.kind == WordKind::Letters && text.lower(index + 1) == "$" && text.words[index + 1].glued {
        let code = match word.text {
            "US" | "U" => "USD",
            "C" | "CA" => "CAD",
            "A" | "AU" => "AUD",
            "NZ" => "NZD",
            "HK" => "HKD",
            "R" => "BRL",
            "S" | "SG" => "SGD",
            _ => return None,
        };
        return Some((code, index + 2));
    }
    let code = match word.lower.as_str() {
        "$" | "usd" | "dollar" | "dollars" | "bucks" => "USD",
        "us" if matches!(text.lower(index + 1), "dollar" | "dollars") => {
            return Some(("USD", index + 2));
        }
        "swiss" if matches!(text.lower(index + 1), "franc" | "francs") => return Some(("CHF", index + 2)),
        "canadian" if matches!(text.lower(index + 1), "dollar" | "dollars") => {
            return Some(("CAD", index + 2));
        }
        "australian" if matches!(text.lower(index + 1), "dollar" | "dollars") => {
            return Some(("AUD", index + 2));
        }
        "€" | "eur" | "euro" | "euros" => "EUR",
        "£" | "gbp" | "pound" | "pounds" | "quid" => "GBP",
        "¥" | "jpy" | "yen" => "JPY",
        "₹" | "inr" | "rupee" | "rupees" => "INR",
        "rs" if text.lower(index + 1) == "." => return Some(("INR", index + 2)),
        "rs" => "INR",
        "chf" | "franc" | "francs" => "CHF",
        "cny" | "rmb" | "yuan" => "CNY",
        "₩" | "krw" => "KRW",
        "cad" => "CAD",
        "aud" => "AUD",
        "nzd" => "NZD",
        "sek" | "kronor" => "SEK",
        "nok" => "NOK",
        "dkk" => "DKK",
        "pln" | "zł" | "zloty" | "zlotys" => "PLN",
        "czk" | "koruna" => "CZK",
        "huf" | "forint" | "forints" => "HUF",
        "brl" | "reais" => "BRL",
        "mxn" => "MXN",
        "sgd" => "SGD",
        "hkd" => "HKD",
        "zar" | "rand" => "ZAR",
        "try" if word.text == "TRY" => "TRY",
        "₺" | "lira" => "TRY",
        "ils" | "₪" | "shekels" => "ILS",
        "rub" if word.text == "RUB" => "RUB",
        "₽" | "rubles" | "roubles" => "RUB",
        "thb" | "baht" => "THB",
        "aed" | "dirhams" => "AED",
        "uah" | "₴" | "hryvnia" => "UAH",
        _ => return None,
    };
    Some((code, index + 1))
}
