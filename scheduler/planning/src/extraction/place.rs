//! Extracts places: destination and origin.

use super::calendar_date::month_number;
use super::people::is_person;
use super::place_names::{COUNTRIES, KNOWN, NO_PLACES, REGIONS, STATES};
use super::relative_date::weekday_at;
use super::venue::{follows_date, is_at_home, is_institution, is_venue, numbered_room, room_at, saint_at, site_at};
use super::words::{Text, Word, WordKind};

/// Places of a text, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Where to; several for a round trip.
    pub destinations: Vec<String>,
    pub origin: Option<String>,
    /// Where something is or happens: `a workshop in Heilbronn`.
    pub location: Option<String>,
}

/// A place at an index: its name and the index after it.
pub(super) struct Found {
    pub name: String,
    pub next: usize,
    pub known: bool,
}

pub(super) fn read(text: &Text) -> Places {
    let mut places = Places::default();
    let mut weak = Vec::new();
    let mut is_weak_trip = false;
    let mut room = None;
    let is_technical = text.words.iter().any(|word| TECHNICAL.contains(&word.lower.as_str()));
    let mut at = 0;
    while at < text.words.len() {
        if let Some((end, from, to)) = systems_at(text, at) {
            places.origin = places.origin.or(Some(from));
            add(&mut places.destinations, to);
            at = end;
            continue;
        }
        if let Some(end) = saint_at(text, at).or_else(|| site_at(text, at)).or_else(|| numbered_room(text, at)) {
            places.location = places.location.or_else(|| Some(text.between(at, end).to_owned()));
            at = end;
            continue;
        }
        let Some(found) = place_at(text, at) else {
            room = room.or_else(|| room_at(text, at));
            at += 1;
            continue;
        };
        let (first, capital) = (at, text.is_capital(at));
        at = found.next;
        if let Some((end, to)) = pair_at(text, first, &found) {
            places.origin = places.origin.or(Some(found.name));
            add(&mut places.destinations, to);
            at = end;
            continue;
        }
        let is_unsure = is_technical && !found.known && text.before(first, 1) != "near" && !is_venue(text, first);
        if is_unsure || describes(text, at) {
            continue;
        }
        match role_before(text, first) {
            Role::Origin if found.known || is_on_a_journey(text, first) => {
                places.origin = places.origin.or(Some(found.name));
            }
            Role::Origin => {}
            Role::Destination => {
                add(&mut places.destinations, found.name);
                at = more(text, at, &mut places.destinations);
            }
            Role::Place if found.known && (capital || !text.has_case) => {
                is_weak_trip |= is_on_a_journey(text, first);
                add(&mut weak, found.name);
                at = more(text, at, &mut weak);
            }
            Role::Place if is_at_home(text, first) => {
                places.location = places.location.or_else(|| Some(format!("home in {}", found.name)));
            }
            Role::Place if is_venue(text, first) => {
                let other = or_place(text, found.next);
                at = other.as_ref().map_or(at, |other| other.next);
                let name = other.map_or(found.name.clone(), |other| format!("{} or {}", found.name, other.name));
                places.location = places.location.or(Some(name));
            }
            Role::Place if !is_technical && follows_date(text, first) => {
                places.location = places.location.or(Some(found.name));
            }
            Role::Place if matches!(text.before(first, 1), "at" | "in") && is_institution(&found.name) => {
                places.location = places.location.or(Some(found.name));
            }
            Role::Place => {}
        }
    }
    if places.destinations.is_empty() && is_weak_trip {
        places.destinations = weak;
    } else if !weak.is_empty() {
        places.location = places.location.or_else(|| Some(listed(&weak)));
    }
    // `at a restaurant in Bristol`: the town says more.
    places.location = places.location.or(room);
    if let Some(origin) = &places.origin {
        places.destinations.retain(|name| name != origin);
    }
    places
}

