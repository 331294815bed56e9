//! Extracts amounts of money: `$2000`, `2,000 USD`, `€1.5k`, `under 500 pounds`.

use serde::Serialize;

use super::amount::{MoneyAmount, amount_at};
use super::recurrence::{is_period, is_small_unit};
use super::words::{Text, WordKind};

/// An upper limit on money.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Money {
    pub amount: f64,
    /// The lower end of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_min: Option<f64>,
    /// ISO 4217.
    pub currency: String,
    /// Whether the text named no currency, so that US dollars were taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub currency_assumed: bool,
}

/// What an amount has to be multiplied with to give the whole budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    Whole,
    Person,
    Day,
    /// A rate that says nothing about the whole: a night, a month, a unit.
    Other,
}

/// An upper limit per unit of time or thing: `300 EUR per month`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    pub amount: f64,
    /// The lower end of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_min: Option<f64>,
    /// ISO 4217.
    pub currency: String,
    /// `month`, `night`, `unit`.
    pub per: String,
}

/// The first rate that has a currency and is no income.
pub(super) fn rate(text: &Text) -> Option<Rate> {
    (0..text.words.len()).find_map(|at| {
        let is_income = |start| is_income(text, start) && !is_capped(text, start);
        let is_other = |start| {
            text.is_constraint(start) || is_of_a_part(text, start) || is_income(start) || is_lower_bound(text, start)
        };
        // `the ones above $10,000 a year`: which ones are meant.
        let selects = |start| above(text, start).is_some_and(|above| !is_forbidden(text, above));
        let amount = amount_at(text, at).filter(|amount| !is_other(amount.start) && !selects(amount.start))?;
        let currency = amount.currency?;
        let (unit, next) = match text.lower(amount.next) {
            "per" | "a" | "an" | "/" => unit_at(text, amount.next + 1),
            "each" | "apiece" => ("unit".to_owned(), amount.next + 1),
            word => match period(word) {
                Some(unit) => (unit.to_owned(), amount.next + 1),
                None => (period_before(text, amount.start)?.to_owned(), amount.next),
            },
        };
        let is_rate = per(text, amount.next) != Per::Whole
            || matches!(unit.as_str(), "month" | "year" | "week" | "unit" | "quarter");
        (is_rate && !unit.is_empty()).then_some(())?;
        text.note_constraint(amount.start, next);
        Some(Rate { amount: amount.value, amount_min: amount.low, currency: currency.into(), per: unit })
    })
}

/// `user per month`, `square metre`: what an amount is for, and the index after it.
fn unit_at(text: &Text, at: usize) -> (String, usize) {
    let is_pair = matches!(text.lower(at), "square" | "cubic" | "working" | "business" | "calendar");
    let mut next = at + 1 + usize::from(is_pair);
    let mut unit = text.between(at, next).to_lowercase();
    let second = text.get(next + 1).filter(|unit| unit.kind == WordKind::Letters);
    if let (Some(second), true) = (second, is_per(text, next)) {
        unit = format!("{unit} per {}", second.lower);
        next += 2;
    }
    (unit, next)
}

/// `per month`, `a month`, `/month`
fn is_per(text: &Text, at: usize) -> bool {
    match text.lower(at) {
        "per" | "/" => true,
        "a" | "an" | "each" | "every" => is_period(text.lower(at + 1)) || is_small_unit(text.lower(at + 1)),
        _ => false,
    }
}

/// `a salary of up to`: the limit of a cost to whom pays it.
fn is_capped(text: &Text, start: usize) -> bool {
    matches!(
        text.before(start, 1),
        "between" | "to" | "most" | "under" | "below" | "max" | "maximum" | "than" | "within"
    )
}

/// `monthly`: `month`.
fn period(word: &str) -> Option<&'static str> {
    match word {
        "daily" => Some("day"),
        "weekly" => Some("week"),
        "monthly" => Some("month"),
        "quarterly" => Some("quarter"),
        "yearly" | "annual" | "annually" => Some("year"),
        _ => None,
    }
}

/// `keep the monthly bill below 200 USD`: the period of what is paid, in the clause before the amount.
fn period_before(text: &Text, start: usize) -> Option<&'static str> {
    let mut clause =
        (1..=8).map_while(|back| start.checked_sub(back).filter(|i| text.words[*i].kind == WordKind::Letters));
    clause.find_map(|at| {
        let is_paid = [
            "bill", "bills", "premium", "premiums", "cost", "costs", "budget", "fee", "fees", "rent", "spend",
            "spending", "payment", "payments", "price", "rate", "subscription", "expenses", "instalment",
        ]
        .contains(&text.lower(at + 1));
        period(text.lower(at)).filter(|_| is_paid)
    })
}

