//! Reads the facts of a journey: how long, when, where, for how many, and for how much.

use std::ops::Range;
use std::sync::LazyLock;

use goalmill_common::number::{to_u32, whole_u64};
use jiff::civil::Date;
use regex::{Captures, Regex};
use serde::Serialize;

use super::clause_text::{ClauseText, last_word, pattern, value_of};

/// Largest amount of money, longest stay in days, and largest group that a number alone stands for.
const AMOUNT_MAX: f64 = 1e12;
const DAYS_MAX: f64 = 366.0;
const GROUP_MAX: u32 = 20;

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

/// A stay. Three days have three nights here unless the text counts the nights itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Duration {
    pub days: u32,
    pub nights: u32,
}

/// A calendar month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Month {
    /// 1 to 12.
    pub number: i8,
    pub name: &'static str,
    pub year: i16,
}

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];
const JOURNEY: &str = "trip|holiday|vacation|tour|visit|stay|break|getaway|journey|retreat|cruise|hike|honeymoon|itinerary|hotel|\
    weekend|travel|travell?ing|fly|flying|flights?";
const EVENT: &str = "workshop|course|conference|event|festival|sprint";
const PERSONS: &str = "people|persons?|adults?|travell?ers?|children|kids|guests";
/// A name of capitalised words: `Rio de Janeiro`, `Stratford-upon-Avon`, `Paris, Texas`.
const NAME: &str =
    r"\p{Lu}\p{L}*(?:['’]\p{L}+)*(?:(?: |-|-upon-| de | of | la )\p{Lu}\p{L}*(?:['’]\p{L}+)*){0,4}(?:, \p{Lu}\p{L}+)?";
/// What may stand behind a name; `Berlin suppliers` is none.
const END: &str = r"(?:\s*(?:$|[\x00\x01\n,;:!?()&/–—])|\.(?:\s|$)|\s+(?:for|in|from|with|on|at|by|under|this|next|during|over|before|until|between|and|or|to|that|is|as|please|via|within|then|up|costing)\b)";
const CODES: &str =
    "AED|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|THB|TRY|UAH|USD|ZAR";
const AMOUNT: &str = r"(?:(?P<before>US\$|[$€£¥₹]|\b(?:CODES)\b)\s?)?(?P<number>NUMBER)(?P<scale>[kKmM]\b)?(?:\s?(?P<after>[$€£¥₹]|(?:CODES|(?i:usd|dollars?|eur|euros?|gbp|pounds?|jpy|yen|inr|rupees))\b))?";
const LENGTH: &str = r"(?i)(?P<number>NUMBER)(?:\s?-)?\s?(?P<unit>days?|nights?|weeks?)\b(?:(?:\s+and\s+|/|,\s*)(?P<nights>NUMBER)\s+nights\b)?";

macro_rules! patterns {
    ($($name:ident = $text:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| of_journey($text));)*
    };
}

/// A pattern in which the names above stand for theirs.
fn of_journey(text: &str) -> Regex {
    let text = text.replace("AMOUNT", AMOUNT).replace("LENGTH", LENGTH).replace("NAME", NAME).replace("END", END);
    let text = text.replace("JOURNEY", JOURNEY).replace("EVENT", EVENT).replace("PERSONS", PERSONS);
    pattern(&text.replace("CODES", CODES).replace("MONTHS", &MONTHS.join("|")))
}