/// `or Portobello`: another place.
fn or_place(text: &Text, at: usize) -> Option<Found> {
    place_at(text, at + 1).filter(|_| text.lower(at) == "or")
}

/// `Netherlands and Belgium`
fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// Whether the goal is about a journey of people.
pub(super) fn tells_journey(text: &Text) -> bool {
    text.words.iter().enumerate().any(|(at, word)| {
        // `everything except the honeymoon`
        !text.is_constraint(at)
            && [
                "trip", "trips", "fly", "flying", "flight", "flights", "vacation", "holiday", "holidays", "getaway",
                "honeymoon", "cruise", "journey", "itinerary", "travel", "travelling", "traveling", "travellers",
            ]
            .contains(&word.lower.as_str())
    })
}

/// `move the records from Oracle to Postgres`: the index after the pair and its second name.
fn pair_at(text: &Text, at: usize, first: &Found) -> Option<(usize, String)> {
    let is_led = text.before(at, 1) == "from" && text.lower(first.next) == "to";
    let moves = text.clause_before(at, PAIR_WORDS_MAX).any(|i| MOVES.contains(&text.lower(i)));
    let second = first.next + 1;
    let found = place_at(text, second).or_else(|| {
        let is_name = text.is_capital(second)
            && text.get(second + 1).is_none_or(|word| !word.glued || word.kind == WordKind::Sign);
        let end = (second + 1..second + 4).find(|i| !text.is_capital(*i)).unwrap_or(second + 4);
        is_name.then(|| Found { name: text.between(second, end).to_owned(), next: end, known: false })
    })?;
    // A weekend of work on computers is no journey.
    let is_spare_time = text.words.iter().any(|word| matches!(word.lower.as_str(), "weekend" | "holiday" | "holidays"));
    let is_safe =
        first.known || !is_spare_time || !TECHNICAL.iter().any(|word| text.words.iter().any(|w| w.lower == *word));
    (is_led && moves && is_safe && !is_language(text, at)).then_some((found.next, found.name))
}

/// `from MySQL 5.7 to PostgreSQL 16`, `from our old Exchange server to Google Workspace`: the index after the pair, and both.
fn systems_at(text: &Text, at: usize) -> Option<(usize, String, String)> {
    let moves = ["move", "migrat", "switch", "transfer", "port", "upgrad", "convert", "copy", "replac", "moving"];
    let is_moved =
        text.clause_before(at, PAIR_WORDS_MAX).any(|i| moves.iter().any(|verb| text.lower(i).starts_with(verb)));
    (text.lower(at) == "from" && is_moved).then_some(())?;
    let named = |mut i: usize| {
        while OWN.contains(&text.lower(i)) || is_owner(text, i) {
            i += 1;
        }
        let is_other = month_number(text, i).is_some()
            || weekday_at(text, i).is_some()
            || super::format::language_at(text, i).is_some()
            || text.is_constraint(i);
        (is_brand(text, i) && !is_other).then_some(i)
    };
    let from = named(at + 1).or_else(|| own_system(text, at + 1))?;
    let to = (from + 1..=from + SYSTEM_WORDS_MAX).find(|i| matches!(text.lower(*i), "to" | "onto"))?;
    let is_name = |i: usize| {
        let word = &text.words[i];
        let is_part = NUMBERED.contains(&word.lower.as_str()) || word.is_possessive();
        word.kind != WordKind::Sign && !is_part && !is_link(&word.lower)
    };
    let second = named(to + 1).filter(|second| (from..to).all(is_name) && is_name(*second))?;
    let is_part = |i: &usize| {
        let is_version = text.get(*i).is_some_and(|word| matches!(word.kind, WordKind::Number(_)))
            && !text.get(i + 1).is_some_and(|next| next.kind == WordKind::Letters && next.lower.ends_with('s'));
        is_brand(text, *i) || *i > second && is_version && !text.is_constraint(*i)
    };
    let end = (second..second + SYSTEM_WORDS_MAX).find(|i| !is_part(i)).unwrap_or(second + SYSTEM_WORDS_MAX);
    // `from Leeds to Bristol` is a journey.
    let is_town = from + 1 == to && place_at(text, from).is_some_and(|found| found.known);
    (!is_town).then(|| (end, text.between(from, to).to_owned(), text.between(second, end).to_owned()))
}

