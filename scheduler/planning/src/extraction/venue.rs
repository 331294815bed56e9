//! Finds where something is held or stands: sites, rooms, institutions; and the words that make a place one of these.

use super::people::is_person;
use super::place::{PARTS, is_link, place_at};
use super::sought::is_sought;
use super::words::{Text, Word, WordKind};

/// `at St. Anna hospital`: the index after it.
pub(super) fn saint_at(text: &Text, at: usize) -> Option<usize> {
    let is_saint =
        text.is_capital(at) && text.lower(at) == "st" && text.lower(at + 1) == "." && text.is_capital(at + 2);
    let end = (at + 3..at + 6).take_while(|i| text.get(*i).is_some_and(|word| word.kind == WordKind::Letters));
    let last = end.filter(|i| ROOMS.contains(&text.lower(*i))).last()?;
    (is_saint && matches!(text.before(at, 1), "at" | "in" | "for")).then_some(last + 1)
}

/// `the Harbour Road site`: the index after it.
pub(super) fn site_at(text: &Text, at: usize) -> Option<usize> {
    let is_led = matches!(text.before(at, 1), "the" | "our") && matches!(text.before(at, 2), "for" | "at" | "in");
    // One word is a name only where something is: `at our Leeds warehouse`; `for the German branch` is another matter.
    let is_town = || place_at(text, at).is_some_and(|found| found.known && found.next < at + 3);
    let least = at + if text.before(at, 2) == "for" && !is_town() { 2 } else { 1 };
    let last = (least..at + 4).find(|i| SITES.contains(&text.lower(*i)) && !text.is_capital(*i))?;
    (is_led && (at..last).all(|i| text.is_capital(i))).then_some(last + 1)
}

const SITES: &[&str] = &[
    "site", "depot", "plant", "campus", "branch", "warehouse", "estate", "premises", "yard", "clinic", "playground",
    "showroom", "office", "store", "factory", "studio", "gallery", "library", "restaurant",
];

/// `a party for 30 people in the office canteen`, `on Saturday at home`.
pub(super) fn room_at(text: &Text, at: usize) -> Option<String> {
    let own = usize::from(text.before(at, 1) == "own");
    let back = 1 + own + usize::from(matches!(text.before(at, 1 + own), "the" | "our" | "my" | "a"));
    let thing = at.checked_sub(back + 1).filter(|_| matches!(text.before(at, back), "in" | "at"))?;
    let is_there = VENUES.contains(&text.lower(thing))
        || is_person(text.lower(thing))
        || text.is_constraint(thing)
        || matches!(text.lower(thing), "," | "be");
    let last = (at..at + ROOM_WORDS_MAX).rev().find(|i| ROOMS.contains(&text.lower(*i)))?;
    let is_name = (at..last).all(|i| text.words[i].kind == WordKind::Letters && !is_link(text.lower(i)));
    (is_there && is_name).then(|| text.between(at, last + 1).to_owned())
}

/// `Oakfield Primary School`
pub(super) fn is_institution(name: &str) -> bool {
    let kind = name.rsplit_once(' ').map_or("", |(_, kind)| kind);
    [
        "School", "University", "College", "Academy", "Hospital", "Library", "Hall", "Museum", "Centre", "Clinic",
        "Church", "Cathedral", "Chapel", "Theatre", "Stadium", "Arena", "Hotel",
    ]
    .contains(&kind)
}

/// Longest name of a room, in words.
const ROOM_WORDS_MAX: usize = 3;

/// Rooms, buildings and grounds in which something is held.
const ROOMS: &[&str] = &[
    "home", "canteen", "cafeteria", "hall", "garden", "park", "library", "backyard", "courtyard", "terrace", "rooftop",
    "pub", "cafe", "café", "restaurant", "hotel", "church", "gym", "museum", "beach", "office", "room", "school",
    "club", "clubhouse", "centre", "center", "stadium", "theatre", "theater", "barn", "zoo", "farm", "university",
    "college", "academy", "hospital", "clinic", "nursery", "kindergarten", "building", "playground", "pool", "chapel",
];

/// `at home in Graz`, not `our care home in Graz`.
pub(super) fn is_at_home(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "in"
        && text.before(at, 2) == "home"
        && matches!(text.before(at, 3), "at" | "from" | "my" | "our")
}

/// `in flat 3B`, `in room 12`: a part of a building that has a number; the index after it.
pub(super) fn numbered_room(text: &Text, at: usize) -> Option<usize> {
    let is_room = ["flat", "room", "apartment", "unit", "building", "block", "house", "hall", "studio", "suite"]
        .contains(&text.lower(at));
    let is_led = matches!(text.before(at, 1), "in" | "at");
    let number = text
        .get(at + 1)
        .filter(|word| matches!(word.kind, WordKind::Number(_)) || word.text.len() == 1 && text.is_capital(at + 1))?;
    let is_suffix = |word: &&Word| word.glued && word.kind == WordKind::Letters && word.text.len() == 1;
    let suffix = text.get(at + 2).filter(is_suffix).filter(|_| number.kind != WordKind::Letters);
    (is_led && is_room).then_some(at + 2 + usize::from(suffix.is_some()))
}

/// `near Heilbronn`, `a workshop in Heilbronn`, `the office in Heilbronn`.
pub(super) fn is_venue(text: &Text, at: usize) -> bool {
    let back = 1 + usize::from(text.before(at, 1) == "the") + usize::from(PARTS.contains(&text.before(at, 1)));
    match text.before(at, back) {
        "near" => true,
        "in" | "at" if VENUES.contains(&text.before(at, back + 1)) || is_person(text.before(at, back + 1)) => true,
        // `our care home in Graz`
        "in" if text.before(at, back + 1) == "home" => true,
        "in" => is_sought(text, at - back),
        "to" => matches!(text.before(at, back + 1), "delivered" | "delivery" | "shipped" | "deliver"),
        _ => false,
    }
}

/// `on 9 May in Ghent`, `…, in Bilbao, …`
pub(super) fn follows_date(text: &Text, at: usize) -> bool {
    let is_alone = || {
        let end = place_at(text, at).map_or(at, |found| found.next);
        matches!(text.before(at, 2), "," | "(") && text.get(end).is_none_or(|word| word.kind == WordKind::Sign)
    };
    matches!(text.before(at, 1), "in" | "near")
        && at > 1
        && !text.is_constraint(at)
        && (text.is_constraint(at - 2) || is_alone())
}

/// What is or happens at a place.
const VENUES: &[&str] = &[
    "conference", "meeting", "workshop", "party", "retreat", "office", "offices", "store", "shop", "event", "wedding",
    "apartment", "flat", "house", "branch", "warehouse", "fair", "festival", "concert", "dinner", "lunch", "people",
    "participants", "employees", "engineers", "developers", "bar", "cafe", "restaurant", "held", "located", "based",
    "live", "opening", "living", "lives", "offsite", "celebration", "guests", "attendees", "seminar", "course",
    "venue", "school", "hackathon", "summit", "meetup", "accountant", "engineer", "developer", "manager", "nurse",
    "position", "job", "role", "workers", "somewhere", "anywhere", "place", "gallery", "studio", "clinic", "designer",
    "hall", "team", "exhibition", "market", "bakery", "factory",
];