patterns! {
    MONEY = "AMOUNT";
    ONE_AMOUNT = "^(?:AMOUNT)$";
    RANGE_BEFORE = r"\d\s*(?:-|–|to|and)\s*$";
    RANGE_OR_RATE = r"^\s*(?:(?:-|–|to|and|or)\s*[$€£¥₹]?\d|/|(?:per|an?|each|apiece|daily|monthly|yearly)\b)";
    OF_BUDGET = r"(?i)\bbudget(?:\s*(?:\b(?:of|is|about|around|at|most|up|to)\b|[:=]))*\s*$";
    THEN_BUDGET = r"(?i)^\s+budget\b";
    NUMBER_END = r"(?i)^END";
    AT_MOST = r"(?i)(?:\bup to|\bat most|\bless than|\bmax(?:imum)? of|\bmax\.|\bunder|\bbelow|\bmax|\bmaximum)\s*$";
    OR_LESS = r"(?i)^\s*(?:max|maximum|tops|at most|or less|in total)\b";
    OF_WHOLE = r"(?i)(?:^|\x01|\b(?:JOURNEY|it|for|costs?|spend|spending|all|total|everything|altogether))\s*$";
    ANY_JOURNEY = r"(?i)\b(?:JOURNEY)\b";
    COUNTED = "LENGTH";
    SINGLE = r"(?i)\b(?:a|(?P<long>long))\s+weekend\b|\ba\s+week\b";
    OF_STAY = r"(?i)^[\s-]+(?:\p{L}+\s+)?(?:JOURNEY|EVENT)\b";
    AT_PLACE = r"^\s+in\s+(?:\p{L}+\s+)?\p{Lu}";
    STAY = r"(?i)\b(?:JOURNEY|EVENT)\b";
    AFTER_STAY = r"(?i)(?:^|\x01|\b(?:JOURNEY|EVENT))$";
    OTHER_TIME = r"(?i)^[\s-]*(?:ago|old|late|later|per|before|after|notice)\b";
    GROUP = r"(?i)\bfor\s+(?P<number>NUMBER)(?:\s+(?P<persons>PERSONS)\b(?:\s*(?:and|\+|,)\s*(?P<more>NUMBER)\s+(?:PERSONS)\b)?)?";
    GROUP_END = r"(?i)^(?:\s*(?:$|[.,;!?)\x00\x01])|\s+(?:in|to \p{L}+|from|with|on|at|by|under)\b)";
    IN_MONTH = r"(?i)\bin\s+(?P<month>MONTHS)\b(?:\s+(?P<year>(?:19|20|21)\d\d)\b)?";
    NAME_GOES_ON = r"^(?:-| \p{Lu}\p{Ll})";
    ONE_MONTH = r"(?i)^(?P<month>MONTHS)(?:\s+(?P<year>(?:19|20|21)\d\d))?$";
    MONTH_NAME = r"\b(?:MONTHS)\b";
    GOES_TO = r"(?:(?i:\b(?:JOURNEY))[\s\x01]+(?:from NAME[\s\x01]+to|to|in)|\x01\s+in) (?:the )?(?P<name>NAME)END";
    STARTS_FROM = r"(?:(?i:\b(?:JOURNEY|leaving|departing))|\x01)[\s\x01]+from (?:the )?(?P<name>NAME)(?:END| to\b)";
    OTHER_NAME = r"^\s*(?:and|or|then|,|/|&)\s+\p{Lu}";
    ORDINAL = r"(?i)^(\d{1,2})(?:st|nd|rd|th)?(?: of)? |(\d{1,2})(?:st|nd|rd|th)?(?:,|$)";
}

/// Whether a text speaks of a journey or a stay somewhere.
pub(super) fn is_one(text: &ClauseText<'_>) -> bool {
    ANY_JOURNEY.is_match(&text.open)
}

/// How long a journey or an event is, in the first place that says so.
pub(super) fn duration(text: &mut ClauseText<'_>) -> Option<Duration> {
    let counted = COUNTED.captures_iter(&text.open).map(|c| (counted(&c), range(&c)));
    let single = SINGLE.captures_iter(&text.open).map(|c| (single(&c), range(&c)));
    let mut found: Vec<_> = counted.chain(single).collect();
    found.sort_by_key(|(_, range)| range.start);
    let (duration, range) = found.into_iter().find_map(|(duration, range)| {
        let duration = duration.filter(|_| is_length_of_stay(text, &range))?;
        Some((duration, range))
    })?;
    text.mark(range);
    Some(duration)
}

/// Reads a length on its own, as a constraint of the goal has it.
pub(super) fn read_length(text: &str) -> Option<Duration> {
    let found = COUNTED.captures(text)?;
    counted(&found).filter(|_| range(&found).start == 0)
}

fn is_length_of_stay(text: &ClauseText<'_>, range: &Range<usize>) -> bool {
    let (behind, before) = (&text.open[range.end..], text.before(range.start));
    let before = before.strip_suffix(" a").or(before.strip_suffix(" long")).unwrap_or(before);
    let word = last_word(before);
    // `twice a week`
    let is_rate = text.open[range.clone()].eq_ignore_ascii_case("a week")
        && !["", "for", "of", "spend", "plan"].contains(&word.as_str());
    let is_one_word = !text.open[range.clone()].ends_with(['s', 'S']);
    let is_of_stay = is_one_word && OF_STAY.is_match(behind);
    let is_led = word.is_empty() || word == "for" || word == "of";
    let is_behind_stay = is_led && STAY.is_match(&text.open[..range.start]);
    let is_point = ["in", "within", "last", "past", "every", "each", "than", "after", "next"].contains(&word.as_str());
    let is_at_place = text.has_case && AT_PLACE.is_match(behind);
    is_free(text, range.start)
        && !is_point
        && !is_rate
        && !OTHER_TIME.is_match(behind)
        && (is_of_stay || is_at_place || is_behind_stay)
}