/// Whether the amount is what somebody earns: a salary, a revenue.
fn is_income(text: &Text, start: usize) -> bool {
    (1..=4).any(|back| {
        [
            "salary", "salaries", "income", "revenue", "revenues", "turnover", "wage", "wages", "profit", "sales",
            "earn", "earns", "pension",
        ]
        .contains(&text.before(start, back))
    })
}

/// `at least 300 EUR`, for [`super::limit`] to read.
fn is_lower_bound(text: &Text, start: usize) -> bool {
    let before = |back| text.before(start, back);
    before(1) == "minimum"
        || (before(1) == "price" && before(2) == "minimum")
        || (before(1) == "least" && before(2) == "at")
        || (before(1) == "than" && before(2) == "less" && matches!(before(3), "no" | "not"))
}

/// Finds the budget: an amount that the words around it make a limit.
pub(super) fn read(text: &Text) -> Option<(Money, Per)> {
    let mut best: Option<(u8, MoneyAmount)> = None;
    let mut at = 0;
    while at < text.words.len() {
        let Some(amount) = amount_at(text, at) else {
            at += 1;
            continue;
        };
        at = amount.next;
        let strength = strength(text, &amount);
        if strength > 0 && best.as_ref().is_none_or(|(held, _)| strength > *held) {
            best = Some((strength, amount));
        }
    }
    let (_, amount) = best?;
    let next = match text.lower(amount.next) {
        "per" | "a" | "/" => amount.next + 2,
        "each" | "apiece" | "budget" | "total" | "max" | "maximum" | "altogether" => amount.next + 1,
        _ => amount.next,
    };
    text.note_constraint(with_budget_word(text, amount.start), next);
    let money = Money {
        amount: amount.value,
        amount_min: amount.low,
        currency: amount.currency.unwrap_or("USD").into(),
        currency_assumed: amount.currency.is_none(),
    };
    Some((money, per(text, amount.next)))
}

/// The index of `budget` in `a budget of about`, when it stands right before the amount.
fn with_budget_word(text: &Text, start: usize) -> usize {
    let mut from = start;
    while ["of", "is", ":", "=", "about", "around", "most", "at", "to", "up", "than", "more", "no", "not", "maximum"]
        .contains(&text.before(from, 1))
    {
        from -= 1;
    }
    if matches!(text.before(from, 1), "budget" | "cap" | "allowance" | "spend" | "spending") { from - 1 } else { start }
}

/// Reads one amount on its own, as a caller's constraint has it: `2000 USD`, `$2k`, `2000`.
pub(super) fn read_alone(text: &str) -> Option<Money> {
    let text = Text::new(text);
    let amount = amount_at(&text, 0)?;
    (amount.next == text.words.len()).then(|| Money {
        amount: amount.value,
        amount_min: amount.low,
        currency: amount.currency.unwrap_or("USD").into(),
        currency_assumed: amount.currency.is_none(),
    })
}

