//! A travel agency with invented prices: flights, hotels, activities, budget check.

use goalmill_common::failure::{Failure, FailureClass};
use serde_json::{Value, json};

use super::money::Cents;
use super::{Worked, as_number, chance, count, fault, is_set, number, text};

/// Meals and local transport of one person for one day.
const DAILY: Cents = Cents(9_500);
/// `retry_after_ms` of the hotel agent's deliberate refusal.
const RETRY_AFTER_MS: u64 = 200;

/// Surcharge of the backup agency in dollars.
const BACKUP_DOLLARS: u16 = 58;

/// Return flights. Reads `origin`, `destination`, `travellers`.
pub(super) fn flights(inputs: &Value, _: u32) -> Worked {
    Ok(fares(inputs, ["Demo Air", "Sample Wings", "Placeholder Jet"], 0))
}

/// The same from a more expensive agency.
pub(super) fn backup_flights(inputs: &Value, _: u32) -> Worked {
    Ok(fares(inputs, ["Backup Air", "Reserve Wings", "Standby Jet"], BACKUP_DOLLARS))
}

/// Offers of these airlines, `more` dollars above the usual fare.
fn fares(inputs: &Value, airlines: [&str; 3], more: u16) -> Value {
    let from = airport(text(inputs, &["origin", "from", "departure"]).unwrap_or("NYC"));
    let to = airport(destination(inputs));
    let travellers = count(inputs, &["travellers", "travelers", "passengers"], 1, 9);
    let fare = |extra: u16| Cents(i64::from(fare_dollars(&from, &to) + more + extra) * 100).times(travellers);
    let offer = |airline: &str, stops: u32, extra: u16| {
        let price = fare(extra);
        json!({"airline": airline, "from": from, "to": to, "return": true, "stops": stops,
               "travellers": travellers, "price": price.dollars(), "currency": currency(inputs)})
    };
    let [first, second, third] = airlines;
    let offers = [offer(first, 0, 0), offer(second, 0, 58), offer(third, 1, 87)];
    let total = fare(0);
    json!({
        "best": offers[0], "flights": offers, "total": total.dollars(), "currency": currency(inputs),
        "summary": format!("{from} → {to}, return"),
    })
}

/// A stay. Reads `destination`, `nights`, `rooms`, `area`, `nearby`. The first attempt of a step is rate
/// limited, to show a retry, unless `calm` is set.
pub(super) fn hotels(inputs: &Value, attempt: u32) -> Worked {
    if attempt == 1 && !is_set(inputs, "calm") {
        let failure = Failure::new(FailureClass::RateLimited, "DEMO_RATE_LIMITED", "too many searches, slow down");
        return Err(Failure { retry_after_ms: Some(RETRY_AFTER_MS), ..failure });
    }
    let place = destination(inputs);
    let nights = count(inputs, &["nights", "duration_days", "days", "duration"], 3, 365);
    let rooms = count(inputs, &["rooms"], 1, 99);
    let offers: Vec<Value> = areas(inputs, place)
        .into_iter()
        .map(|(name, area, night)| {
            json!({"name": name, "area": area, "nights": nights, "rooms": rooms, "per_night": night.dollars(),
                   "price": night.times(nights).times(rooms).dollars(), "currency": currency(inputs)})
        })
        .collect();
    let best = offers[0].clone();
    Ok(json!({
        "total": best["price"], "currency": currency(inputs), "nights": nights,
        "summary": format!("{nights} nights, {}", best["area"].as_str().unwrap_or_default()),
        "best": best, "hotels": offers,
    }))
}

/// Activities. Reads `destination`, `count`.
pub(super) fn activities(inputs: &Value, _: u32) -> Worked {
    let known: [(&str, Cents); 8] = if is_paris(destination(inputs)) { PARIS } else { ANYWHERE };
    let wanted = count(inputs, &["count", "min_activities", "activities", "limit"], 5, 100);
    let chosen: Vec<(String, Cents)> = (0..usize::try_from(wanted).unwrap_or(known.len()))
        .map(|i| match (known[i % known.len()], i / known.len()) {
            ((name, price), 0) => (name.to_owned(), price),
            ((name, price), again) => (format!("{name} ({})", again + 1), price),
        })
        .collect();
    let total: Cents = chosen.iter().map(|(_, price)| *price).sum();
    let list: Vec<Value> = chosen.iter().map(|(name, price)| json!({"name": name, "price": price.dollars()})).collect();
    Ok(json!({
        "activities": list, "count": wanted, "total": total.dollars(), "currency": currency(inputs),
        "summary": format!("{wanted} activities"),
    }))
}

