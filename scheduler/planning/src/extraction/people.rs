//! Extracts how many people a goal is for: `for 30 participants`, `two adults and three kids`, `a family of four`.

use super::count::{UNITS, whole};
use super::words::{Quantity, Text, WordKind};

/// How many people a goal is for: `for 30 participants`, `, 60 employees`, `a team of 12`.
pub(super) fn group(text: &Text) -> Option<u32> {
    let found: Option<(Option<(usize, usize)>, u32)> = (0..text.words.len()).find_map(|at| {
        let number = up_to(text, text.number(at).filter(|_| !is_part_of_word(text, at))?);
        if team_at(text, number.next) {
            return Some((None, whole(number.value)?));
        }
        let is_age = text.lower(number.next) == "-" && matches!(text.lower(number.next + 1), "year" | "month");
        let is_of_each = is_of_each(text, at);
        let is_scoped = is_person(text.lower(number.next)) && text.lower(number.next + 1) == "per";
        if is_age || is_of_each || is_scoped {
            return None;
        }
        let led = [
            "for", "with", ",", "of", "among", "(", "invite", "all", "to", "about", "around", "approximately", ".", "",
            "having", "expecting", "inviting", "train", "teach", "seat", "feed", "host", "coach", "onboard", "serve",
            "!", "welcome",
        ]
        .contains(&text.before(at, 1));
        let last = number.next + GROUP_WORDS_MAX;
        let is_inside =
            |i: &usize| text.get(*i).is_some_and(|w| w.kind == WordKind::Letters || w.lower == "-" && w.glued);
        // `for 16 of our warehouse people`
        let is_part = text.lower(number.next) == "of" && matches!(text.lower(number.next + 1), "our" | "the" | "my");
        let is_part = is_part && text.before(at, 1) == "for";
        let last = last + 2 * usize::from(is_part);
        let next = (number.next..last).take_while(is_inside).find(|i| is_person(text.lower(*i)));
        let next = next.unwrap_or(number.next);
        let is_described = is_part || next <= number.next + 1 || (number.next..next).any(|i| text.lower(i) == "-");
        let is_told =
            matches!(text.lower(next + 1), "live" | "work" | "use" | "died" | "voted" | "complained" | "visit");
        (led && is_described && is_person(text.lower(next)) && !is_told && !text.is_constraint(at))
            .then(|| whole(number.value).map(|n| (Some((at, next + 1)), n)))?
    });
    let (read, people) = found?;
    // The team is a part of what the goal is about.
    if let Some((from, to)) = read {
        text.note_constraint(from, to);
    }
    Some(people)
}

/// `two families with five kids`: whether the number at `at` counts a part of a group.
fn is_of_each(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "with" && matches!(text.before(at, 2), "families" | "couples")
}

/// Words from a number to the people that it counts, at most: `60 first-year students`.
const GROUP_WORDS_MAX: usize = 6;

/// `-person` of `a 12-person office`, not of `a 2-person tent`.
fn team_at(text: &Text, at: usize) -> bool {
    let is_joined = text.lower(at) == "-" && text.get(at + 1).is_some_and(|unit| unit.glued);
    let is_person = matches!(text.lower(at + 1), "person" | "people" | "man" | "woman" | "member" | "strong");
    let is_group = |noun: &str| {
        [
            "office", "team", "company", "firm", "business", "staff", "startup", "agency", "department", "group",
            "household", "family", "party", "crew", "class", "workshop", "dinner", "retreat", "committee", "studio",
            "shop", "practice", "clinic", "school", "club", "choir", "band", "board",
        ]
        .contains(&noun)
    };
    let noun = (at + 2..at + 4).any(|i| is_group(text.lower(i)));
    is_joined && is_person && noun
}

/// `15-20`: the upper number.
fn up_to(text: &Text, number: Quantity) -> Quantity {
    let is_range = matches!(text.lower(number.next), "-" | "–" | "to");
    text.number(number.next + 1).filter(|upper| is_range && upper.value > number.value).unwrap_or(number)
}

