//! Extracts what a goal rules out: `without flying`, `no alcohol`, `do not touch the schema`, `except Amazon`.

use super::negation::{Lead, RELATIVES, is_disruption, is_named_limit, is_request, lead_at, stays};
use super::words::{Text, WordKind};

/// Longest exclusion, in words.
const WORDS_MAX: usize = 14;
/// Most exclusions of one goal.
const EXCLUSIONS_MAX: usize = 20;

/// Everything that is ruled out, in the order of the text. Dates, money, limits and formats are read before and end a phrase.
pub(super) fn read(text: &Text) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < text.words.len() && found.len() < EXCLUSIONS_MAX {
        let Some((lead, first)) = lead_at(text, at) else {
            if let Some(part) = free_of(text, at).or_else(|| nothing_done(text, at)).or_else(|| told(text, at)) {
                add(&mut found, part);
            }
            at += 1;
            continue;
        };
        let first = skip_articles(text, first);
        let mut end = phrase_end(text, lead, first);
        // `nobody should be without a desk for more than one day`
        if text.lower(first) == "nobody" && text.lower(end) == "for" {
            end = (end..first + WORDS_MAX).find(|i| !text.is_constraint(*i)).unwrap_or(end);
        }
        if end <= first || is_limited(text, lead, first, end) {
            at = end.max(at + 1);
            continue;
        }
        // `other than crisps no sweets`: the exception is from what is ruled out behind it.
        let is_exception = matches!(text.lower(at), "except" | "other" | "apart" | "aside") && text.lower(end) == "no";
        if stays(text, at).is_some() && text.lower(at) == "leave" {
            add(&mut found, format!("changing {}", text.between(at + 1, end)));
        } else if let Some(part) = with_subject(text, at, first, end).filter(|_| lead == Lead::Action) {
            add(&mut found, part);
        } else if !is_exception {
            let somebody = somebody_without(text, at);
            for part in parts(text, lead, first, end) {
                add(&mut found, somebody.map_or(part.clone(), |(name, verb)| format!("{name} {verb} {part}")));
            }
        }
        text.note_constraint(at, end);
        at = end;
    }
    // `a nut allergy, so nothing with nuts`
    let plurals = found.clone();
    found.retain(|part| !plurals.iter().any(|other| other.strip_suffix('s') == Some(part)));
    found
}

/// `Amira does no nights`, `Tom works no weekends`: who does not, and the verb.
fn somebody_without<'t>(text: &Text<'t>, no: usize) -> Option<(&'t str, &'static str)> {
    let verb = match text.before(no, 1) {
        "does" => "doing",
        "works" => "working",
        "eats" => "eating",
        _ => return None,
    };
    let name = no.checked_sub(2).filter(|name| text.lower(no) == "no" && text.is_capital(*name))?;
    Some((text.words[name].text, verb))
}

/// `the billing service must not be touched`: `billing service being touched`.
fn with_subject(text: &Text, at: usize, first: usize, end: usize) -> Option<String> {
    let has_modal = matches!(text.lower(at), "must" | "should" | "may" | "shall" | "mustn't" | "shouldn't")
        || is_disruption(text, at);
    let is_nothing = text.lower(at) == "nothing" && text.lower(first) == "be";
    if is_nothing {
        return Some(format!("anything being {}", text.between(first + 1, end)));
    }
    if is_named_limit(text, at) {
        return Some(text.between(at - 1, end).to_owned());
    }
    let subject = text.subject_before(at).filter(|_| has_modal)?;
    let is_somebody = RELATIVES.contains(&text.before(at, 1)) || text.before(at, 1) == "nobody";
    // `the text must not` after a request: its object is no subject.
    let is_sentence = text.begins_clause(subject)
        || matches!(text.before(subject, 1), "the" | "our" | "my" | "that" | "any" | "all" | "a" | "an");
    let has_article = matches!(text.before(subject, 1), "the" | "our" | "my" | "any" | "all" | "a" | "an");
    let has_verb = text.is_imperative(subject) && !has_article;
    (is_sentence && !is_somebody && !has_verb).then_some(())?;
    let subject = lower_first(text, subject, text.between(subject, at));
    let action = text.between(first, end);
    Some(match (action.strip_prefix("be "), action.strip_prefix("go ")) {
        (Some(state), _) => format!("{subject} being {state}"),
        (_, Some(state)) => format!("{subject} going {state}"),
        _ => format!("{subject} {action}"),
    })
}