/// Adds up the costs in the other inputs, with meals and local transport, and compares the sum with `budget`.
pub(super) fn validate(inputs: &Value, _: u32) -> Worked {
    let mut items: Vec<(String, Cents)> = Vec::new();
    costs(inputs, &mut items);
    if items.is_empty() {
        return Ok(check_trip(inputs));
    }
    let days = count(inputs, &["days", "duration_days", "nights", "duration"], 3, 365);
    let travellers = count(inputs, &["travellers", "travelers", "passengers"], 1, 9);
    if inputs["meals"] != Value::Bool(false) {
        items.push(("meals_and_local_transport".into(), DAILY.times(days).times(travellers)));
    }
    let total: Cents = items.iter().map(|(_, amount)| *amount).sum();
    let list: Vec<Value> = items.iter().map(|(name, a)| json!({"name": name, "amount": a.dollars()})).collect();
    let currency = currency(inputs);
    let mut outputs = json!({"items": list, "total": total.dollars(), "currency": currency, "valid": true});
    let Some(budget) = budget(inputs) else {
        outputs["summary"] = format!("{total} {currency}").into();
        return Ok(outputs);
    };
    let left = budget.minus(total);
    if left < Cents(0) {
        let message = format!(
            "the total of {total} {currency} is {} {currency} over the budget of {budget} {currency}",
            Cents(-left.0)
        );
        return Err(Failure::new(FailureClass::ConstraintViolation, "OVER_BUDGET", message));
    }
    outputs["budget"] = budget.dollars();
    outputs["remaining"] = left.dollars();
    outputs["within_budget"] = true.into();
    outputs["summary"] = format!("within budget, {left} {currency} left").into();
    Ok(outputs)
}

/// The currency of the invented prices: that of the budget, or dollars.
fn currency(inputs: &Value) -> &str {
    let stated = [&inputs["currency"], &inputs["budget"]["currency"]].into_iter().find_map(Value::as_str);
    stated.filter(|code| code.len() == 3).unwrap_or("USD")
}

const PARIS: [(&str, Cents); 8] = [
    ("Louvre Museum", Cents(2_200)),
    ("Eiffel Tower, summit", Cents(2_940)),
    ("Seine cruise", Cents(1_700)),
    ("Musée d'Orsay", Cents(1_600)),
    ("Montmartre food walk", Cents(3_200)),
    ("Sainte-Chapelle", Cents(1_300)),
    ("Arc de Triomphe", Cents(1_600)),
    ("Catacombs", Cents(2_900)),
];

const ANYWHERE: [(&str, Cents); 8] = [
    ("City walk", Cents(1_500)),
    ("Museum of the city", Cents(1_800)),
    ("Boat tour", Cents(2_400)),
    ("Food market tour", Cents(3_500)),
    ("Viewpoint", Cents(1_200)),
    ("Old town by night", Cents(2_000)),
    ("Day hike", Cents(1_000)),
    ("Concert", Cents(4_000)),
];

/// Districts of Paris with prices per night, and the neighbours of a fully booked district.
const DISTRICTS: [(&str, &str, Cents); 3] = [
    ("Hôtel Exemple", "Le Marais", Cents(16_800)),
    ("Hôtel Échantillon", "11e", Cents(14_900)),
    ("Hôtel Modèle", "Latin Quarter", Cents(18_100)),
];
const NEARBY: [(&str, &str, Cents); 3] = [
    ("Hôtel Échantillon", "11e", Cents(14_900)),
    ("Hôtel Esquisse", "12e", Cents(12_900)),
    ("Hôtel Modèle", "Latin Quarter", Cents(18_100)),
];

/// The same for other cities, as a surcharge in dollars.
const DISTRICTS_ANYWHERE: [(&str, &str, i64); 3] =
    [("Example Hotel", "centre", 0), ("Sample Inn", "nearby", -19), ("Model House", "station", 13)];