/// Whether a number continues what stands before it: not so in `(60 people)`.
fn is_part_of_word(text: &Text, at: usize) -> bool {
    text.words[at].glued && text.before(at, 1) != "("
}

pub(super) fn is_person(noun: &str) -> bool {
    [
        "people", "persons", "participants", "journalists", "investors", "donors", "parents", "neighbours",
        "neighbors", "attendees", "guests", "employees", "colleagues", "students", "pupils", "children", "kids",
        "members", "adults", "users", "customers", "visitors", "volunteers", "graders", "players", "delegates",
        "speakers", "nurses", "teachers", "engineers", "developers", "managers", "learners", "trainees", "staff",
        "workers", "respondents", "seats", "invitees", "teenagers", "seniors", "beginners", "clients", "patients",
        "girls", "boys", "women", "men", "ladies", "leaders", "residents", "tenants", "subscribers", "freelancers",
        "olds",
    ]
    .contains(&noun)
}

/// How many people travel.
pub(super) fn people(text: &Text) -> Option<u32> {
    let counted: u32 = (0..text.words.len())
        .filter_map(|at| {
            let people = people_at(text, at)?;
            text.note_constraint(at, text.number(at).map_or(at, |number| number.next + 1));
            Some(people)
        })
        .fold(0, u32::saturating_add);
    if counted > 0 {
        return Some(counted.saturating_add(parents(text)).min(1_000));
    }
    (0..text.words.len()).find_map(|at| {
        let people = group_at(text, at)?;
        let next = [at + 1, at + 2].into_iter().find_map(|i| text.number(i)).map_or(at + 1, |number| number.next);
        text.note_constraint(at, next);
        Some(people)
    })
}

/// `Ms Keller`, `my boss`: one name or one person.
fn is_one_person(text: &Text, at: usize) -> bool {
    let is_name = text.is_capital(at) && !text.is_sentence_start(at);
    let is_mine = matches!(text.before(at, 1), "my" | "our" | "a") && !text.lower(at).ends_with('s');
    let is_led = text.clause_before(at, 4).any(|i| matches!(text.lower(i), "for" | "with" | "of" | "take"));
    (is_name || is_mine) && is_led
}

/// `my wife and I … our three grandchildren`: the two who go with children that are counted.
fn parents(text: &Text) -> u32 {
    let has_other = text.words.iter().any(|word| {
        ["adults", "people", "persons", "guests", "travellers", "travelers", "friends", "colleagues"]
            .contains(&word.lower.as_str())
    });
    let is_couple = (0..text.words.len()).any(|at| {
        matches!(text.lower(at), "wife" | "husband" | "partner")
            && text.before(at, 1) == "my"
            && (text.lower(at + 1) == "and" || text.before(at, 2) == "with")
    });
    if is_couple && !has_other { 2 } else { 0 }
}

