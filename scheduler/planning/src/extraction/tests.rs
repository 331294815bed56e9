//! What is read of the text of a goal and of its constraints, and what is not.

use serde_json::json;

use super::journey::read_amount;
use super::*;

/// 2026-11-21.
const NOW_MS: u64 = 1_795_293_490_279;

fn read(description: &str, constraints: Value) -> GoalFacts {
    let constraints = constraints.as_object().cloned().unwrap_or_default();
    GoalFacts::from_goal(&Goal { description: description.into(), constraints, ..Goal::default() }, NOW_MS)
}

fn facts(description: &str, constraints: Value) -> Value {
    Value::Object(read(description, constraints).by_name())
}

#[test]
fn the_first_goal_of_every_reader_is_understood() {
    let found = facts("Plan a 3-day trip to Paris in May with a $2000 budget", json!({}));
    let expected = json!({
        "budget": {"amount": 2000, "currency": "USD"},
        "duration": {"days": 3, "nights": 3},
        "month": {"number": 5, "name": "May", "year": 2027},
        "destination": "Paris",
    });
    assert_eq!(found, expected);
}

#[test]
fn all_facts_of_one_goal_are_read_together() {
    let text = "Plan a 4-day trip for two to Rome from Boston in May under 1500 euros";
    let expected = json!({
        "budget": {"amount": 1500, "currency": "EUR"}, "duration": {"days": 4, "nights": 4},
        "month": {"number": 5, "name": "May", "year": 2027}, "destination": "Rome", "origin": "Boston",
        "travellers": 2,
    });
    assert_eq!(facts(text, json!({})), expected);
    assert_eq!(read(text, json!({})).unread, Vec::<String>::new());
}

#[test]
fn numbers_that_no_fact_holds_are_reported() {
    for (text, parts) in [
        ("Deliver 3 reports by 05/06/2027", "3 reports | 05 | 06 | 2027"),
        ("Write a 200-word summary of two papers", "200 | two papers"),
        ("Plan a trip to Paris, no more than 3 days", "3 days"),
        ("Write one report on COVID-19 for v2.4", ""),
        ("Plan a 3-day trip to Paris under $2000", ""),
    ] {
        assert_eq!(read(text, json!({})).unread.join(" | "), parts, "{text}");
    }
    assert_eq!(read(&"9 lives, ".repeat(50), json!({})).unread.len(), UNREAD_MAX);
}

#[test]
fn constraints_win_over_the_text() {
    let found = facts(
        "Plan a 3-day trip to Paris in May with a $2000 budget",
        json!({"budget": {"amount": 1500.5, "currency": "EUR"}, "duration_days": 4, "destination": "Rome", "month": "June",
               "travellers": "2", "origin": "Boston", "deadline": "2027-03-01", "colour": "blue"}),
    );
    let expected = json!({
        "budget": {"amount": 1500.5, "currency": "EUR"},
        "duration": {"days": 4, "nights": 4},
        "month": {"number": 6, "name": "June", "year": 2027},
        "destination": "Rome", "origin": "Boston", "travellers": 2,
    });
    assert_eq!(found, expected);
}

#[test]
fn a_constraint_that_is_no_fact_is_a_requirement_in_the_words_of_the_caller() {
    let odd = json!({"duration": "soon", "exclusions": ["flying"], "topic": "rain", "month": 5, "budget": []});
    let facts = read("Write a poem", odd.clone());
    assert_eq!(facts.by_name(), Map::new());
    assert_eq!(Value::Object(facts.requirements()), odd);
    assert_eq!(
        Value::Object(facts.known()),
        json!({"topic": "rain", "exclusions": ["flying"]}),
        "templates use their defaults for facts that cannot be read"
    );
}

#[test]
fn constraints_that_make_no_sense_change_nothing() {
    let text = "a 3-day trip to Paris with a $2000 budget";
    let odd = json!({"budget": [], "duration": "soon", "destination": " ", "nights": -1, "month": 5, "travellers": {}});
    assert_eq!(facts(text, odd), facts(text, json!({})));
}

#[test]
fn what_is_negated_or_only_possible_is_no_fact() {
    for text in [
        "Plan something, but not in May and not to Paris",
        "Don't plan a 3-day trip to Paris for two with a $2000 budget",
        "Plan it without 3 guides and never under $2000",
        "Choose if a trip to Paris costs less than $500 and takes 3 days",
        "Our 3-day trip to Paris in May was cancelled",
    ] {
        assert_eq!(facts(text, json!({})), json!({}), "{text}");
    }
}