const NEARBY_ANYWHERE: [(&str, &str, i64); 3] =
    [("Sample Inn", "nearby", -19), ("Outline Lodge", "outskirts", -39), ("Model House", "station", 13)];

/// Names, areas and prices per night, the offered one first.
fn areas(inputs: &Value, place: &str) -> Vec<(String, String, Cents)> {
    let nearby = fault::looks_nearby(inputs);
    let mut known: Vec<(String, String, Cents)> = if is_paris(place) {
        let known = if nearby { NEARBY } else { DISTRICTS };
        known.map(|(name, area, night)| (name.into(), area.into(), night)).into()
    } else {
        let base = i64::from(90 + chance(place, 120));
        let known = if nearby { NEARBY_ANYWHERE } else { DISTRICTS_ANYWHERE };
        known.map(|(name, area, more)| (format!("{name} {place}"), area.into(), Cents((base + more) * 100))).into()
    };
    let wanted = fault::wanted_area(inputs);
    if let Some(at) = known.iter().position(|(_, area, _)| area.to_lowercase() == wanted) {
        known.swap(0, at);
    }
    known
}

fn destination(inputs: &Value) -> &str {
    text(inputs, &["destination", "to", "city", "location", "place"]).unwrap_or("Paris")
}

fn is_paris(place: &str) -> bool {
    place.to_lowercase().contains("paris") || place.eq_ignore_ascii_case("CDG")
}

fn airport(place: &str) -> String {
    let lower = place.to_lowercase();
    if is_paris(&lower) {
        "CDG".into()
    } else if lower.contains("new york") || lower == "nyc" || lower == "jfk" {
        "NYC".into()
    } else {
        place.to_owned()
    }
}

fn fare_dollars(from: &str, to: &str) -> u16 {
    if (from, to) == ("NYC", "CDG") { 612 } else { 180 + chance(&format!("{from}-{to}"), 800) }
}

/// `2000`, `"$2000"`, `{"amount": 2000}`.
fn budget(inputs: &Value) -> Option<Cents> {
    let names = ["budget", "max_total", "limit", "total_budget"];
    let inner = inputs["constraints"].as_object().map(|_| &inputs["constraints"]);
    [Some(inputs), inner].into_iter().flatten().find_map(|source| {
        let amounts = names.iter().find_map(|name| number(&source[name], &["amount", "max", "value"]));
        number(source, &names).or(amounts).map(Cents::of_dollars)
    })
}

/// Inputs without costs.
const NO_COSTS: [&str; 21] = [
    "budget", "max_total", "limit", "total_budget", "constraints", "days", "duration_days", "nights", "duration",
    "travellers", "travelers", "passengers", "latency_ms", "meals", "criteria", "success_criteria", "calm", "fault",
    "demo_fault", "goal", "currency",
];

/// Every amount in the inputs, in order.
fn costs(inputs: &Value, items: &mut Vec<(String, Cents)>) {
    for (name, value) in inputs.as_object().into_iter().flatten() {
        if NO_COSTS.contains(&name.as_str()) {
            continue;
        }
        match (amount(value), value) {
            (Some(amount), _) => items.push((name.clone(), amount)),
            (None, Value::Object(_)) => costs(value, items),
            (None, _) => {}
        }
    }
}

/// Cost of one input: a number, or an object with `total` or `price`.
fn amount(value: &Value) -> Option<Cents> {
    let direct = as_number(value);
    let inner = || number(value, &["total", "price", "cost", "amount"]).or_else(|| number(&value["best"], &["price"]));
    direct.or_else(inner).filter(|n| n.is_finite()).map(Cents::of_dollars)
}