/// `2 adults`, `three people`; a group's parts add up.
fn people_at(text: &Text, at: usize) -> Option<u32> {
    let word = text.get(at)?;
    let continues = at > 0 && (is_part_of_word(text, at) || text.number(at - 1).is_some_and(|q| q.next > at));
    if word.kind == WordKind::Sign || continues {
        return None;
    }
    let number = up_to(text, text.number(at)?);
    let noun = text.lower(number.next);
    // `three friends and I`
    let is_and_me =
        text.lower(number.next + 1) == "and" && matches!(text.lower(number.next + 2), "i" | "me" | "myself");
    if is_and_me && COMPANIONS.contains(&noun) {
        return whole(number.value).map(|others| others + 1);
    }
    // `the six of us`; `two of us are vegetarian` are a part.
    let is_whole = matches!(text.before(at, 1), "the" | "for" | "are" | "with");
    if noun == "of" && text.lower(number.next + 1) == "us" && is_whole {
        return whole(number.value);
    }
    let led =
        ["for", "with", "and", "of", ",", "are", "us", "we", "(", "+", ":", "adults", "adult", "between", "among"]
            .contains(&text.before(at, 1));
    let always = ["adults", "adult", "travellers", "travelers", "guests", "traveller", "traveler"].contains(&noun);
    let led_only =
        ["people", "persons", "person", "children", "kids", "child", "kid", "friends", "colleagues"].contains(&noun);
    // `our three grandchildren`
    let is_own = matches!(text.before(at, 1), "our" | "my")
        && ["grandchildren", "children", "kids", "sons", "daughters"].contains(&noun);
    let is_with_me = text.before(at, 1) == "and" && matches!(text.before(at, 2), "me" | "i" | "myself");
    let friends = u32::from(noun == "friends" && matches!(text.before(at, 1), "with" | "and") || is_with_me);
    // `two people per shift`
    let is_part = is_of_each(text, at) || text.lower(number.next + 1) == "per";
    // `two adults, a toddler and a cat`
    let small = (number.next + 1..number.next + 4)
        .filter(|i| matches!(text.lower(*i), "a" | "one"))
        .filter(|i| matches!(text.lower(i + 1), "toddler" | "baby" | "child" | "kid" | "teenager" | "infant"))
        .count();
    let friends = friends + u32::from(always && small > 0);
    (always || is_own || led && led_only && !is_part).then(|| whole(number.value)).flatten().map(|n| n + friends)
}

/// Who goes along.
const COMPANIONS: &[&str] = &[
    "friends", "colleagues", "sisters", "brothers", "cousins", "children", "kids", "sons", "daughters", "others",
    "classmates", "flatmates", "neighbours", "neighbors", "people", "girls", "guys", "mates",
];