/// How sure the words around are that the amount is a limit: 0 not at all, 3 they say so.
fn strength(text: &Text, amount: &MoneyAmount) -> u8 {
    let before = |back| text.before(amount.start, back);
    let after = |ahead| text.lower(amount.next + ahead);
    if is_of_a_part(text, amount.start) {
        return 0;
    }
    let is_rate =
        per(text, amount.next) == Per::Other || period_before(text, amount.start).is_some_and(|unit| unit != "day");
    if is_rate || is_income(text, amount.start) || is_trigger(text, amount.start) {
        return 0;
    }
    let names_budget = |word: &str| matches!(word, "budget" | "cap" | "limit" | "allowance");
    let budget_before = names_budget(before(1))
        || (["of", "is", ":", "=", "about", "around", "to", "at"].contains(&before(1)) && names_budget(before(2)))
        || (matches!(before(1), "about" | "around") && names_budget(before(3)))
        || (matches!(before(1), "most" | "to" | "than") && (3..=5).any(|back| names_budget(before(back))));
    // `limit it to five items`
    if amount.currency.is_none() && counts_something(text, amount.next) {
        return 0;
    }
    // `700 euros is the absolute limit`
    let is_named = after(0) == "is" && (1..5).any(|ahead| names_budget(after(ahead)) || after(ahead) == "maximum");
    let budget_before = is_named
        || budget_before
        || before(1) == "is" && text.clause_before(amount.start, 8).any(|i| names_budget(text.lower(i)));
    if budget_before || names_budget(after(0)) || (after(0) == "total" && names_budget(after(1))) {
        return 3;
    }
    if amount.currency.is_none() || is_sum_of_another(text, amount.start) {
        return 0;
    }
    if is_lower_bound(text, amount.start) {
        return 0;
    }
    if let Some(above) = above(text, amount.start) {
        return if is_forbidden(text, above) { 2 } else { 0 };
    }
    let limits =
        ["under", "below", "within", "max", "maximum", "spend", "spending", "afford", "between", "≤", "<", "exceed"]
            .contains(&before(1))
            || (before(1) == "to" && before(2) == "up")
            || (before(1) == "most" && before(2) == "at")
            || (before(1) == "than" && before(2) == "less")
            || (before(1) == "of" && matches!(before(2), "maximum" | "max" | "limit" | "cap"))
            || (before(1) == "." && matches!(before(2), "max"))
            || (before(1) == "exactly" || matches!(after(0), "max" | "maximum" | "tops"))
            || (after(0) == "or" && matches!(after(1), "less" | "under"))
            || (after(0) == "at" && after(1) == "most")
            || (after(0) == "to" && after(1) == "spend");
    if limits {
        return 2;
    }
    u8::from(has_room_around(text, amount))
}

/// Whether a noun follows a number without a currency.
fn counts_something(text: &Text, at: usize) -> bool {
    let links = [
        "in", "without", "by", "before", "with", "no", "until", "within", "starting", "as", "but", "not", "for", "and",
        "total", "from", "on", "to", "at", "per", "all", "or", "each", "a", "altogether", "budget", "max", "maximum",
        "tops", "is", "i", "we", "please", "apiece",
    ];
    text.get(at).is_some_and(|word| word.kind == WordKind::Letters && !links.contains(&word.lower.as_str()))
}

/// `a workshop with lunch at no more than 15 euros per person`: the limit of a part, which [`super::inclusion`] reads.
fn is_of_a_part(text: &Text, start: usize) -> bool {
    let bounds =
        ["no", "more", "than", "at", "most", "up", "to", "under", "max", "maximum", "about", "around", "not", "below"];
    let from = (1..=6).take_while(|back| bounds.contains(&text.before(start, *back))).last();
    let from = start - from.unwrap_or_default();
    let parts = ["lunch", "dinner", "drinks", "snacks", "coffee", "catering", "buffet", "cake", "refreshments"];
    let is_with = text.clause_before(from, 4).any(|i| matches!(text.lower(i), "with" | "including" | "plus"));
    text.lower(from) == "at" && text.lower(from + 1) != "most" && parts.contains(&text.before(from, 1)) && is_with
}

/// `refunds up to 20 euros`, `insured up to 10,000 euros`: what others get or pay.
fn is_sum_of_another(text: &Text, start: usize) -> bool {
    let sums = [
        "refund", "refunds", "insured", "fine", "fines", "prize", "prizes", "voucher", "vouchers", "discount",
        "discounts", "loan", "bonus", "damages", "claims", "donations", "orders",
    ];
    text.clause_before(start, 4).any(|i| sums.contains(&text.lower(i)))
}

/// `tell me if the price drops below 300 euros`: when something is to happen, not what it may cost.
fn is_trigger(text: &Text, start: usize) -> bool {
    let moves = |back| {
        ["drops", "drop", "falls", "fall", "sinks", "dips", "rises", "rise", "climbs", "reaches", "hits"]
            .contains(&text.before(start, back))
    };
    (1..=3).any(moves) && text.is_in_condition(start)
}

/// The index of `more` in `more than 500 EUR`, of `over` in `over 500 EUR`.
fn above(text: &Text, start: usize) -> Option<usize> {
    match (text.before(start, 2), text.before(start, 1)) {
        (_, "over" | "above" | "exceeding") => Some(start - 1),
        ("more" | "greater" | "higher" | "larger" | "dearer", "than") => Some(start - 2),
        _ => None,
    }
}