/// Whether no letter, digit or hyphen stands right before a place: `B2` and `COVID-19` are names.
pub(super) fn is_free(text: &ClauseText<'_>, at: usize) -> bool {
    !text.source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-')
}

fn range(found: &Captures<'_>) -> Range<usize> {
    found.get_match().range()
}

fn counted(found: &Captures<'_>) -> Option<Duration> {
    let factor = if found["unit"].to_ascii_lowercase().starts_with("week") { 7.0 } else { 1.0 };
    let days = whole(value_of(&found["number"])? * factor)?;
    let nights = found.name("nights").and_then(|nights| whole(value_of(nights.as_str())?));
    Some(Duration { days, nights: nights.unwrap_or(days) })
}

fn single(found: &Captures<'_>) -> Option<Duration> {
    let is_weekend = found[0].to_ascii_lowercase().ends_with("weekend");
    let days = if is_weekend { 2 + u32::from(found.name("long").is_some()) } else { 7 };
    Some(Duration { days, nights: days })
}

fn whole(value: f64) -> Option<u32> {
    (value.fract() == 0.0 && (1.0..=DAYS_MAX).contains(&value)).then(|| to_u32(whole_u64(value)))
}

/// How many travel: `for two`, `for 2 adults and 2 children`.
pub(super) fn travellers(text: &mut ClauseText<'_>) -> Option<u32> {
    let (count, range) = GROUP.captures_iter(&text.open).find_map(|found| {
        let range = range(&found);
        let count = whole(value_of(&found["number"])?)?;
        let is_alone = found.name("persons").is_none();
        let is_group = !is_alone || count <= GROUP_MAX && GROUP_END.is_match(&text.open[range.end..]);
        let more = found.name("more").and_then(|more| whole(value_of(more.as_str())?)).unwrap_or_default();
        is_group.then_some((count + more, range))
    })?;
    text.mark(range);
    Some(count)
}

/// Where a journey goes and where it starts. A text that names two destinations has none: which one is meant is not certain.
pub(super) fn places(text: &mut ClauseText<'_>) -> (Option<String>, Option<String>) {
    let destination = only_place(text, &GOES_TO);
    let origin = destination.is_some().then(|| only_place(text, &STARTS_FROM)).flatten();
    (destination, origin)
}

fn only_place(text: &mut ClauseText<'_>, pattern: &Regex) -> Option<String> {
    let (mut found, mut places) = (None, Vec::new());
    for place in pattern.captures_iter(&text.open).filter_map(|place| place.name("name")).filter(|_| text.has_case) {
        let name = place.as_str().to_owned();
        if name.ends_with("'s") || name.ends_with("’s") || MONTH_NAME.is_match(&name) {
            continue;
        }
        if OTHER_NAME.is_match(&text.open[place.end()..]) || found.as_ref().is_some_and(|held| *held != name) {
            return None;
        }
        found = Some(name);
        places.push(place.range());
    }
    places.into_iter().for_each(|place| text.mark(place));
    found
}

/// The day of a time in Unix milliseconds, in UTC; the last one that there is for a time beyond it.
pub(super) fn day_of(now_ms: u64) -> Date {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// The month of a journey or of what has a length: `a trip in May`. It is read behind the other facts.
pub(super) fn month(text: &mut ClauseText<'_>, today: Date) -> Option<Month> {
    let mut months: Vec<_> =
        IN_MONTH.captures_iter(&text.open).map(|found| (month_of(&found, today), range(&found))).collect();
    // Not `in May-like weather` and `by June Smith`.
    months.retain(|(_, range)| {
        AFTER_STAY.is_match(text.before(range.start)) && !NAME_GOES_ON.is_match(&text.open[range.end..])
    });
    let month = months.first()?.0.clone();
    months.iter().all(|(other, _)| *other == month).then_some(())?;
    months.into_iter().for_each(|(_, range)| text.mark(range));
    month
}

/// Reads a month on its own; one without a year is the next such month.
pub(super) fn read_month(text: &str, today: Date) -> Option<Month> {
    month_of(&ONE_MONTH.captures(text.trim())?, today)
}

fn month_of(found: &Captures<'_>, today: Date) -> Option<Month> {
    let place = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(&found["month"]))?;
    let number = i8::try_from(place + 1).ok()?;
    let year = found.name("year").and_then(|year| year.as_str().parse().ok());
    let year = year.unwrap_or(today.year() + i16::from(number < today.month()));
    Some(Month { number, name: MONTHS[place], year })
}