/// `don't make it longer than 3 pages`, `no flights with more than one stop`: a limit, which was read as one.
fn is_limited(text: &Text, lead: Lead, first: usize, end: usize) -> bool {
    let has_with = matches!(text.lower(end), "with" | "to");
    let compares = ["more", "longer", "larger", "bigger", "higher", "later", "less", "fewer", "over", "above"]
        .contains(&text.lower(end + usize::from(has_with)));
    let leads_on = matches!(text.before(end, 1), "exceed" | "exceeding" | "with" | "than" | "above" | "over");
    // `nothing that takes longer than 45 minutes`
    let measures = matches!(text.before(end, 1), "takes" | "costs" | "lasts" | "weighs" | "exceeds" | "needs");
    // `I don't want to pay more than 600 pounds`
    let is_wish = text.before(first, 1) == "to";
    text.is_constraint(end) && (measures || leads_on || compares && (has_with || is_wish || lead == Lead::Action))
}

/// `dogs are not allowed`, `the piano is staying behind`, `names must stay untranslated`, `keep the jargon out of it`: what is
/// ruled out stands before the words that do it.
fn told(text: &Text, at: usize) -> Option<String> {
    if text.is_constraint(at) {
        return None;
    }
    if let Some(out) = kept_out(text, at) {
        let first = skip_articles(text, at + 1);
        let part = text.between(first, out).to_owned();
        let end = if text.lower(out + 1) == "of" { out + 3 } else { out + 1 };
        text.note_constraint(at, end);
        return Some(part);
    }
    let (next, third, fourth) = (text.lower(at + 1), text.lower(at + 2), text.lower(at + 3));
    let (length, is_kept) = match (text.lower(at), next) {
        ("isn't" | "aren't", "allowed" | "permitted" | "welcome" | "wanted") => (2, false),
        ("is" | "are", "forbidden" | "banned" | "prohibited" | "taboo") => (2, false),
        ("is" | "are", "not") if third == "part" && fourth == "of" => (5, false),
        ("is" | "are", "not") if matches!(third, "included" | "needed" | "necessary") => (3, false),
        ("is" | "are", "not") if matches!(third, "allowed" | "permitted" | "welcome" | "wanted") => (3, false),
        ("is" | "are", "off") if third == "limits" || third == "the" && fourth == "table" => (4, false),
        ("is" | "are", "out") if matches!(third, "" | "." | "," | "!") && is_sought_before(text, at) => (2, false),
        ("is" | "are", "out") if third == "of" && fourth == "the" => (5, false),
        ("is" | "are", "staying") if is_left_behind(third) => (3, false),
        ("stays" | "stay", "behind" | "put") => (2, false),
        ("must" | "should", "stay" | "remain" | "be") => (2, true),
        ("has" | "have" | "needs" | "need", "to") if matches!(third, "stay" | "remain" | "be") => (3, true),
        ("stays" | "remains" | "stay" | "remain", _) => (1, true),
        _ => return None,
    };
    let first = text.subject_before(at)?;
    let subject = text.between(first, at);
    if !is_kept {
        text.note_constraint(first, at + length);
        return Some(subject.to_owned());
    }
    let state = at + length + usize::from(text.lower(at + length) == "left");
    let is_same = text.lower(state) == "as" && matches!(text.lower(state + 1), "they" | "it" | "is")
        || text.lower(state) == "the" && text.lower(state + 1) == "same";
    // `names remain in Italian`
    let is_kept_so = matches!(text.before(state, 1), "stay" | "stays" | "remain" | "remains" | "left");
    let stays_in_language =
        is_kept_so && text.lower(state) == "in" && super::format::language_at(text, state + 1).is_some();
    let is_translated = stays_in_language.then(|| "translating".to_owned());
    let action = kept_from(text.lower(state)).or(is_translated).or_else(|| is_same.then(|| "changing".to_owned()))?;
    text.note_constraint(first, state + 1);
    Some(format!("{action} {}", lower_first(text, first, subject)))
}