/// `for two`, `a family of four`, `my wife and I`, `a couple`, `solo`.
fn group_at(text: &Text, at: usize) -> Option<u32> {
    let word = text.lower(at);
    let of_number = || {
        let number = text.number(at + 2)?;
        let is_other = UNITS.contains(&text.lower(number.next)) || text.lower(number.next) == "-";
        (text.lower(at + 1) == "of" && !is_other).then(|| whole(number.value))?
    };
    match word {
        "family" | "party" | "group" | "team" | "household" | "share" | "flat" | "crew" | "band" | "choir"
        | "class" | "committee" => of_number(),
        "for" => {
            let number = text.number(at + 1)?;
            // `for 9 to 12 thousand euros`
            let is_range = text.lower(number.next) == "to" && text.number(number.next + 1).is_some();
            let ends = !is_range
                && text.get(number.next).is_none_or(|next| {
                    next.kind == WordKind::Sign && !["-", "%", "$", "€", "£", "/", ":"].contains(&next.lower.as_str())
                        || ["in", "to", "from", "with", "on", "and", "at"].contains(&next.lower.as_str())
                });
            (ends && number.value <= 20.0).then(|| whole(number.value))?
        }
        // `a trip for Ms Keller and me`
        "me" | "myself" if text.before(at, 1) == "and" && is_one_person(text, at.checked_sub(2)?) => Some(2),
        "alone" if (1..=6).any(|back| matches!(text.before(at, back), "leave" | "leaving" | "left")) => None,
        "solo" | "alone" => Some(1),
        "honeymoon" => Some(2),
        "couple" if matches!(text.before(at, 1), "a" | "our") && text.lower(at + 1) != "of" => Some(2),
        "wife" | "husband" | "partner" | "girlfriend" | "boyfriend" | "fiancee" if text.before(at, 1) == "my" => {
            Some(2)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_of_a_group_are_counted() {
        for (text, expected) in [
            ("move our 12-person office", Some(12)),
            ("a plan for a 40-strong sales team", Some(40)),
            ("buy a 2-person tent", None),
            ("a workshop for 30 participants", Some(30)),
        ] {
            assert_eq!(group(&Text::new(text)), expected, "{text}");
        }
    }

    #[test]
    fn people_are_counted() {
        let of = |text: &str| people(&Text::new(text));
        for (text, expected) in [
            ("a weekend in Rome for two", 2),
            ("for 2 people", 2),
            ("for a family of four", 4),
            ("2 adults and 2 children", 4),
            ("with my wife in May", 2),
            ("a solo trip", 1),
            ("a honeymoon in Bali", 2),
            ("a group of 5", 5),
            ("a flat share of five", 5),
            ("a party (60 people)", 60),
            ("with 3 friends", 4),
            ("dinner for the six of us", 6),
            ("meals for a family of five, two of us vegetarian", 5),
            ("romantic trip for a couple", 2),
        ] {
            assert_eq!(of(text), Some(expected), "{text}");
        }
        for text in [
            "for two weeks", "a couple of days", "for 3 days", "for 2000 dollars", "for 2000",
            "2000 people live there", "for 3-day", "leave the quotes alone",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn people_are_counted_as_people_write_them() {
        super::super::phrases::check(PEOPLE, |facts| {
            facts.people.or(facts.travellers).map(|people| people.to_string()).unwrap_or_default()
        });
    }

    const PEOPLE: &[(&str, &str)] = &[
        ("We're having 10 kids round from 3 to 5.30", "10"),
        ("Make the rota: two people per shift", ""),
        ("Our wedding is in June, 80 guests. Plan everything except the honeymoon.", "80"),
        ("A lesson on volcanoes for 28 nine-year-olds", "28"),
        ("We're moving to Cardiff, two adults, a toddler and a cat", "3"),
        ("Two families with five kids want to camp in Slovenia", ""),
        ("Plan a business trip to Vienna for Ms Keller and me", "2"),
        ("Send the minutes to Anna and me", ""),
        ("My wife and I want to take our three grandchildren to Denmark", "5"),
        ("A holiday with my wife and two kids", "4"),
        ("Train 16 of our warehouse people", ""),
        ("Set up a course for 16 of our warehouse people", "16"),
        ("Redo our bathroom for 9 to 12 thousand euros", ""),
        ("A lesson for a class of ten-year-olds", ""),
        ("Three friends and I want to hike in the Alps", "4"),
        ("Find a cabin for my two sisters and me", "3"),
        ("Split the count between 5 people", "5"),
        ("Share the shifts among six colleagues", "6"),
        ("Cook for 12 people", "12"),
        ("Find software for a team of 14", "14"),
        ("A trip for two adults and three kids (4, 7 and 11)", "5"),
        ("A party, around 60 guests", "60"),
        ("Move our 12-person office", "12"),
        ("There are five of us", "5"),
        ("A boat for the four of us", "4"),
        ("A trip to Rome for me and my wife", "2"),
        ("A trip for myself and two friends", "3"),
        ("Meals for a family of six", "6"),
        ("Seat 80 wedding guests", "80"),
        ("A lesson for 30 students", "30"),
        ("A seminar with 25 participants", "25"),
        ("Dinner for eight, please", "8"),
        ("Train all 120 warehouse workers", "120"),
        ("An event for about 200 attendees", "200"),
        ("20 colleagues are coming", "20"),
        ("A barbecue for 15-20 people", "20"),
        ("An outing for a group of ten teenagers", "10"),
        ("Train 18 nurses in first aid", "18"),
        ("A day with 9 managers", "9"),
        ("A quiz for a class of 24", "24"),
        ("A hotel for 2 adults + 1 child", "3"),
        ("Book a table for two", "2"),
        ("Lunch for 1,500 employees", "1500"),
        ("Christmas party!! Around 60 people, Friday", "60"),
        ("Dinner plan for four, Monday to Friday", "4"),
        ("Buy a 2-person tent", ""),
        ("5000 people live there, describe it", ""),
        ("Find a hotel with five stars", ""),
        ("Interview at most 5 people", ""),
        ("Rent it for two weeks", ""),
        ("Buy paint for 3 rooms", ""),
        ("Hire two developers", ""),
        ("Write a book for children", ""),
        ("Buy flowers for 20 dollars", ""),
        ("I'm 52 and want to run", ""),
    ];
}