/// Reads one day on its own: `2027-05-03`, `3rd of May 2027`, `May 3`. A day without a year is the next such day.
pub(super) fn read_day(text: &str, today: Date) -> Option<Date> {
    let plain = ORDINAL.replace(text.trim(), |found: &Captures<'_>| {
        format!("{} ", found.get(1).or(found.get(2)).map_or("", |day| day.as_str()))
    });
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let parse = |text: &str| {
        let formats = ["%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y"];
        formats.iter().find_map(|format| Date::strptime(format, text).ok())
    };
    let next = |ahead: i16| parse(&format!("{plain} {}", today.year().checked_add(ahead)?)).filter(|day| *day >= today);
    parse(&plain).or_else(|| (0..=4).find_map(next))
}

/// The amount that the words around it make a limit for the whole; none if the text names two.
pub(super) fn budget(text: &mut ClauseText<'_>) -> Option<Money> {
    let amounts = MONEY.captures_iter(&text.open);
    let limits: Vec<_> = amounts.filter_map(|found| Some((money_of(&found)?, limit(text, &found)?))).collect();
    let money = limits.first()?.0.clone();
    limits.iter().all(|(other, _)| *other == money).then_some(())?;
    limits.into_iter().for_each(|(_, range)| text.mark(range));
    Some(money)
}

/// Reads one amount on its own, as a constraint of the goal has it: `2000 USD`, `$2k`, `2000`.
pub(super) fn read_amount(text: &str) -> Option<Money> {
    money_of(&ONE_AMOUNT.captures(text.trim())?)
}

fn money_of(found: &Captures<'_>) -> Option<Money> {
    let currency = found.name("before").or(found.name("after")).map(|word| currency(word.as_str()));
    let scale = match found.name("scale").map(|scale| scale.as_str()) {
        Some("k" | "K") => 1e3,
        Some(_) => 1e6,
        None => 1.0,
    };
    let amount = value_of(&found["number"])? * scale;
    let money =
        Money { amount, currency_assumed: currency.is_none(), currency: currency.unwrap_or_else(|| "USD".into()) };
    (amount > 0.0 && amount <= AMOUNT_MAX).then_some(money)
}

fn currency(word: &str) -> String {
    let word = word.to_uppercase();
    let code = match word.as_str() {
        "$" | "US$" | "DOLLAR" | "DOLLARS" => "USD",
        "€" | "EURO" | "EUROS" => "EUR",
        "£" | "POUND" | "POUNDS" => "GBP",
        "¥" | "YEN" => "JPY",
        "₹" | "RUPEES" => "INR",
        code => code,
    };
    code.to_owned()
}

/// An amount and the words that make it the budget; none if it is not certain that it is one.
fn limit(text: &ClauseText<'_>, found: &Captures<'_>) -> Option<Range<usize>> {
    let range = range(found);
    let (before, behind) = (&text.open[..range.start], &text.open[range.end..]);
    let has_currency = found.name("before").or(found.name("after")).is_some();
    // `the 2027 budget`
    let is_year = !has_currency && found["number"].len() == 4 && ["19", "20"].contains(&&found["number"][..2]);
    if is_year
        || RANGE_BEFORE.is_match(before)
        || RANGE_OR_RATE.is_match(behind)
        || !(has_currency || is_free(text, range.start))
    {
        return None;
    }
    // `a budget of 5000 yuan` has a currency that is not known.
    if let Some(lead) = OF_BUDGET.find(before).filter(|_| has_currency || NUMBER_END.is_match(behind)) {
        return Some(lead.start()..range.end);
    }
    if let Some(budget) = THEN_BUDGET.find(behind) {
        return Some(range.start..range.end + budget.end());
    }
    let (lead, tail) = (AT_MOST.find(before), OR_LESS.find(behind));
    if !has_currency || lead.is_none() && tail.is_none() {
        return None;
    }
    let start = lead.map_or(range.start, |lead| lead.start());
    // `refunds up to 20 euros`: what an amount behind another noun limits is not certain.
    OF_WHOLE.is_match(text.before(start)).then(|| start..range.end + tail.map_or(0, |tail| tail.end()))
}