/// Without amounts it checks only that no input is empty.
fn check_trip(inputs: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    let all: Vec<(&String, &Value)> = inputs.as_object().into_iter().flatten().collect();
    let problems: Vec<String> =
        all.iter().filter(|(_, v)| empty(v)).map(|(name, _)| format!("`{name}` is empty")).collect();
    let summary = match problems.len() {
        0 => format!("{} inputs, nothing is missing", all.len()),
        n => format!("{n} of {} inputs are empty", all.len()),
    };
    json!({"valid": problems.is_empty(), "checked": all.len(), "problems": problems, "summary": summary})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trip_to_paris_costs_what_the_first_screen_says() {
        let flights = flights(&json!({"origin": "NYC", "destination": "Paris"}), 1).expect("there are flights");
        let hotels = hotels(&json!({"destination": "Paris", "nights": 3}), 2).expect("there are hotels");
        let activities = activities(&json!({"destination": "Paris", "count": 5}), 1).expect("there are activities");
        assert_eq!(
            (&flights["total"], &hotels["total"], &activities["total"]),
            (&json!(612.0), &json!(504.0), &json!(116.4))
        );
        assert_eq!(flights["summary"], "NYC → CDG, return");
        assert_eq!(hotels["summary"], "3 nights, Le Marais");
        let inputs = json!({"flights": flights, "hotels": hotels, "activities": activities, "budget": 2000, "days": 3});
        let budget = validate(&inputs, 1).expect("it is within the budget");
        assert_eq!((&budget["total"], &budget["remaining"]), (&json!(1517.4), &json!(482.6)));
        assert!(budget["summary"].as_str().is_some_and(|text| text.contains("482.60 USD")));
        assert_eq!(budget["items"][3], json!({"name": "meals_and_local_transport", "amount": 285.0}));
    }

    #[test]
    fn the_first_search_for_hotels_is_told_to_slow_down() {
        let failure = hotels(&json!({}), 1).expect_err("it is rate limited");
        assert_eq!((failure.class, failure.retry_after_ms), (FailureClass::RateLimited, Some(200)));
        assert!(hotels(&json!({"calm": true}), 1).is_ok());
    }

    #[test]
    fn prices_follow_the_inputs() {
        let nearby = hotels(&json!({"nearby": true, "nights": 3}), 2).expect("there are hotels");
        assert_eq!((&nearby["total"], &nearby["best"]["area"]), (&json!(447.0), &json!("11e")));
        let week = hotels(&json!({"nights": "7"}), 2).expect("there are hotels");
        assert_eq!(week["total"], json!(1176.0));
        let two = activities(&json!({"count": 2}), 1).expect("there are activities");
        assert_eq!(two["total"], json!(51.4));
    }

    #[test]
    fn a_total_over_the_budget_breaks_a_constraint() {
        let inputs = json!({"flights": 612, "budget": {"amount": 500, "currency": "USD"}, "days": 1});
        let failure = validate(&inputs, 1).expect_err("it is over the budget");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::ConstraintViolation, "OVER_BUDGET"));
        assert!(failure.message.contains("207.00 USD over"), "{}", failure.message);
    }

    #[test]
    fn prices_are_in_what_the_budget_is_in() {
        let inputs = json!({"flights": 612, "budget": 500, "currency": "EUR", "days": 1});
        let failure = validate(&inputs, 1).expect_err("it is over the budget");
        assert!(failure.message.contains("500.00 EUR"), "{}", failure.message);
        let flights = flights(&json!({"destination": "Paris", "currency": "GBP"}), 1).expect("there are flights");
        assert_eq!((&flights["currency"], &flights["best"]["currency"]), (&json!("GBP"), &json!("GBP")));
    }

    #[test]
    fn a_trip_on_which_everything_goes_wrong_still_adds_up() {
        let flights = backup_flights(&json!({"origin": "NYC", "destination": "Paris"}), 1).expect("there are flights");
        let hotels = hotels(&json!({"nearby": true, "nights": 3}), 2).expect("there are hotels");
        let activities = activities(&json!({"destination": "Paris"}), 1).expect("there are activities");
        assert_eq!((&flights["total"], &hotels["hotels"][1]["price"]), (&json!(670.0), &json!(387.0)));
        let bill = |hotel: &Value| {
            let inputs = json!({"flights": flights["total"], "hotels": hotel, "activities": activities["total"],
                                "budget": 1500, "days": 3, "demo_fault": {"flight_agent": "unavailable"}});
            validate(&inputs, 1)
        };
        let over = bill(&hotels["best"]).expect_err("it is over the budget");
        assert!(["1518.40 USD", "18.40 USD", "1500.00 USD"].iter().all(|sum| over.message.contains(sum)), "{over:?}");
        let within = bill(&hotels["hotels"][1]).expect("it is within the budget");
        assert_eq!((&within["total"], &within["remaining"]), (&json!(1458.4), &json!(41.6)));
    }
}