#[test]
fn odd_texts_are_read_without_harm() {
    for text in [
        "",
        " ",
        "$",
        "-",
        "3-",
        "в Париж на 3 дня",
        "去巴黎三天",
        "İn İstanbul",
        "a\u{0}b",
        "🙂 for 2 🙂",
        "in",
        "to the",
        "from",
        "by the",
        "\"",
    ] {
        facts(text, json!({}));
    }
    facts(&"ß".repeat(20_000), json!({}));
    facts(&"9-".repeat(20_000), json!({}));
    facts(&"twenty and ".repeat(5_000), json!({}));
    facts(&"to A from B not ".repeat(5_000), json!({}));
}

/// The fact of a text, with what makes it a journey.
fn fact(text: &str, name: &str) -> Value {
    facts(text, json!({})).get(name).cloned().unwrap_or_default()
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
        ("A house within a budget of $1.5 million", 1.5e6, "USD"),
        ("A trip under $900. My budget is $900.", 900.0, "USD"),
    ] {
        let found = fact(text, "budget");
        assert_eq!((found["amount"].as_f64(), found["currency"].as_str()), (Some(amount), Some(currency)), "{text}");
    }
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
        "a budget of 5000 yuan",
    ] {
        assert_eq!(fact(text, "budget"), Value::Null, "{text}");
    }
    let alone = |text| read_amount(text).map(|money| (money.amount, money.currency_assumed));
    assert_eq!([alone("2000USD"), alone("$2k")], [Some((2000.0, false)), Some((2000.0, false))]);
    assert_eq!([alone("2000"), alone("2000 apples")], [Some((2000.0, true)), None]);
}

#[test]
fn durations_are_read_in_many_spellings() {
    for (text, days, nights) in [
        ("a three day trip", 3, 3),
        ("a 3-day business trip", 3, 3),
        ("two weeks in Italy", 14, 14),
        ("a weekend in Rome", 2, 2),
        ("a weekend trip", 2, 2),
        ("a long weekend in Rome", 3, 3),
        ("a trip for a week", 7, 7),
        ("5 nights in Kyoto", 5, 5),
        ("a trip, 3 days and 2 nights", 3, 2),
        ("a trip of 3 days/2 nights", 3, 2),
        ("a twenty-one-day tour", 21, 21),
        ("find a hotel for 2 nights", 2, 2),
        ("prepare the 2-week sprint", 14, 14),
    ] {
        assert_eq!(fact(text, "duration"), json!({"days": days, "nights": nights}), "{text}");
    }
    for text in [
        "next week",
        "3 days ago",
        "a trip three weeks later",
        "a trip in 3 days",
        "twice a week",
        "a 3-day-old baby",
        "a trip every 2 days",
        "30-day moving average",
        "within two days",
        "no trip of more than 3 days",
        "a trip of no more than 3 days",
        "not a 3-day trip",
        "the site was down for 2 days",
        "keep 30 days of history",
        "the approval takes two weeks",
        "500 days in Rome",
        "0 days in Rome",
        "a trip of 1.5 weeks",
        "A 3-daytime show",
        "a hike this weekend in the Alps",
        "twice a week in Rome",
    ] {
        assert_eq!(fact(text, "duration"), Value::Null, "{text}");
    }
}

#[test]
fn months_and_days_are_read() {
    for (text, month) in [
        ("a trip in May", json!([5, 2027])),
        ("a trip in December", json!([12, 2026])),
        ("5 days in Rome in May 2029", json!([5, 2029])),
        ("you may visit museums", json!([null, null])),
        ("May I ask for help?", json!([null, null])),
        ("march on to Rome", json!([null, null])),
        ("in May-like weather", json!([null, null])),
        ("a trip in June Smith's car", json!([null, null])),
        ("on 3 May", json!([null, null])),
        ("not in May", json!([null, null])),
        ("the film \"Seven Days in May\"", json!([null, null])),
        ("a trip in May or a trip in June", json!([null, null])),
        ("the shops we opened in May", json!([null, null])),
    ] {
        let found = fact(text, "month");
        assert_eq!(json!([found["number"], found["year"]]), month, "{text}");
    }
    for (text, day) in [
        ("2027-05-03", "2027-05-03"),
        ("12 October", "2027-10-12"),
        ("Oct 12", "2027-10-12"),
        ("December 15", "2026-12-15"),
        ("3rd of May 2028", "2028-05-03"),
        ("May 3, 2027", "2027-05-03"),
        ("29 February", "2028-02-29"),
        ("2027-02-30", ""),
        ("31 April", ""),
        ("05/06/2027", ""),
        ("3 May or 4 May", ""),
        ("3", ""),
    ] {
        assert_eq!(day_of_words(text, NOW_MS).map(|day| day.to_string()).unwrap_or_default(), day, "{text}");
    }
    assert_eq!(day_of_words("3 May", u64::MAX), None, "the end of time");
}

