//! Reads the budget: `under $2,000`, `a budget of 1.500,50 €`, `up to 2,5k EUR`.

use serde::Serialize;

use super::duration::is_journey;
use super::words::{Text, WordKind};

/// Largest amount that is taken for one.
const AMOUNT_MAX: f64 = 1e12;

/// An upper limit on money.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Money {
    pub amount: f64,
    /// ISO 4217.
    pub currency: String,
    /// Whether the text named no currency, so that US dollars were taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub currency_assumed: bool,
}

/// An amount at a place of the text.
struct MoneyAmount {
    value: f64,
    /// ISO 4217.
    currency: Option<&'static str>,
    start: usize,
    /// Index of the first word after it.
    next: usize,
}

impl MoneyAmount {
    fn money(&self) -> Money {
        Money {
            amount: self.value,
            currency: self.currency.unwrap_or("USD").into(),
            currency_assumed: self.currency.is_none(),
        }
    }
}

/// The amount that the words around it make a limit for the whole; none if the text names two.
pub(super) fn read(text: &Text) -> Option<Money> {
    let mut budgets: Vec<(MoneyAmount, usize)> = Vec::new();
    let mut next = 0;
    for at in text.open() {
        let Some(amount) = (at >= next).then(|| amount_at(text, at)).flatten() else { continue };
        next = amount.next;
        if let Some(end) = limit_end(text, &amount) {
            budgets.push((amount, end));
        }
    }
    let money = budgets.first()?.0.money();
    budgets.iter().all(|(amount, _)| amount.money() == money).then_some(())?;
    for (amount, end) in &budgets {
        text.mark(amount.start, *end);
    }
    Some(money)
}

/// Reads one amount on its own, as a constraint of the goal has it: `2000 USD`, `$2k`, `2000`.
pub(super) fn read_alone(text: &str) -> Option<Money> {
    let text = Text::new(text);
    let amount = amount_at(&text, 0)?;
    (amount.next == text.words.len()).then(|| amount.money())
}

/// The index after an amount and the words that make it the budget; none if it is not certain that it is one.
fn limit_end(text: &Text, amount: &MoneyAmount) -> Option<usize> {
    let (start, next) = (amount.start, amount.next);
    let (before, after) = (|back| text.before(start, back), |ahead| text.lower(next + ahead));
    // `8 to 10 thousand dollars`, `$500 per person`, `2000 - 3000 EUR`
    let is_range = matches!(before(1), "-" | "–" | "to" | "and") && text.is_number(start.wrapping_sub(2))
        || matches!(after(0), "-" | "–" | "to" | "and" | "or") && amount_at(text, next + 1).is_some();
    let is_rate = matches!(after(0), "per" | "a" | "an" | "/" | "each" | "apiece" | "daily" | "monthly" | "yearly");
    // `the 2027 budget`
    let is_year = amount.currency.is_none() && next == start + 1 && (1900.0..2100.0).contains(&amount.value);
    if is_range || is_rate || is_year {
        return None;
    }
    let is_budget = |word: &str| word == "budget";
    let leads_back = (1..=4)
        .find(|back| !["of", "is", ":", "=", "about", "around", "at", "most", "up", "to"].contains(&before(*back)));
    if leads_back.is_some_and(|back| is_budget(before(back))) {
        return Some(next);
    }
    if is_budget(after(0)) {
        return Some(next + 1);
    }
    amount.currency?;
    let tail = match (after(0), after(1)) {
        ("max" | "maximum" | "tops", _) => 1,
        ("at", "most") | ("or", "less") | ("in", "total") => 2,
        _ => 0,
    };
    let lead = match (before(2), before(1)) {
        ("up", "to") | ("at", "most") | ("less", "than") | ("maximum" | "max", "of" | ".") => 2,
        (_, "under" | "below" | "max" | "maximum") => 1,
        _ if tail > 0 => 0,
        _ => return None,
    };
    let first = start - lead;
    // `refunds up to 20 euros`: what an amount behind another noun limits is not certain.
    let is_of_the_whole = first == text.clause_start(first)
        || text.is_read(first - 1)
        || is_journey(text.before(first, 1))
        || ["it", "for", "cost", "costs", "spend", "spending", "all", "total", "everything", "stay", "altogether"]
            .contains(&text.before(first, 1));
    is_of_the_whole.then_some(next + tail)
}

/// An amount that starts at `index`.
fn amount_at(text: &Text, index: usize) -> Option<MoneyAmount> {
    let (mut currency, at) = currency_at(text, index).map_or((None, index), |(code, next)| (Some(code), next));
    let word = text.get(at)?;
    // `B2`, `COVID-19`
    let is_tied =
        word.glued && currency.is_none() && (text.is_letters(at.wrapping_sub(1)) || text.before(at, 1) == "-");
    let number = text.number(at).filter(|_| !is_tied)?;
    let (mut value, mut next) = (number.value, number.next);
    if let WordKind::Number(_) = word.kind {
        let decimals = decimals_at(text, next);
        let end = decimals.map_or(next, |(_, end)| end);
        let is_money =
            currency.is_some() || currency_at(text, scale_at(text, end).map_or(end, |(_, end)| end)).is_some();
        if is_money {
            value = european_thousands(word.text).unwrap_or(value);
            if let Some((part, end)) = decimals {
                (value, next) = (value + part, end);
            }
        }
        if let Some((factor, end)) = scale_at(text, next) {
            (value, next) = (value * factor, end);
        }
    }
    if let (None, Some((code, end))) = (currency, currency_at(text, next)) {
        (currency, next) = (Some(code), end);
    } else if currency == Some("USD") && matches!(text.lower(next), "usd" | "dollars") {
        next += 1;
    }
    (value > 0.0 && value <= AMOUNT_MAX).then_some(MoneyAmount { value, currency, start: index, next })
}