/// `no more than`, `we can't spend over`: more is ruled out; `don't flag payments over` limits no cost.
fn is_forbidden(text: &Text, above: usize) -> bool {
    let Some(negation) = text.negation_before(above) else { return false };
    let is_spending = |i: usize| {
        [
            "spend", "spending", "cost", "costs", "costing", "pay", "paying", "go", "going", "be", "total", "come",
            "charge", "invest", "afford",
        ]
        .contains(&text.lower(i))
    };
    negation + 1 == above || (negation + 1..above).any(is_spending)
}

/// Whether an amount without a telling word stands free: "Paris in May, $2000", "trip with 2000 euros".
fn has_room_around(text: &Text, amount: &MoneyAmount) -> bool {
    let ends = match text.get(amount.next) {
        None => true,
        Some(word) => {
            word.kind == WordKind::Sign && word.lower != "%"
                || [
                    "in", "without", "by", "before", "with", "no", "until", "within", "starting", "as", "but", "not",
                    "due", "for", "and", "total", "from", "on", "to", "at", "per", "all", "or",
                ]
                .contains(&word.lower.as_str())
                || matches!(word.lower.as_str(), "each" | "a" | "altogether" | "budget")
        }
    };
    let begins = match amount.start.checked_sub(1) {
        None => true,
        Some(i) => {
            let word = &text.words[i];
            word.kind != WordKind::Letters
                || [
                    "with", "for", "on", "have", "got", "aside", "about", "around", "roughly", "approx",
                    "approximately", "circa", "ca", "and", "days", "nights", "weeks", "week", "day", "weekend",
                ]
                .contains(&word.lower.as_str())
                || (text.is_capital(i) && !text.is_sentence_start(i))
                || word.lower == "at" && per(text, amount.next) == Per::Person
        }
    };
    let price = (1..=4).any(|back| {
        [
            "price", "worth", "cost", "costs", "sold", "sells", "raised", "paid", "earned", "salary", "revenue",
            "raise", "raising", "target", "refund", "invoice", "deposit", "owes", "turnover",
        ]
        .contains(&text.before(amount.start, back))
    });
    ends && begins && !price
}