/// Whether the sentence looks for something: `looking for a flat, ground floor is out`.
fn is_sought_before(text: &Text, at: usize) -> bool {
    (at.saturating_sub(30)..at)
        .any(|i| ["find", "looking", "buy", "book", "choose", "rent", "plan", "organise"].contains(&text.lower(i)))
}

fn is_left_behind(word: &str) -> bool {
    matches!(word, "behind" | "here" | "put" | "there")
}

/// The index of `out` in `keep the jargon out of it`.
fn kept_out(text: &Text, at: usize) -> Option<usize> {
    matches!(text.lower(at), "keep" | "leave").then_some(())?;
    let out = (at + 2..at + 7).find(|i| text.lower(*i) == "out")?;
    let is_phrase = (at + 1..out).all(|i| text.words[i].kind == WordKind::Letters);
    let of = text.lower(out + 2);
    let ends = text.get(out + 1).is_none_or(|next| next.kind == WordKind::Sign)
        || text.lower(out + 1) == "of" && matches!(of, "it" | "this" | "them" | "there" | "that");
    (is_phrase && ends && !matches!(text.lower(at + 1), "it" | "them" | "me" | "us")).then_some(out)
}

/// What must not be done to a thing that stays `untranslated`: `translating`.
fn kept_from(state: &str) -> Option<String> {
    if matches!(state, "unchanged" | "untouched" | "intact" | "identical" | "alone") {
        return Some("changing".into());
    }
    let verb = state.strip_prefix("un").and_then(|verb| verb.strip_suffix("ed"))?;
    (verb.len() > 2 && !state.starts_with("under")).then(|| format!("{verb}ing"))
}

/// The text with a small first letter when only the sentence made it a capital.
fn lower_first(text: &Text, first: usize, phrase: &str) -> String {
    let mut chars = phrase.chars();
    match chars.next().filter(|_| text.is_sentence_start(first)) {
        Some(letter) => letter.to_lowercase().chain(chars).collect(),
        None => phrase.to_owned(),
    }
}

/// `change nothing`, `delete nothing`: what is asked not to be done.
fn nothing_done(text: &Text, at: usize) -> Option<String> {
    let verb = at.checked_sub(1)?;
    let asks = text.lower(at) == "nothing" && is_request(text, verb);
    let ends = text.get(at + 1).is_none_or(|next| next.kind == WordKind::Sign);
    let is_verb =
        text.is_imperative(verb) || matches!(text.lower(verb), "change" | "touch" | "break" | "modify" | "alter");
    (asks && ends && is_verb).then(|| {
        text.note_constraint(verb, at + 1);
        format!("{} anything", text.lower(verb))
    })
}

fn add(found: &mut Vec<String>, part: String) {
    // `so none of that`
    let is_pronoun = matches!(part.as_str(), "that" | "this" | "it" | "them" | "those" | "these");
    if !part.is_empty() && !is_pronoun && !found.contains(&part) {
        found.push(part);
    }
}

/// What is absent without being ruled out: `step-free access`.
const NO_SUBSTANCES: &[&str] = &[
    "step", "toll", "duty", "tax", "hands", "stress", "care", "trouble", "barrier", "interest", "royalty", "rent",
    "hassle", "risk", "worry", "charge", "error", "fault",
];