/// `the old server`: the index of what it is.
fn own_system(text: &Text, at: usize) -> Option<usize> {
    let noun = (at..at + 4).find(|i| !OWN.contains(&text.lower(*i)))?;
    let is_system = [
        "server", "system", "drive", "platform", "provider", "host", "phone", "laptop", "computer", "database",
        "software", "tool", "app", "nas", "hoster",
    ]
    .contains(&text.lower(noun));
    (is_system && noun > at + 1 && matches!(text.lower(noun + 1), "to" | "onto")).then_some(noun)
}

/// `iPhone`, `Synology`
fn is_brand(text: &Text, at: usize) -> bool {
    let has_capital = |word: &Word| word.kind == WordKind::Letters && word.text.chars().any(char::is_uppercase);
    text.has_case && text.get(at).is_some_and(has_capital)
}

/// `mum's` of `my mum's old phone`
fn is_owner(text: &Text, at: usize) -> bool {
    !text.is_capital(at) && text.get(at).is_some_and(Word::is_possessive)
}

/// Parts of a text or a building, and people, which are no systems.
const NUMBERED: &[&str] = &[
    "chapter", "section", "part", "room", "step", "page", "sheet", "table", "column", "row", "appendix", "annex", "mr",
    "mrs", "ms", "dr", "level", "grade", "floor",
];

/// Longest name of a system, in words.
const SYSTEM_WORDS_MAX: usize = 4;

/// Words before the name of what somebody has or wants.
const OWN: &[&str] = &[
    "our", "my", "the", "a", "an", "old", "current", "existing", "legacy", "previous", "own", "new", "ageing", "aging",
];

fn is_language(text: &Text, at: usize) -> bool {
    NO_PLACES.contains(&text.lower(at))
}

/// Words between a verb for a move and its places, at most.
const PAIR_WORDS_MAX: usize = 14;

const MOVES: &[&str] = &[
    "move", "moving", "migrate", "migrating", "migration", "switch", "switching", "relocate", "relocating", "transfer",
    "transferring", "port", "upgrade", "go", "drive", "fly", "flying", "travel", "ship", "copy", "convert", "trip",
    "ride", "flight", "train", "change", "taxi", "transfers", "transport", "deliver", "bring", "shuttle", "bus",
    "minibus", "coach", "ferry",
];

/// `EU customers`, `French law`: a name before one of these words says which ones are meant, not where.
fn describes(text: &Text, next: usize) -> bool {
    let noun = text.lower(next);
    // `the Berlin Wall`
    let is_name = text.has_case
        && text.is_capital(next)
        && month_number(text, next).is_none()
        && weekday_at(text, next).is_none()
        && !text.is_sentence_start(next);
    if is_name {
        return true;
    }
    let is_noun = is_person(noun) || DESCRIBED.contains(&noun);
    is_noun && text.get(next).is_some_and(|word| word.kind == WordKind::Letters && !text.is_capital(next))
}

/// Things that have the name of a place before them.
const DESCRIBED: &[&str] = &[
    "law", "laws", "rules", "regulation", "regulations", "directive", "funding", "grant", "market", "markets",
    "citizens", "companies", "suppliers", "tax", "taxes", "standards", "currency", "shoppers", "buyers", "orders",
    "invoices",
];

fn add(list: &mut Vec<String>, name: String) {
    if !list.contains(&name) {
        list.push(name);
    }
}