/// What the amount before `index` counts for.
fn per(text: &Text, index: usize) -> Per {
    let (unit, marked) = match text.lower(index) {
        "a" if text.lower(index + 1) == "piece" => return Per::Person,
        "per" | "a" | "an" | "/" => (text.lower(index + 1), true),
        "each" | "apiece" => return Per::Person,
        "daily" => return Per::Day,
        "pp" => return Per::Person,
        _ => return Per::Whole,
    };
    // `40 euros per person per night`
    if marked && is_per(text, index + 2) {
        return Per::Other;
    }
    match unit {
        "participant" | "guest" | "attendee" | "employee" | "pupil" | "student" | "child" | "person" | "head"
        | "traveller" | "traveler" | "adult" => Per::Person,
        "day" => Per::Day,
        "night" | "week" | "month" | "year" | "hour" | "room" | "ticket" => Per::Other,
        _ if marked && matches!(text.lower(index), "per" | "/") => Per::Other,
        _ => Per::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(text: &str) -> Option<(f64, String)> {
        read(&Text::new(text)).map(|(money, _)| (money.amount, money.currency))
    }

    #[test]
    fn budgets_are_read_in_many_spellings() {
        for (text, amount, currency) in [
            ("Plan a 3-day trip to Paris in May with a $2000 budget", 2000.0, "USD"),
            ("in May with $2000", 2000.0, "USD"),
            ("trip to Rome, 2,000 USD", 2000.0, "USD"),
            ("a budget of 2000 dollars", 2000.0, "USD"),
            ("with €1.5k for everything", 1500.0, "EUR"),
            ("under 500 pounds", 500.0, "GBP"),
            ("budget: $2,000.50", 2000.5, "USD"),
            ("budget 2000$", 2000.0, "USD"),
            ("a 2000$ budget", 2000.0, "USD"),
            ("less than two thousand dollars", 2000.0, "USD"),
            ("for at most a thousand euros", 1000.0, "EUR"),
            ("US$2000 max", 2000.0, "USD"),
            ("no more than CA$900", 900.0, "CAD"),
            ("between $1500 and $2000", 2000.0, "USD"),
            ("$1500-2000 budget", 2000.0, "USD"),
            ("max 3 grand, I mean max 3 grand dollars", 3000.0, "USD"),
            ("budget of €2.000", 2000.0, "EUR"),
            ("I bought a $5 coffee; my budget is 700 EUR", 700.0, "EUR"),
            ("budget 2000", 2000.0, "USD"),
            ("USD 2000 or less", 2000.0, "USD"),
            ("Paris in May $2000", 2000.0, "USD"),
            ("3 days $2000", 2000.0, "USD"),
            ("we have 10k USD to spend", 10_000.0, "USD"),
            ("max. 150 EUR", 150.0, "EUR"),
            ("under 20 000 PLN", 20_000.0, "PLN"),
            ("budget 1.500,50 €", 1500.5, "EUR"),
            ("a maximum of 200 dollars for materials", 200.0, "USD"),
            ("up to 40 k€", 40_000.0, "EUR"),
            ("a budget of at most R$900", 900.0, "BRL"),
            ("no higher than €9k", 9000.0, "EUR"),
            ("we can't spend more than 2k pounds", 2000.0, "GBP"),
            ("it must not cost over 300 dollars", 300.0, "USD"),
            ("max. 2,5k EUR", 2500.0, "EUR"),
            ("under 12,50 €", 12.5, "EUR"),
            ("max. 300,- €", 300.0, "EUR"),
            ("at most CHF 1'200", 1200.0, "CHF"),
            ("we have six weeks and roughly 80 dollars", 80.0, "USD"),
            ("max Rs. 5,000", 5000.0, "INR"),
        ] {
            assert_eq!(budget(text), Some((amount, currency.into())), "{text}");
        }
    }

    #[test]
    fn other_amounts_are_no_budget() {
        for text in [
            "a $5 coffee in Rome",
            "Why did Bitcoin hit $100,000 in 2024?",
            "help me lose 20 pounds",
            "hotels at $200 per night",
            "items over $50",
            "a wage of not less than 40 yuan",
            "Transfer $500 to my friend",
            "a watch worth $2000",
            "in May 2027",
            "for 3 days",
            "COVID-19 dollars",
            "the company raised $5 million in 2020",
            "a room with 20% off",
            "a salary of up to €85,000",
            "at most 300 EUR per month",
            "the monthly premium must not exceed €280",
            "don't flag payments over 100 CAD",
            "raise 5,000 dollars for the school",
            "tell me if the price drops below 300 euros",
            "$",
            "",
        ] {
            assert_eq!(budget(text), None, "{text}");
        }
    }

    #[test]
    fn rates_say_what_they_count_for() {
        let per = |text: &str| read(&Text::new(text)).map(|(money, per)| (money.amount, per));
        assert_eq!(per("budget of $500 per person"), Some((500.0, Per::Person)));
        assert_eq!(per("up to $100 a day"), Some((100.0, Per::Day)));
        assert_eq!(per("max $100 each"), Some((100.0, Per::Person)));
    }

    #[test]
    fn limits_per_unit_are_rates() {
        let found = |text: &str| rate(&Text::new(text)).map(|r| (r.amount, r.currency, r.per));
        assert_eq!(found("not more than 300 EUR per month"), Some((300.0, "EUR".into(), "month".into())));
        assert_eq!(found("keep the monthly bill below 200 USD"), Some((200.0, "USD".into(), "month".into())));
        assert_eq!(found("$20/hour"), Some((20.0, "USD".into(), "hour".into())));
        assert_eq!(found("a rent of at least 750 EUR per month"), None);
        assert_eq!(found("an income of 4,200 euros a month"), None);
        assert_eq!(found("a trip with 2000 euros"), None);
    }

    #[test]
    fn an_amount_alone_is_read_whole_or_not_at_all() {
        assert_eq!(read_alone("2000USD").map(|m| (m.amount, m.currency)), Some((2000.0, "USD".into())));
        assert_eq!(read_alone("$2k").map(|m| m.amount), Some(2000.0));
        assert_eq!(read_alone("2000").map(|m| m.currency_assumed), Some(true));
        assert_eq!(read_alone("2000 apples"), None);
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        let show = |facts: &super::super::Facts| {
            let low = |least: Option<f64>| least.map(|low| format!("{low}-")).unwrap_or_default();
            let budget = facts.budget.iter().map(|m| format!("{}{} {}", low(m.amount_min), m.amount, m.currency));
            let rate =
                facts.rate.iter().map(|r| format!("{}{} {} per {}", low(r.amount_min), r.amount, r.currency, r.per));
            let least = super::super::phrases::listed(">=", &facts.at_least);
            budget.chain(rate).chain(least).collect::<Vec<_>>().join("; ")
        };
        super::super::phrases::check(&[PHRASES, OTHER_AMOUNTS].concat(), show);
    }

    const PHRASES: &[(&str, &str)] = &[
        ("We need a new fridge, 700 euros is the absolute limit", "700 EUR"),
        ("Compare three suppliers. We need 60 chairs and don't want to pay more than 250 GBP apiece.", "15000 GBP"),
        ("Hire two cooks, pay is between 2,200 and 2,500 euros a month", "2200-2500 EUR per month"),
        ("Buy 30 desks, 450 dollars a piece at most", "13500 USD"),
        ("Book a band for the wedding, 800 quid tops", "800 GBP"),
        ("Find me a used car, I can spend between 5 and 7 thousand euros", "5000-7000 EUR"),
        ("Get new bikes for the kids, budget around 600 €", "600 EUR"),
        ("Kitchen refit, £12k max", "12000 GBP"),
        ("Buy a projector. Nothing above $400.", "400 USD"),
        ("Catering for 40 guests at 25 euros per head", "1000 EUR"),
        ("Choose a phone plan for no more than 20 euros a month", "20 EUR per month"),
        ("Find a CRM, max $15 per user per month", "15 USD per user per month"),
        ("Find office space, up to 30 € per square metre", "30 EUR per square metre"),
        ("We want to raise at least £10,000 for the playground", ">=10000 GBP"),
        ("Sell the piano, minimum price 700 dollars", ">=700 USD"),
        ("Repair the roof, 3-4k euros", "3000-4000 EUR"),
        ("Hire a cleaner at 15 dollars an hour", "15 USD per hour"),
        ("Order T-shirts for 60 people, 9 pounds each at most", "540 GBP"),
        ("My budget for the trip is CHF 2500", "2500 CHF"),
        ("The conference may cost up to 150k SEK", "150000 SEK"),
        ("We've got 1.5 million yen for the exhibition", "1500000 JPY"),
        ("Keep it below EUR 99.90", "99.9 EUR"),
        ("Decorate the hall for no more than a hundred bucks", "100 USD"),
        ("Total cost must stay under 7,500 Swiss francs", "7500 CHF"),
        ("Plan the garden party; we can't afford more than 350 pounds", "350 GBP"),
        ("Host a dinner for 8, thirty euros a person", "240 EUR"),
        ("Hire an accountant, salary up to 48k euros a year", "48000 EUR per year"),
        ("Find a flat in Leeds for under £950 a month", "950 GBP per month"),
        ("Our budget is limited to 4 thousand dollars", "4000 USD"),
        ("Build a shed with a budget of 1200", "1200 USD"),
        ("I have $50 a week for groceries", "50 USD per week"),
        ("Ads should cost at most half a million rupees", "500000 INR"),
        ("Set aside 250 euros for decorations", "250 EUR"),
        ("Plan two nights in Porto, 400 euros all in", "400 EUR"),
        ("I want to save at least 300 dollars every month", ">=300 USD per month"),
        ("Get a sofa somewhere between £600 and £900", "600-900 GBP"),
        ("Draft a job ad, salary between 3,200 and 3,600 euros a month", "3200-3600 EUR per month"),
        ("we cant spend more than $12 per user per month", "12 USD per user per month"),
    ];

    const OTHER_AMOUNTS: &[(&str, &str)] = &[
        ("Plan a workshop with lunch at no more than €15 per person", ""),
        ("A party with drinks at up to 20 euros each", ""),
        ("Explain why the company lost $3 million last year", ""),
        ("Write about the $100 laptop project", ""),
        ("Our competitor charges 49 euros, find out why", ""),
        ("The invoice of 1,200 EUR was not paid, remind the client", ""),
        ("Help me lose 10 pounds by June", ""),
        ("Summarise how the city spent 5 million euros on the bridge", ""),
        ("Give each winner a 50 euro voucher", ""),
        ("Compare the pound and the dollar", ""),
        ("Offer her 15% off", ""),
        ("The fine is 80 euros, appeal against it", ""),
        ("Refund 30 euros to Mr Lee", ""),
        ("Move it to the top 5 grand hotels list", ""),
        ("Clear the mails, refunds up to 20 euros without asking me", ""),
        ("Ship the piano, insured up to 10,000 euros", ""),
        ("Audit the contracts, the ones above $10,000 a year first", ""),
        ("Limit it to five items", ""),
    ];
}