/// `gluten-free`, `free of nuts`, `a fish allergy`.
fn free_of(text: &Text, at: usize) -> Option<String> {
    if matches!(text.lower(at), "allergy" | "allergies" | "intolerance") && at > 0 {
        let thing = &text.words[at - 1];
        let is_thing = thing.kind == WordKind::Letters
            && !matches!(
                thing.lower.as_str(),
                "an" | "the"
                    | "any"
                    | "and"
                    | "no"
                    | "food"
                    | "have"
                    | "has"
                    | "with"
                    | "some"
                    | "or"
                    | "severe"
                    | "my"
                    | "of"
            );
        return is_thing.then(|| thing.text.to_owned());
    }
    if text.lower(at) != "free" {
        return None;
    }
    if at >= 2 && text.lower(at - 1) == "-" && text.words[at - 1].glued && text.words[at].glued {
        // `our new gluten-free bread` is there; `step-free` names what there is.
        let is_owned = (1..=2).any(|back| matches!(text.before(at - 2, back), "our" | "my" | "the" | "this" | "their"));
        if is_owned || NO_SUBSTANCES.contains(&text.lower(at - 2)) {
            return None;
        }
        let thing = text.words[at - 2].text.to_owned();
        text.note(at - 2, at + 1, super::words::Use::Fact);
        return Some(thing);
    }
    let thing = text.get(at + 2).filter(|w| text.lower(at + 1) == "of" && w.kind == WordKind::Letters)?;
    (!matches!(thing.lower.as_str(), "charge" | "cost")).then(|| thing.text.to_owned())
}

fn skip_articles(text: &Text, mut at: usize) -> usize {
    while ["any", "the", "a", "an", "all", "for", "from", "of", "with", "use", "using", "having", "also"]
        .contains(&text.lower(at))
        && text.get(at + 1).is_some_and(|w| w.kind == WordKind::Letters)
    {
        at += 1;
    }
    at
}

/// Where the phrase ends: at a sign, a new line, another constraint, or a verb that asks for something else.
fn phrase_end(text: &Text, lead: Lead, first: usize) -> usize {
    let mut at = first;
    while at < text.words.len() && at - first < WORDS_MAX {
        let word = &text.words[at];
        let inside = word.glued && text.get(at + 1).is_some_and(|next| next.glued);
        let sign = word.kind == WordKind::Sign
            && !(inside || ["\"", "'", "“", "”", "&", "$", "€", "%", "/"].contains(&word.lower.as_str()));
        if word.lower == "," && continues_list(text, at, lead) {
            at += 1;
            continue;
        }
        let joins_verb = matches!(word.lower.as_str(), "and" | "then") && text.is_imperative(at + 1)
            || word.lower == "and" && negates_soon(text, at + 1)
            || lead == Lead::Action
                && word.lower == "and"
                && matches!(text.lower(at + 1), "has" | "have" | "is" | "must")
            || word.lower == "and" && matches!(text.lower(at + 1), "i" | "we" | "they" | "he" | "she" | "it" | "there");
        let turns = ["but", "because", "since", "so", "without", "then", "while", "please", "pls", "thanks", "yet"]
            .contains(&word.lower.as_str())
            || word.lower == "or" && text.lower(at + 1) == "more"
            || at > first && matches!(word.lower.as_str(), "no" | "don't")
            || lead == Lead::Things && matches!(word.lower.as_str(), "untouched" | "unchanged" | "alone")
            || lead == Lead::Things && word.lower == "as" && matches!(text.lower(at + 1), "they" | "it");
        if sign
            || joins_verb
            || turns && !(word.lower == "without" && text.lower(first) == "nobody")
            || at > first && (text.begins_line(at) || text.is_constraint(at))
            || at == first && text.is_constraint(at)
        {
            break;
        }
        // Words that introduce the constraint behind them.
        at += 1;
    }
    at
}

/// `…, and my mother can't climb stairs`: another exclusion with a subject of its own.
fn negates_soon(text: &Text, at: usize) -> bool {
    (at..at + 4).any(|i| matches!(text.lower(i), "can't" | "cannot" | "don't" | "doesn't" | "won't" | "never"))
}