/// `,50` of `1.500,50 €`, `,5` of `2,5k EUR`: the part and the index after it.
fn decimals_at(text: &Text, at: usize) -> Option<(f64, usize)> {
    let digits = text.get(at + 1).filter(|digits| text.lower(at) == "," && text.is_glued(at) && digits.glued)?;
    match (digits.kind, digits.text.len()) {
        (WordKind::Number(part), 1) => Some((part / 10.0, at + 2)),
        (WordKind::Number(part), 2) => Some((part / 100.0, at + 2)),
        _ => None,
    }
}

/// `2.000` beside a currency is two thousand: money has no three decimals.
fn european_thousands(text: &str) -> Option<f64> {
    let (whole, decimals) = text.split_once('.')?;
    (decimals.len() == 3 && !whole.contains(',') && whole != "0").then(|| format!("{whole}{decimals}").parse().ok())?
}

/// `k`, `M`, behind digits; words are read with the number.
fn scale_at(text: &Text, index: usize) -> Option<(f64, usize)> {
    let factor = match text.lower(index) {
        "k" => 1_000.0,
        "m" => 1_000_000.0,
        _ => return None,
    };
    text.is_glued(index).then_some((factor, index + 1))
}

fn currency_at(text: &Text, index: usize) -> Option<(&'static str, usize)> {
    let word = text.get(index)?;
    let code = match word.lower.as_str() {
        "us" if text.lower(index + 1) == "$" && text.is_glued(index + 1) => return Some(("USD", index + 2)),
        "$" | "usd" | "dollar" | "dollars" => "USD",
        "€" | "eur" | "euro" | "euros" => "EUR",
        "£" | "gbp" | "pound" | "pounds" => "GBP",
        "¥" | "jpy" | "yen" => "JPY",
        "₹" | "inr" | "rupees" => "INR",
        lower => CODES.iter().find(|code| code.eq_ignore_ascii_case(lower) && word.text == **code)?,
    };
    Some((code, index + 1))
}

/// Codes of further currencies, which are written in capitals.
const CODES: &[&str] = &[
    "AED", "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "HKD", "HUF", "ILS", "KRW", "MXN", "NOK", "NZD", "PLN",
    "RUB", "SEK", "SGD", "THB", "TRY", "UAH", "ZAR",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(f64, String)> {
        read(&Text::new(text)).map(|money| (money.amount, money.currency))
    }

    #[test]
    fn budgets_are_read_as_people_write_them() {
        for (text, amount, currency) in [
            ("Plan a 3-day trip to Paris in May with a $2000 budget", 2000.0, "USD"),
            ("a trip under $2,000", 2000.0, "USD"),
            ("spend at most 1.500,50 €", 1500.5, "EUR"),
            ("a trip for up to 2,5k EUR", 2500.0, "EUR"),
            ("buy it, max. 150 EUR", 150.0, "EUR"),
            ("my budget is CHF 1'200", 1200.0, "CHF"),
            ("budget: two thousand five hundred euros", 2500.0, "EUR"),
            ("Keep it below EUR 99.90", 99.9, "EUR"),
            ("a budget of about 500 pounds", 500.0, "GBP"),
            ("Paint the hall, 700 euros at most", 700.0, "EUR"),
            ("Build a shed with a budget of 1200", 1200.0, "USD"),
            ("a trip for less than $1k", 1000.0, "USD"),
            ("A trip under $900. My budget is $900.", 900.0, "USD"),
        ] {
            assert_eq!(found(text), Some((amount, currency.into())), "{text}");
        }
    }

    #[test]
    fn an_amount_that_is_not_certainly_the_budget_is_not_read() {
        for text in [
            "a $5 coffee",
            "budget of $500 per person",
            "up to $100 a day",
            "9 pounds each at most",
            "a trip for between 8 and 10 thousand dollars",
            "a budget of 2000 - 3000 EUR",
            "Sell the piano for 700 dollars",
            "refunds up to 20 euros",
            "don't spend more than $500",
            "no more than $500",
            "not under $500",
            "a budget of not 500 but 600 EUR is out of the question",
            "tell me if it costs less than $300",
            "call it \"Rome under $500\"",
            "under 2 bananas",
            "A trip under $900. The budget is $1900.",
            "lose 10 pounds by June",
            "COVID-19 EUR",
            "Draft the 2027 budget",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn an_amount_alone_is_read_whole_or_not_at_all() {
        assert_eq!(read_alone("2000USD").map(|m| (m.amount, m.currency)), Some((2000.0, "USD".into())));
        assert_eq!(read_alone("$2k").map(|m| m.amount), Some(2000.0));
        assert_eq!(read_alone("2000").map(|m| m.currency_assumed), Some(true));
        assert_eq!(read_alone("2000 apples"), None);
    }
}