#[test]
fn places_are_read() {
    for (text, destination, origin) in [
        ("a trip to Paris, Texas for two", "Paris, Texas", ""),
        ("5 days in Kyoto", "Kyoto", ""),
        ("a trip to the Grand Canyon next week", "Grand Canyon", ""),
        ("travel to Rio de Janeiro", "Rio de Janeiro", ""),
        ("fly from Boston to Paris", "Paris", "Boston"),
        ("a trip to Paris from New York in May", "Paris", "New York"),
        ("a trip from San Jose to Tokyo", "Tokyo", "San Jose"),
        ("a honeymoon in Santorini, flying from Athens", "Santorini", "Athens"),
        ("a trip to Rome in May, leaving from Boston", "Rome", "Boston"),
        ("a hotel in Rome for 2 nights", "Rome", ""),
        ("a trip to Rome instead of Paris, if possible to Oslo", "Rome", ""),
        ("a trip for 3 days to Oslo", "Oslo", ""),
        ("a flight from JFK in New York to LAX", "", ""),
        ("not to Paris", "", ""),
        ("a trip, but not to Paris", "", ""),
        ("no trip to Paris", "", ""),
        ("a trip, not to Rome, to Paris or to Oslo", "", ""),
        ("I don't want to travel to Paris", "", ""),
        ("a trip to Paris or Rome", "", ""),
        ("a trip to Paris, Rome and Berlin", "", ""),
        ("a trip to Rome and a trip to Oslo", "", ""),
        ("a trip to Berlin suppliers", "", ""),
        ("a trip to English-speaking countries", "", ""),
        ("a trip to Anna's house", "", ""),
        ("a trip to the dentist", "", ""),
        ("translate this to German", "", ""),
        ("write it in Python", "", ""),
        ("learn it in 2 days in Python", "", ""),
        ("Send the trip report to Anna", "", ""),
        ("move the tables from Oracle to Postgres", "", ""),
        ("go to Google and search", "", ""),
        ("PLAN A TRIP TO PARIS", "", ""),
    ] {
        let found = ["destination", "origin"].map(|name| fact(text, name).as_str().unwrap_or_default().to_owned());
        assert_eq!(found, [destination, origin], "{text}");
    }
}

#[test]
fn travellers_are_counted() {
    for (text, expected) in [
        ("a weekend in Rome for two", json!(2)),
        ("a trip for 2 people", json!(2)),
        ("a trip for 2 adults and 2 children", json!(4)),
        ("a trip for four, please", json!(4)),
        ("a trip for two weeks", json!(null)),
        ("a trip for 2000 dollars", json!(null)),
        ("a trip for 2000", json!(null)),
        ("a trip for 2-3 people", json!(null)),
        ("a trip for 3 to 5 days", json!(null)),
        ("a trip, not for two", json!(null)),
        ("a trip for my wife and two kids", json!(null)),
        ("a table for two", json!(null)),
    ] {
        assert_eq!(fact(text, "travellers"), expected, "{text}");
    }
}

#[test]
fn the_main_request_says_what_kind_of_goal_it_is() {
    for (text, words, subject) in [
        ("Could you please write a report on hiring?", "write a report on hiring", "write a report on hiring"),
        ("Fix the login bug: it fails. Then tell me.", "fix the login bug it fails", "Fix the login bug"),
        ("Our export failed", "export failed", "export failed"),
        ("Hi! Find a hotel", "find a hotel", "Find a hotel"),
        ("Birthday party for 12 children", "birthday party for 12 children", "Birthday party for 12 children"),
        (
            "Go one two three four five six seven eight nine ten",
            "go one two three four five six seven eight nine",
            "Go one two three four five six seven eight nine ten",
        ),
        ("", "", ""),
    ] {
        let found = read(text, json!({}));
        assert_eq!(found.request.words.join(" "), words, "{text}");
        assert_eq!(found.subject.unwrap_or_default(), subject, "{text}");
    }
    assert!(read("Run it", json!({})).request.is_making() && !read("Birthday party", json!({})).request.is_making());
}

#[test]
fn numbers_have_their_values() {
    for (text, value) in [
        ("2,000.50", 2000.5),
        ("2000", 2000.0),
        ("1,234,567", 1_234_567.0),
        ("1'200", 1200.0),
        ("2,00", 2.0),
        ("twenty-five", 25.0),
        ("two thousand five hundred", 2500.0),
        ("thousand", 1000.0),
        ("two dozen", 24.0),
        ("fifteen hundred", 1500.0),
        ("1.5 million", 1.5e6),
    ] {
        assert_eq!(value_of(text), Some(value), "{text}");
    }
    assert_eq!(value_of(&"9".repeat(400)), Some(f64::INFINITY));
}