/// `no ads, cookies or tracking`: the list goes on after the comma when a short member with `or` follows.
fn continues_list(text: &Text, comma: usize, lead: Lead) -> bool {
    if lead == Lead::Action {
        return false;
    }
    let rest: Vec<&str> = (comma + 1..comma + 6).map(|i| text.lower(i)).collect();
    let ends = rest.iter().position(|word| matches!(*word, "," | "." | ";" | "")).unwrap_or(rest.len());
    let joined = rest[..ends].iter().position(|word| matches!(*word, "or" | "nor"));
    joined.is_some_and(|or| (1..=3).contains(&or))
        && !matches!(rest[0], "no" | "not" | "without" | "with")
        && !text.is_imperative(comma + 1)
}

/// The members of the phrase: `nuts or dairy` are two, `peace and quiet` as an action stays one.
fn parts(text: &Text, lead: Lead, first: usize, end: usize) -> Vec<String> {
    let clean = |from: usize, to: usize| {
        let from = skip_articles(text, from).min(to);
        text.between(from, to).trim_matches(['"', '“', '”', '\'', ' ']).to_owned()
    };
    if lead == Lead::Action {
        return vec![clean(first, end)];
    }
    let mut parts = Vec::new();
    let mut from = first;
    for at in first..end {
        let splits = match text.lower(at) {
            "or" | "nor" | "," | "/" => true,
            // `and` between two short things; a longer phrase may be one thing.
            "and" | "&" => at - from <= 2 && end - at <= 3,
            _ => false,
        };
        if splits && at > from {
            parts.push(clean(from, at));
            from = at + 1;
        }
    }
    parts.push(clean(from, end));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exclusions(text: &str) -> String {
        read(&Text::new(text)).join(" | ")
    }

    #[test]
    fn exclusions_are_read_in_many_spellings() {
        for (text, expected) in [
            ("a trip to Vienna without flying", "flying"),
            ("a retreat with no alcohol, please", "alcohol"),
            ("no cookies, no tracking", "cookies | tracking"),
            ("without nuts or dairy", "nuts | dairy"),
            ("no ads, cookies or tracking", "ads | cookies | tracking"),
            ("Buy chairs, except from Amazon", "Amazon"),
            ("avoid jargon, first draft first", "jargon"),
            ("do not translate product names", "translate product names"),
            ("Add dark mode. Don't add new dependencies.", "add new dependencies"),
            ("the schema must not change", "schema change"),
            ("three runs a week, not on Sundays", "Sundays"),
            ("by train but not by bus", "bus"),
            ("we cannot move out", "move out"),
            ("Review it; ignore formatting", "formatting"),
            ("leave out cancelled orders", "cancelled orders"),
            ("excluding hosted offers", "hosted offers"),
            ("nothing with nuts", "nuts"),
            ("60 euros each, nothing sporty", "sporty"),
            ("a gluten-free menu", "gluten"),
            ("migrate without downtime and notify the users", "downtime"),
            ("translate it, leave the numbers untouched", "changing the numbers"),
            ("Leave quotes and citations alone, please", "changing quotes and citations"),
            ("We don't want to rent a car", "rent a car"),
            ("I don't want a balcony", "balcony"),
            ("We don't eat pork", "pork"),
            ("I'd rather not drive at night", "drive at night"),
            ("one guest is allergic to nuts", "nuts"),
            ("my mother can't climb stairs", "climb stairs"),
            ("read-only access, change nothing", "change anything"),
            ("move it w/o losing the logs", "losing the logs"),
            ("a plant that doesn't need sun", "need sun"),
            ("make sure the site doesn't go down", "go down"),
            ("other than crisps no junk food", "junk food"),
            ("no pork please", "pork"),
            ("we don't want to fly and my son can't swim", "fly | swim"),
            ("don't add alerts yet", "add alerts"),
            ("steer clear of motorways", "motorways"),
            ("remove duplicates without asking me", "asking me"),
            ("nothing may go to landfill", "go to landfill"),
            ("anything but Dell", "Dell"),
            ("8 books, nothing older than 2015", "older than 2015"),
            ("neither meat nor fish", "meat | fish"),
            ("use trains instead of planes", "planes"),
            ("never send e-mails at night", "send e-mails at night"),
            ("the bus waits, and nobody leaves before 9 am", "nobody leaves before 9 am"),
            ("no calls after 8 pm, please", "calls after 8 pm"),
            ("no meetings before 10:00 or after 16:00", "meetings before 10:00 | after 16:00"),
            ("one vegan and one who can't eat shellfish", "eat shellfish"),
            ("two guests who don't drink alcohol", "drink alcohol"),
        ] {
            assert_eq!(exclusions(text), expected, "{text}");
        }
    }

    #[test]
    fn what_rules_nothing_out_is_no_exclusion() {
        for text in [
            "no later than Friday",
            "not more than 5 pages",
            "a guide on how to avoid burnout",
            "answer with yes or no",
            "customers do not log in",
            "users can't log in",
            "whether or not it works",
            "there is no backup yet",
            "it is not working",
            "no. 5",
            "free of charge",
            "not only tea",
            "copy it, nothing is lost",
            "not older than 6 years",
            "drop rows without an email address",
            "list all orders with no invoice",
            "no rush",
            "we can't log in",
            "the printer won't start",
            "we get no alerts",
            "",
        ] {
            assert_eq!(exclusions(text), "", "{text}");
        }
    }

    #[test]
    fn exclusions_are_read_as_people_write_them() {
        super::super::phrases::check(&[PHRASES, NOT_RULED_OUT].concat(), |facts| facts.exclusions.join(" | "));
    }

    const PHRASES: &[(&str, &str)] = &[
        ("Prepare eight questions, none about family or age", "family | age"),
        ("Translate the guide but leave the product names as they are", "changing the product names"),
        ("Make the rota, and Aisha can't do Wednesdays", "Aisha can't do Wednesdays"),
        ("I want to run 10 km and my knee doesn't like hills", "hills"),
        ("Looking for a flat in Leipzig, ground floor is out", "ground floor"),
        ("I take 40 payments a day and don't want to pay a monthly fee", "pay a monthly fee"),
        ("Draft the budget; the management seminars are not part of it", "management seminars"),
        ("Find five suppliers, not counting our current one", "our current one"),
        (
            "Plan the move, and nobody should be without a desk for more than one day",
            "nobody should be without a desk for more than one day",
        ),
        ("Go to Denmark by train rather than by plane", "plane"),
        ("Plan the rooms; Year 9 can't be upstairs", "Year 9 being upstairs"),
        ("Build a plan that doesn't need paid apps and has a test", "need paid apps"),
        ("Make the rota; Amira does no nights", "Amira doing nights"),
        ("Plan the party, no need for catering", "catering"),
        ("Review the code but don't bother with the styling", "styling"),
        ("Children under 12 may not be filmed", "children under 12 being filmed"),
        ("The invoice must not contain VAT", "invoice contain VAT"),
        ("The server can't go down on Monday", "server going down on Monday"),
        ("The billing service must not be touched", "billing service being touched"),
        ("Our prices must not be shown to guests", "prices being shown to guests"),
        ("The phones can't be down during working hours", "phones being down during working hours"),
        ("The shop cannot be closed on a Saturday", "shop being closed on a Saturday"),
        ("The page can't be found, fix it", ""),
        ("The export can't be opened, find out why", ""),
        ("I don't want to pay more than 600 pounds a year", ""),
        ("We don't want to pay with cash", "pay with cash"),
        ("They have a nut allergy, so nothing with nuts", "nuts"),
        ("Nothing should be changed", "anything being changed"),
        ("Plan a trip. My wife won't do Ryanair.", "Ryanair"),
        ("Write six posts. Keep the jargon out of it.", "jargon"),
        ("Move us to Bath; the piano is staying behind", "piano"),
        ("Translate it. Product names must stay untranslated.", "translating product names"),
        ("Buy laptops, nothing refurbished", "refurbished"),
        ("Plan a trip, no hostels", "hostels"),
        ("Plan a holiday, I hate camping", "camping"),
        ("Plan the party, we don't want any balloons", "balloons"),
        ("Plan the trip, we'd rather not fly", "fly"),
        ("Edit the video, please skip the intro", "intro"),
        ("Do the accounts without using Excel", "Excel"),
        ("Find a band, anything except jazz", "jazz"),
        ("Write the flyer and leave out the prices", "prices"),
        ("Run a campaign, no TikTok", "TikTok"),
        ("Find a holiday, not interested in timeshares", "timeshares"),
        ("Book a table. Dad can't stand seafood.", "seafood"),
        ("Bake a cake, it must not contain gluten", "contain gluten"),
        ("Never call before nine", "call before nine"),
        ("Find a flat, stay away from the harbour", "harbour"),
        ("Reply to her, but don't mention the merger", "mention the merger"),
        ("Bake a sugar-free cake", "sugar"),
        ("Just the audit, no fixes", "fixes"),
        ("Book the trip; my mother refuses to fly", "fly"),
        ("Plan the menu; peanuts are off the table", "peanuts"),
        ("Plan the picnic, dogs are not allowed", "dogs"),
        ("We're not moving the freezer", "moving the freezer"),
        ("Sort the photos but please don't delete anything!", "delete anything"),
        ("Make a dinner plan, nothing with nuts or shellfish", "nuts | shellfish"),
        ("I don't want to hire an accountant", "hire an accountant"),
        ("Train the staff, not during night shift", "during night shift"),
        ("Quotes have to remain unchanged", "changing quotes"),
        ("A dinner for eight, one with a fish allergy", "fish"),
        ("Translate the menu. Dish names should remain in Italian.", "translating dish names"),
        ("I don't eat fish and I hate running", "fish | running"),
        ("Upgrade the cluster with zero downtime", "downtime"),
    ];

    const NOT_RULED_OUT: &[(&str, &str)] = &[
        ("Two of them have allergies, so none of that", ""),
        ("The power is out, call the electrician", ""),
        ("We're 4 people in a flat and nobody cleans. Make a schedule.", ""),
        ("No mushrooms, my son hates them", "mushrooms"),
        ("The server is full and nobody knows why", ""),
        ("It can cost 4,000 euros, not a cent more", ""),
        ("Write about our new gluten-free bread", ""),
        ("Find a restaurant with step-free access", ""),
        ("The survey should be in German and Turkish", ""),
        ("It shouldn't come to more than 90 euros a head", ""),
        ("Ship it to everyone only if there have been no complaints", ""),
        ("The freezer broke down and nobody noticed. Find out why.", ""),
        ("Nobody answered the phone, call them again", ""),
        ("Find the cause and make sure it doesn't happen again", ""),
        ("The till froze twice, see that this never happens again", ""),
        ("Fix the leak so it does not recur", ""),
        ("Explain why a kernel must not sleep in an interrupt", ""),
        ("Users may not be able to log in, write a help page", ""),
        ("They may not know the tool, write a guide", ""),
        ("The export button does nothing in safari", ""),
        ("There's nothing in the cart, find out why", ""),
        ("It should be there no later than Friday", ""),
        ("Find out why nobody uses it", ""),
        ("Fix it, customers don't log in", ""),
        ("A course on how to avoid plagiarism", ""),
        ("The site won't load", ""),
        ("The app doesn't save drafts", ""),
        ("I have no idea what to cook", ""),
        ("We have no website yet", ""),
        ("My laptop won't start", ""),
        ("I can't find my keys", ""),
        ("Is it true or not?", ""),
        ("The search finds nothing with umlauts", ""),
        ("The baby is staying with grandma, plan our weekend", ""),
        ("No need to hurry", ""),
        ("Find the song that goes \"no woman no cry\"", ""),
        ("Reply that we can't deliver yet", ""),
    ];
}