/// `Paris, Rome and Berlin`: the places after the first.
fn more(text: &Text, mut at: usize, list: &mut Vec<String>) -> usize {
    loop {
        let mut next = at;
        while matches!(text.lower(next), "," | "and" | "then" | "&" | "/" | "or") {
            next += 1;
        }
        if next == at {
            return at;
        }
        match place_at(text, next) {
            Some(found) if found.known || text.before(next, 1) == "," || text.before(next, 1) == "and" => {
                if !found.known && !text.is_capital(next) {
                    return at;
                }
                add(list, found.name);
                at = found.next;
            }
            _ => return at,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Destination,
    Origin,
    /// Named, but for no clear purpose; only known places count.
    Place,
}

/// What the words before `at` make of a place there.
fn role_before(text: &Text, at: usize) -> Role {
    let back = 1 + usize::from(text.before(at, 1) == "the") + usize::from(PARTS.contains(&text.before(at, 1)));
    let second = text.before(at, back + 1);
    // `data must stay in Germany`
    if second == "stay" && matches!(text.before(at, back + 2), "must" | "should" | "to") {
        return Role::Place;
    }
    // `from a flat in Bristol to a house in Cardiff`
    if text.before(at, back) == "in"
        && text.clause_before(at, 20).any(|i| is_journey(text.lower(i)))
        && let Some(role) = home_role(text, at - back)
    {
        return role;
    }
    match text.before(at, back) {
        "from" | "departing" | "leaving" => Role::Origin,
        "of" if second == "out" => Role::Origin,
        "to" if follows_origin(text, at - back) && is_on_a_journey(text, at) => Role::Destination,
        "to" if (1..=6).any(|further| is_journey(text.before(at, back + further))) => Role::Destination,
        "visit" | "visiting" | "explore" | "exploring" | "tour" => Role::Destination,
        "in" | "around" | "of" | "near" | "through" | "for" | "at" if is_stay(second) => Role::Destination,
        _ => Role::Place,
    }
}

/// What `from a 3-bed flat`, `to a house` before `in` make of the place behind it.
fn home_role(text: &Text, at: usize) -> Option<Role> {
    let lead = text.clause_before(at, 6).find(|i| matches!(text.lower(*i), "from" | "to" | "into"))?;
    let has_article = matches!(text.lower(lead + 1), "a" | "an" | "our" | "my" | "the");
    let is_home =
        ["flat", "house", "apartment", "home", "office", "studio", "cottage", "bungalow", "place", "room", "shop"]
            .contains(&text.before(at, 1));
    (has_article && is_home).then_some(if text.lower(lead) == "from" { Role::Origin } else { Role::Destination })
}

/// `central Leeds`, `downtown Seattle`
pub(super) const PARTS: &[&str] =
    &["central", "downtown", "inner", "greater", "north", "south", "east", "west", "northern", "southern", "old"];

/// Whether a word for a journey stands near: `get feedback from Tom` has none.
fn is_on_a_journey(text: &Text, at: usize) -> bool {
    let leaves = matches!(text.before(at, 1), "departing" | "leaving");
    leaves || (at.saturating_sub(JOURNEY_WORDS_MAX)..at + JOURNEY_WORDS_MAX).any(|i| is_journey(text.lower(i)))
}

/// Words between a place and the journey it belongs to, at most.
const JOURNEY_WORDS_MAX: usize = 12;

/// `from Leeds to Bristol`: the names stand side by side.
fn follows_origin(text: &Text, to: usize) -> bool {
    let names = (1..=NAME_WORDS_MAX).map_while(|back| to.checked_sub(back).filter(|i| text.is_capital(*i)));
    let first = names.last();
    first.is_some_and(|first| text.before(first, 1) == "from" && place_at(text, first).is_some())
}

pub(super) fn is_link(word: &str) -> bool {
    ["and", "or", "of", "for", "with", "to", "in", "at", "on", "the"].contains(&word)
}

/// Words of goals in which names are those of products: `from WordPress to Hugo`.
const TECHNICAL: &[&str] = &[
    "website", "database", "databases", "server", "servers", "code", "app", "cloud", "repository", "repo", "api",
    "software", "cluster", "pipeline", "mailbox", "mailboxes", "emails", "crm", "erp", "files", "tickets", "backend",
    "frontend", "deploy", "migrate", "migration", "script", "users", "logs", "workloads", "services", "blog", "shop",
    "data", "domain", "dns", "kubernetes",
];

fn is_journey(word: &str) -> bool {
    [
        "trip", "trips", "travel", "travelling", "traveling", "fly", "flying", "flight", "flights", "go", "going",
        "getaway", "vacation", "holiday", "journey", "visit", "tour", "move", "moving", "relocate", "relocating",
        "relocation", "drive", "driving", "honeymoon", "excursion", "escape", "cruise", "ride", "train", "weekend",
        "retreat", "head", "heading", "travels", "return", "ticket", "tickets", "camping", "hike", "hiking", "skiing",
        "sailing",
    ]
    .contains(&word)
}

fn is_stay(word: &str) -> bool {
    is_journey(word)
        || [
            "day", "days", "night", "nights", "week", "weeks", "hotel", "hotels", "restaurants", "stay", "staying",
            "itinerary", "museums", "accommodation", "sightseeing", "break", "month", "attractions",
        ]
        .contains(&word)
}

/// Longest place name, in words.
const NAME_WORDS_MAX: usize = 5;

/// A known place, or a run of capitalised words.
pub(super) fn place_at(text: &Text, at: usize) -> Option<Found> {
    if let Some((known, next)) = known_at(text, at) {
        return Some(with_region(text, known, next, true));
    }
    let mut next = at;
    while next - at < NAME_WORDS_MAX && is_name_word(text, next) {
        next += 1;
        let joins = ["de", "la", "del", "di", "of", "the", "-", "da", "do"].contains(&text.lower(next));
        if joins && is_name_word(text, next + 1) && next - at < NAME_WORDS_MAX - 1 {
            next += 1;
        }
    }
    if next == at {
        return None;
    }
    let name = text.source[text.words[at].start..text.words[next - 1].end].trim_end_matches("'s").to_owned();
    Some(with_region(text, name, next, false))
}

/// Adds `, Texas` where a region follows; a country right behind a name becomes its region.
fn with_region(text: &Text, name: String, next: usize, known: bool) -> Found {
    let comma = usize::from(text.lower(next) == ",");
    if let Some((region, after)) = region_at(text, next + comma)
        && !name.ends_with(&region)
    {
        return Found { name: format!("{name}, {region}"), next: after, known: true };
    }
    Found { name, next, known }
}

fn is_name_word(text: &Text, at: usize) -> bool {
    let Some(word) = text.get(at) else { return false };
    word.kind == WordKind::Letters
        && text.is_capital(at)
        && word.text.chars().count() > 1
        && !(word.text.chars().count() > 2 && word.text.chars().all(char::is_uppercase))
        && !NO_PLACES.contains(&word.lower.as_str())
        && !text.words.get(at + 1).is_some_and(|w| {
            w.glued
                && (matches!(w.kind, WordKind::Number(_))
                    || w.lower == "." && text.words.get(at + 2).is_some_and(|e| e.glued))
        })
}

/// The longest known place at `at`, as it is usually spelled.
fn known_at(text: &Text, at: usize) -> Option<(String, usize)> {
    longest(text, at, KNOWN).or_else(|| {
        let (region, next) = region_at(text, at)?;
        let short = region.len() <= 2;
        (!short && (text.is_capital(at) || !text.has_case || COUNTRIES.contains(&region.as_str())))
            .then_some((region, next))
    })
}

fn region_at(text: &Text, at: usize) -> Option<(String, usize)> {
    if let Some(found) = longest(text, at, REGIONS).or_else(|| longest(text, at, COUNTRIES)) {
        return Some(found);
    }
    if text.get(at)?.text == "D" && text.lower(at + 1) == "." && text.lower(at + 2) == "c" {
        let dot = usize::from(text.lower(at + 3) == ".");
        return Some(("D.C.".into(), at + 3 + dot));
    }
    let abbreviation = text.get(at)?.text;
    let after_comma = at > 0 && text.lower(at - 1) == ",";
    let numbered = text
        .get(at + 1)
        .is_some_and(|w| matches!(w.kind, WordKind::Number(_)) || w.text.len() == 1 && w.kind == WordKind::Letters);
    (after_comma && !numbered && STATES.contains(&abbreviation)).then(|| (abbreviation.to_owned(), at + 1))
}

fn longest(text: &Text, at: usize, list: &[&str]) -> Option<(String, usize)> {
    let first = text.get(at).filter(|w| w.kind == WordKind::Letters)?;
    let initial = |text: &str| text.bytes().next().map(|b| b.to_ascii_lowercase());
    list.iter()
        .filter(|name| initial(name) == initial(&first.lower))
        .filter_map(|name| {
            let mut next = at;
            for part in name.split([' ', '-']) {
                if text.lower(next) == "-" && next > at {
                    next += 1;
                }
                (text.lower(next) == part.to_lowercase()).then_some(())?;
                next += 1;
            }
            Some((*name, next))
        })
        .max_by_key(|(_, next)| *next)
        .filter(|(name, _)| {
            (first.text.len() > 3 && *name != "Nice")
                || first.text.chars().next().is_some_and(char::is_uppercase)
                || name.contains(' ')
        })
        .map(|(name, next)| (alias(name).to_owned(), next))
}

fn alias(name: &str) -> &str {
    match name {
        "NYC" | "New York City" => "New York",
        "LA" => "Los Angeles",
        "SF" => "San Francisco",
        "Vegas" => "Las Vegas",
        "UK" => "United Kingdom",
        "USA" => "United States",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> (String, Option<String>) {
        let found = read(&Text::new(text));
        (found.destinations.join(" | "), found.origin)
    }

    #[test]
    fn destinations_are_read_in_many_spellings() {
        for (text, expected) in [
            ("Plan a 3-day trip to Paris in May with a $2000 budget", "Paris"),
            ("a 3-day trip to Paris, Texas", "Paris, Texas"),
            ("a trip to Portland, OR in June", "Portland, OR"),
            ("weekend getaway to rome", "Rome"),
            ("5 days in Kyoto", "Kyoto"),
            ("PLAN A TRIP TO PARIS IN MAY", "Paris"),
            ("visit the Grand Canyon next week", "Grand Canyon"),
            ("travel to Rio de Janeiro", "Rio de Janeiro"),
            ("a trip to Paris, Rome and Berlin", "Paris | Rome | Berlin"),
            ("trip to Lyon France", "Lyon, France"),
            ("Paris weekend for two", "Paris"),
            ("fly from Boston to Paris", "Paris"),
            ("a trip to New York City", "New York"),
            ("a two-week vacation in Japan", "Japan"),
            ("trip to Washington, D.C. in May", "Washington, D.C."),
            ("honeymoon in Santorini", "Santorini"),
            ("I want to go to Ulaanbaatar", "Ulaanbaatar"),
            ("we're moving from Leeds to Bristol", "Bristol"),
        ] {
            assert_eq!(places(text).0, expected, "{text}");
        }
    }

    #[test]
    fn the_origin_is_where_from() {
        for (text, origin) in [
            ("trip to Paris from New York in May", "New York"),
            ("fly from boston to paris", "Boston"),
            ("departing Chicago, visiting Rome", "Chicago"),
            ("from San Jose to Tokyo for a week, a trip to Tokyo", "San Jose"),
        ] {
            assert_eq!(places(text).1.as_deref(), Some(origin), "{text}");
        }
        for text in
            ["trip to Paris from May 3 to May 10", "pull the sales from Shopify", "get feedback from Tom and Aisha"]
        {
            assert_eq!(places(text).1, None, "{text}");
        }
    }

    #[test]
    fn places_of_events_are_locations() {
        let location = |text: &str| read(&Text::new(text)).location;
        assert_eq!(location("a workshop for 18 people in Heilbronn"), Some("Heilbronn".into()));
        assert_eq!(location("an office near Ambleside"), Some("Ambleside".into()));
        assert_eq!(location("find a plumber in Leeds"), Some("Leeds".into()));
        assert_eq!(location("a list of 25 photographers in Heilbronn"), Some("Heilbronn".into()));
        assert_eq!(location("an outing for 35 colleagues in Heilbronn"), Some("Heilbronn".into()));
        assert_eq!(location("a party for 35 people in the office canteen"), Some("office canteen".into()));
        assert_eq!(location("find a robotics club for a 9-year-old in Utrecht"), Some("Utrecht".into()));
        assert_eq!(location("a photographer near Asheville who sends files"), Some("Asheville".into()));
        assert_eq!(location("a newsletter for people in the EU"), Some("EU".into()));
        for text in ["a trip for EU customers", "a visit to Berlin suppliers", "a workshop in EU law"] {
            assert_eq!((places(text), location(text)), ((String::new(), None), None), "{text}");
        }
        assert_eq!(location("count the chairs in the hall"), None);
        assert_eq!(location("find three articles in Nature"), None);
        assert_eq!(location("write the parser in Python"), None);
        assert_eq!(places("Move the website from WordPress to Hugo"), ("Hugo".into(), Some("WordPress".into())));
    }

    #[test]
    fn capitals_alone_make_no_place() {
        for text in [
            "translate this to German",
            "write it in Python",
            "Summarise the book by Jane Austen",
            "save to CSV",
            "What is the nice thing about it",
            "go to Google and search",
            "the man in Black",
            "in May",
            "",
        ] {
            assert_eq!(places(text), (String::new(), None), "{text}");
        }
    }

    #[test]
    fn places_are_read_as_people_write_them() {
        super::super::phrases::check(PHRASES, |facts| {
            let named = [("from", &facts.origin), ("to", &facts.destination), ("at", &facts.place)];
            let named = named.iter().filter_map(|(role, place)| Some(format!("{role} {}", place.as_ref()?)));
            named.collect::<Vec<_>>().join("; ")
        });
    }

    const PHRASES: &[(&str, &str)] = &[
        ("Ten days of camping in Slovenia", "to Slovenia"),
        ("We want to hike in the Dolomites for five days", "to Dolomites"),
        ("First aid training in January, has to be in our own building", "at our own building"),
        ("Find me a flat in Leith or Portobello", "at Leith or Portobello"),
        ("Move the shared drive from the old server to SharePoint", "from server; to SharePoint"),
        ("Hire two accountants for the Hamburg office", "at Hamburg office"),
        ("I want to apply as a nurse at St. Anna hospital", "at St. Anna hospital"),
        ("Throw a party for my mum on 8 May, in our garden, with 25 guests", "at our garden"),
        ("We're doing a flea market at the nursery on Saturday", "at nursery"),
        ("Organise a breakfast in our Manchester showroom", "at Manchester showroom"),
        ("Our choir sings in St Mark's Church on 12 December, organise it", "at St Mark's Church"),
        ("Redo the bathroom in flat 3B for £5k", "at flat 3B"),
        ("Hold the meeting in room 12", "at room 12"),
        ("Hire two nurses for our care home in Graz", "at Graz"),
        ("Move the photos from my mum's old iPhone to our Synology NAS", "from iPhone; to Synology NAS"),
        ("Raise money for a new playground at Oakfield Primary School", "at Oakfield Primary School"),
        ("A first aid course for 20 people at our Leeds warehouse", "at Leeds warehouse"),
        ("Raise 2,000 euros for new beds at Hillside Hospital", "at Hillside Hospital"),
        ("Move the files from Anna's laptop to Ben's", ""),
        ("Copy the tables from Chapter 3 to Appendix B", ""),
        ("Move 200 users from Office 2016 to Microsoft 365 by March", "from Office 2016; to Microsoft 365"),
        (
            "Migrate the orders database from MySQL 5.7 to PostgreSQL 16 without losing rows",
            "from MySQL 5.7; to PostgreSQL 16",
        ),
        (
            "Move our company email from our old Exchange server to Google Workspace",
            "from Exchange server; to Google Workspace",
        ),
        ("Upgrade the shop from Magento 1.9 to Shopify over two weeks", "from Magento 1.9; to Shopify"),
        ("Switch our chat from Slack to Microsoft Teams by Friday", "from Slack; to Microsoft Teams"),
        ("Convert the reports from Excel to Power BI", "from Excel; to Power BI"),
        ("Move the meeting from Tuesday to Friday", ""),
        ("Translate the page from German to Polish", ""),
        ("Set up a checklist for the Harbour Road site, every Monday", "at Harbour Road site"),
        ("Write a safety plan for our Mill Lane depot", "at Mill Lane depot"),
        ("Build a theme for the WordPress site", ""),
        ("A birthday party on Saturday from 2 to 5 pm at our home in Ghent", "at home in Ghent"),
        ("Hold it on 8 December between 16:00 and 20:00 in the main hall", "at main hall"),
        ("Plan a trip to Lisbon", "to Lisbon"),
        ("Plan us a week in Lisbon, flying from Manchester", "from Manchester; to Lisbon"),
        ("We're moving from a 3-bed flat in Bristol to a house in Cardiff", "from Bristol; to Cardiff"),
        ("A party somewhere in central Leeds", "at Leeds"),
        ("Hire a cook for our Berlin office", "at Berlin office"),
        ("A campaign for our chocolate shop in Ghent", "at Ghent"),
        ("Train all workers in Rotterdam", "at Rotterdam"),
        ("A report on the e-bike market in the Netherlands and Belgium", "at Netherlands and Belgium"),
        ("Move the records from Oracle to Postgres", "from Oracle; to Postgres"),
        ("Migrate the blog from WordPress to Hugo", "from WordPress; to Hugo"),
        ("A week in Kyoto", "to Kyoto"),
        ("Apply for a position at the University of Graz", "at University of Graz"),
        ("Move my office from Ulm to Augsburg", "from Ulm; to Augsburg"),
        ("Relocate us from Leeds to York", "from Leeds; to York"),
        ("Rent a cottage near Ambleside", "at Ambleside"),
        ("Find a dentist in Gothenburg", "at Gothenburg"),
        ("Fly from Oslo to Rome", "from Oslo; to Rome"),
        ("Find a plumber in Hull", "at Hull"),
        ("A road trip through Slovenia", "to Slovenia"),
        ("Plan a weekend in Bath", "to Bath"),
        ("Drive from Graz to Vienna", "from Graz; to Vienna"),
        ("Switch the team from Slack to Teams", "from Slack; to Teams"),
        ("Book a venue in downtown Seattle", "at Seattle"),
        ("Rent a flat in Aarhus", "at Aarhus"),
        ("Plan a tour of Sicily", "to Sicily"),
        ("Open a bakery in Kraków", "at Kraków"),
        ("Write it in Python", ""),
        ("Save it to Dropbox", ""),
        ("Find the article in Nature", ""),
        ("Translate it to German", ""),
        ("Plant them in May", ""),
        ("Get feedback from Tom", ""),
        ("Update the PC to Windows 11", ""),
        ("Write a letter from Anna to Ben", ""),
        ("Watch The Man in Black", ""),
        ("Make a rota in Excel", ""),
        ("The button does nothing in Safari", ""),
        ("Deliver 300 mugs, delivered to Utrecht", "at Utrecht"),
        ("A run on 9 May in Ghent", "at Ghent"),
        ("A course, in Bilbao, in Spanish", "at Bilbao"),
        ("Explain the fall of the Berlin Wall", ""),
        ("Data must stay in Docker", ""),
    ];
}
