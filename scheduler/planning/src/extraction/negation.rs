//! Finds where something is ruled out: `no`, `without`, `do not`, `we can't`; and which negations rule nothing out: faults, facts,
//! limits, questions.

use super::request_verb::is_request_verb;
use super::words::{Text, WordKind};

/// How the exclusion is introduced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// `no`, `without`: things follow, which may be a list.
    Things,
    /// `do not`: an action follows.
    Action,
}

/// Whether an exclusion is introduced at `at`, and the index of what is ruled out.
pub(super) fn lead_at(text: &Text, at: usize) -> Option<(Lead, usize)> {
    if text.is_constraint(at) || text.is_quoted(at) {
        return None;
    }
    let (lead, first) = things_at(text, at)
        .map(|first| (Lead::Things, first))
        .or_else(|| negated_action(text, at).map(|first| (Lead::Action, first)))?;
    // `do not use more than 3 pages` is a limit.
    let is_limit = matches!(text.lower(at + 2), "more" | "less" | "fewer") && text.lower(at) == "not";
    (!is_limit).then_some((lead, first))
}

/// The index after `without`, `except`, `no`, …: things follow.
fn things_at(text: &Text, at: usize) -> Option<usize> {
    let (next, third) = (text.lower(at + 1), text.lower(at + 2));
    let first = match text.lower(at) {
        "without" if is_selected(text, at) => return None,
        "without" | "excluding" | "sans" | "minus" | "except" | "excepting" => at + 1,
        "w" if next == "/" && third == "o" && text.words[at + 1].glued => at + 3,
        "excl" if next == "." => at + 2,
        "exclude" | "ignore" | "skip" | "omit" | "disregard" | "exclud" if is_request(text, at) => at + 1,
        "ignoring" | "skipping" | "omitting" | "avoiding" => at + 1,
        "leave" | "leaving" if next == "out" => at + 2,
        "avoid" if !is_purpose(text, at) => at + 1,
        "refrain" if next == "from" => at + 2,
        "stay" | "keep" if next == "away" && third == "from" => at + 3,
        "steer" if next == "clear" && third == "of" => at + 3,
        "apart" | "aside" if next == "from" => at + 2,
        "other" if next == "than" && !matches!(text.before(at, 1), "each" | "any") => at + 2,
        "rather" if next == "than" => at + 2 + usize::from(third == "by"),
        "instead" if next == "of" => at + 2,
        "allergic" | "intolerant" if next == "to" => at + 2,
        "neither" | "nor" => at + 1,
        "none" if matches!(next, "of" | "about" | "with") => at + 2,
        "nothing" if !begins_phrase(text, at) => return None,
        "nothing" if matches!(next, "with" | "containing" | "from" | "about" | "in" | "that") => at + 2,
        "hate" | "hates" | "dislike" | "dislikes" | "detest" | "detests" | "loathe" | "loathes"
            if is_somebody(text, at)
                && !matches!(
                    next,
                    "my" | "this" | "it" | "them" | "him" | "her" | "me" | "how" | "when" | "that" | "our"
                ) =>
        {
            at + 1
        }
        // `my knee doesn't like hills`
        "doesn't" | "don't" if next == "like" && is_part_of_me(text, at) => at + 2,
        "can't" | "cannot" if next == "stand" && is_somebody(text, at) => at + 2,
        "zero" if text.begins_clause(at) || text.before(at, 1) == "with" => at + 1,
        "won't" if next == "do" && is_somebody(text, at) => at + 2,
        "not" if matches!(next, "counting" | "including") => at + 2,
        "not" if next == "interested" && third == "in" => at + 3,
        "nothing" if third == "than" || is_bare(text, at) => at + 1,
        "no" if text.before(at, 1) == "with" && is_selected(text, at - 1) => return None,
        "no" if next == "need" && third == "for" => at + 3,
        "don't" | "dont" if next == "bother" && matches!(third, "with" | "about") => at + 3,
        "no" => no(text, at)?,
        "anything" | "everything" | "everyone" | "all" if matches!(next, "but" | "except") => at + 2,
        "don't" | "dont" | "wouldn't" if matches!(text.before(at, 1), "we" | "i" | "they") => unwanted(text, at + 1)?,
        // `I take few payments and don't want to pay a fee`
        "don't" | "dont" if text.before(at, 1) == "and" && has_own_subject(text, at) => unwanted(text, at + 1)?,
        "do" | "would" if next == "not" && matches!(text.before(at, 1), "we" | "i" | "they") => unwanted(text, at + 2)?,
        "leave" if stays(text, at).is_some() => at + 1,
        "not" => not(text, at)?,
        _ => return None,
    };
    Some(first)
}

/// The index after `do not`, `never`, `we can't`, …: an action follows.
fn negated_action(text: &Text, at: usize) -> Option<usize> {
    let next = text.lower(at + 1);
    // `make sure it doesn't happen again`: a fault, and nothing that somebody does.
    if (at + 1..=at + 2).any(|i| ["happen", "happens", "recur", "recurs", "occur"].contains(&text.lower(i))) {
        return None;
    }
    match text.lower(at) {
        // `users may not be able to log in`: what might be so.
        "may" if next == "not" && matches!(text.lower(at + 2), "be" | "know" | "have" | "need" | "want" | "see") => {
            (text.lower(at + 2) == "be" && text.lower(at + 3).ends_with("ed")).then_some(at + 2)
        }
        "do" | "must" | "should" | "may" | "shall" | "can" | "will" if next == "not" && is_rule(text, at) => {
            Some(at + 2)
        }
        "do" | "don't" | "dont" if is_reminder(text, at) => None,
        "don't" | "dont" | "mustn't" | "shouldn't" if is_rule(text, at) => Some(at + 1),
        "cannot" | "can't" | "mustn't" if is_disruption(text, at) => Some(at + 1),
        "cannot" | "can't" if is_named_limit(text, at) => Some(at + 1),
        "cannot" | "can't" if is_own_limit(text, at) || is_guests_limit(text, at) => Some(at + 1),
        "won't" if matches!(text.before(at, 1), "we" | "i" | "they" | "you") => Some(at + 1),
        "won't" if is_somebody(text, at) && CONSUMES.contains(&next) => Some(at + 1),
        "refuse" | "refuses" if next == "to" && is_somebody(text, at) => Some(at + 2),
        "not" if is_own_plan(text, at) => Some(if text.lower(at + 2) == "to" { at + 3 } else { at + 1 }),
        "doesn't" | "don't" | "isn't" if is_described(text, at) || is_guests_limit(text, at) => Some(at + 1),
        "not" if matches!(text.before(at, 1), "rather" | "prefer") => Some(at + 1 + usize::from(next == "to")),
        "never" if is_request(text, at) || text.before(at, 1) == "must" => Some(at + 1),
        "nothing" if matches!(next, "may" | "must" | "should" | "can") => Some(at + 2),
        "nobody" | "none" if text.begins_clause(at) && !tells(next) && !text.ends_sentence(at + 2) => Some(at),
        _ => None,
    }
}

/// `the phones can't be down`, `the shop cannot close`: what must not happen; not `the page can't be opened`, which is a fault.
pub(super) fn is_disruption(text: &Text, at: usize) -> bool {
    let state = at + 1 + usize::from(matches!(text.lower(at + 1), "be" | "go"));
    let is_change = [
        "down", "offline", "closed", "late", "interrupted", "disturbed", "delayed", "unavailable", "touched",
        "blocked", "changed", "moved", "unattended", "visible", "public", "shared", "upstairs", "downstairs",
        "outside", "outdoors", "together", "alone", "seen",
    ]
    .contains(&text.lower(state));
    let is_negated = matches!(text.lower(at), "can't" | "cannot" | "mustn't");
    is_negated && state > at + 1 && is_change && text.subject_before(at).is_some()
}

/// `nobody noticed`, `nobody knows why`: what happened or is so.
fn tells(word: &str) -> bool {
    word.len() > 4 && word.ends_with("ed") && word != "need"
        || [
            "was", "knew", "saw", "came", "had", "did", "told", "heard", "went", "has", "is", "knows", "understands",
            "uses", "likes", "cares", "reads", "answers", "responds", "wants", "seems", "remembers",
        ]
        .contains(&word)
}

/// What people decline: `my son won't eat fish`.
const CONSUMES: &[&str] = &[
    "eat", "drink", "fly", "use", "take", "touch", "wear", "stay", "sleep", "go", "have", "drive", "travel", "accept",
];

/// `we're not moving the freezer`; not `we're not getting alerts`, which is a fault.
fn is_own_plan(text: &Text, at: usize) -> bool {
    let is_ours = matches!(text.before(at, 1), "we're" | "i'm")
        || matches!(text.before(at, 1), "are" | "am") && matches!(text.before(at, 2), "we" | "i");
    let next = text.lower(at + 1);
    let is_fault = ["getting", "receiving", "seeing", "working", "making", "finding", "being"].contains(&next);
    is_ours && !is_fault && next.ends_with("ing") && (next != "going" || text.lower(at + 2) == "to")
}

/// `don't forget to`, `do not hesitate`: something is asked for.
fn is_reminder(text: &Text, at: usize) -> bool {
    let verb = at + 1 + usize::from(text.lower(at) == "do");
    let is_negated = text.lower(at) != "do" || text.lower(at + 1) == "not";
    is_negated
        && matches!(text.lower(verb), "forget" | "hesitate" | "worry" | "mind" | "miss" | "be")
        && !(text.lower(verb) == "be" && text.lower(verb + 1) != "afraid")
}

/// `we`, `my wife`, `Dad`, before a verb.
fn is_somebody(text: &Text, at: usize) -> bool {
    let before = text.before(at, 1);
    let is_mine = matches!(text.before(at, 2), "my" | "our");
    matches!(before, "we" | "i" | "they" | "she" | "he")
        || RELATIVES.contains(&before) && (is_mine || at > 0 && text.is_capital(at - 1))
}

/// `my knee`, `my daughter`
fn is_part_of_me(text: &Text, at: usize) -> bool {
    let part = text.before(at, 1);
    let is_body = ["knee", "knees", "back", "stomach", "hip", "ankle", "shoulder", "skin", "neck"].contains(&part);
    matches!(text.before(at, 2), "my" | "our") && (is_body || RELATIVES.contains(&part))
}

/// `…, nothing with nuts`; not `the search finds nothing with umlauts`.
fn begins_phrase(text: &Text, at: usize) -> bool {
    let asks = [
        "with", "include", "use", "buy", "serve", "order", "please", "absolutely", "cook", "choose", "eat", "or", "so",
    ];
    text.begins_clause(at) || asks.contains(&text.before(at, 1)) || text.is_imperative(at.saturating_sub(1))
}

/// Whether the clause before `index` tells of us: `I`, `we`.
fn has_own_subject(text: &Text, index: usize) -> bool {
    text.clause_before(index, 12).any(|i| matches!(text.lower(i), "i" | "we"))
}

/// What is not wanted, after `we don't`: `want to rent a car`, `like mushrooms`.
fn unwanted(text: &Text, at: usize) -> Option<usize> {
    matches!(text.lower(at), "want" | "like" | "eat" | "drink" | "fancy" | "wish").then_some(())?;
    let first = at + 1 + usize::from(text.lower(at + 1) == "to");
    let clause = ["you", "it", "them", "him", "her", "how", "what", ""].contains(&text.lower(first));
    (!clause).then_some(first)
}

/// `drop rows without an address`, `list the orders with no invoice`: the words say which ones are meant.
fn is_selected(text: &Text, at: usize) -> bool {
    let noun = text.before(at, 1);
    let verb = (2..=4).map(|back| text.before(at, back)).find(|word| is_request_verb(word));
    let is_action = text.lower(at + 1).ends_with("ing");
    match verb {
        Some("drop" | "remove" | "delete" | "flag" | "mark" | "highlight" | "filter" | "contact" | "remind") => {
            !is_action && noun.len() > 3 && noun.ends_with('s')
        }
        Some("find" | "list" | "show" | "count" | "identify") => !is_action && DATA.contains(&noun),
        _ => false,
    }
}

/// What is listed by what it lacks.
const DATA: &[&str] = &[
    "rows", "records", "entries", "lines", "orders", "invoices", "payments", "customers", "users", "accounts",
    "employees", "contacts", "members", "tickets", "files", "pages", "functions", "modules",
];

pub(super) const RELATIVES: &[&str] = &[
    "mother", "father", "mum", "mom", "dad", "parents", "wife", "husband", "partner", "son", "daughter", "kids",
    "children", "grandma", "grandmother", "grandpa", "grandfather", "baby", "brother", "sister", "friend", "friends",
    "boss", "dog", "cat", "girlfriend", "boyfriend",
];

/// `we can't`, `it cannot`, `my mother can't`: what the people of the goal cannot do; not `we can't log in`, which is a fault.
fn is_own_limit(text: &Text, at: usize) -> bool {
    let before = text.before(at, 1);
    let is_relative = matches!(text.before(at, 2), "my" | "our") && RELATIVES.contains(&before);
    let is_fault = [
        "log", "open", "access", "see", "reach", "connect", "figure", "remember", "understand", "decide", "find",
        "believe", "wait", "tell", "afford",
    ]
    .contains(&text.lower(at + 1));
    // `tell him that we can't deliver`
    let is_told = text.before(at, 2) == "that";
    !is_fault && !is_told && (is_relative || matches!(before, "we" | "i" | "it" | "they" | "you" | "she" | "he"))
}

/// `Aisha can't do Wednesdays`: what somebody with a name cannot do.
pub(super) fn is_named_limit(text: &Text, at: usize) -> bool {
    let is_negated = matches!(text.lower(at), "can't" | "cannot");
    let is_pronoun = ["we", "i", "it", "they", "you", "he", "she", "this", "that"].contains(&text.before(at, 1));
    let is_name = is_negated
        && !is_pronoun
        && at.checked_sub(1).is_some_and(|name| text.is_capital(name) && text.begins_clause(name));
    is_name && ["do", "work", "come", "attend", "eat", "drink", "travel", "fly", "drive"].contains(&text.lower(at + 1))
}

/// `one who can't eat shellfish`: what somebody who takes part cannot do; not `users who can't log in`, which is a fault.
fn is_guests_limit(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "who"
        && ["eat", "drink", "have", "tolerate", "like", "climb", "walk", "fly", "swim", "drive", "travel"]
            .contains(&text.lower(at + 1))
}

/// `something that doesn't need water`, `make sure it doesn't crash`.
fn is_described(text: &Text, at: usize) -> bool {
    let assured = (1..=6).any(|back| matches!(text.before(at, back), "sure" | "ensure"));
    assured || text.lower(at) == "doesn't" && matches!(text.before(at, 1), "that" | "which")
}

/// `…, nothing heavy on the stairs`; not `nothing else`, `nothing is lost`.
fn is_bare(text: &Text, at: usize) -> bool {
    let begins = matches!(text.before(at, 1), "," | ";" | "and" | "but" | "(");
    let describes = text.get(at + 1).is_some_and(|next| next.kind == WordKind::Letters);
    let says_more = [
        "is", "was", "has", "had", "else", "to", "but", "more", "less", "special", "new", "much", "happens", "works",
        "changes", "may", "must", "should", "can", "will",
    ]
    .contains(&text.lower(at + 1));
    begins && describes && !says_more
}

/// The index of `untouched` in `leave the numbers untouched`.
pub(super) fn stays(text: &Text, at: usize) -> Option<usize> {
    let end = (at + 2..at + 8).find(|i| !text.get(*i).is_some_and(|w| w.kind == WordKind::Letters)).unwrap_or(at + 8);
    // `leave the names as they are`
    if let Some(same) =
        (at + 2..end).find(|i| text.lower(*i) == "as" && matches!(text.lower(i + 1), "they" | "it" | "is"))
    {
        return Some(same);
    }
    matches!(text.before(end, 1), "untouched" | "unchanged" | "alone").then(|| end - 1)
}

/// `no alcohol`, but not `no later than`, `no. 5`, `no doubt`, `yes or no`.
fn no(text: &Text, at: usize) -> Option<usize> {
    let next = text.get(at + 1)?;
    let other = [
        "later", "more", "less", "fewer", "longer", "earlier", "sooner", "matter", "doubt", "one", "problem", "need",
        "idea", "rush", "hurry", "worries", "pressure", "thanks", "and", "or", "to", ".",
    ]
    .contains(&next.lower.as_str());
    // `no higher than 9,000 EUR`
    let other = other || next.lower.ends_with("er") && text.lower(at + 2) == "than";
    let answer = text.before(at, 1) == "or" && text.before(at, 2) == "yes";
    let before = text.before(at, 1);
    let is_fact = [
        "has", "have", "had", "is", "are", "was", "were", "there's", "shows", "gets", "makes", "gives", "returns",
        "receives", "sees", "produces", "got", "been",
    ]
    .contains(&before)
        || matches!(before, "get" | "see" | "receive" | "find")
            && matches!(text.before(at, 2), "i" | "we" | "they" | "you" | "users" | "customers");
    (next.kind == WordKind::Letters && !other && !answer && !is_fact).then_some(at + 1)
}

/// `not on Sundays`, `not by plane`, `but not Amazon`; `if not`, `whether or not` and `is not` rule nothing out.
fn not(text: &Text, at: usize) -> Option<usize> {
    let (before, next) = (text.before(at, 1), text.lower(at + 1));
    let clause = [",", "but", ";", "and", "(", ".", "–", "-"].contains(&before) || at == 0;
    let other = [
        "more", "less", "fewer", "later", "longer", "only", "just", "yet", "sure", "exceeding", "over", "above", "",
        ".", ",", "least",
    ]
    .contains(&next);
    // `not a cent more`
    let other = other || (2..=3).any(|ahead| matches!(text.lower(at + ahead), "more" | "less" | "longer" | "later"));
    let keep = ["on", "by", "in", "at", "from", "before", "after", "during", "for", "to", "with"].contains(&next);
    // `not older than 6 years` is a limit.
    let other = other || next.ends_with("er") && text.lower(at + 2) == "than";
    let led = clause || keep && !["is", "are", "was", "were", "does", "did", "do", "if", "or", "has"].contains(&before);
    (led && !other).then_some(if ["on", "by", "from", "with", "in", "at", "for", "to"].contains(&next) {
        at + 2
    } else {
        at + 1
    })
}

/// Whether a verb here asks for something: at the start of a clause, or after `please`, `to`.
pub(super) fn is_request(text: &Text, at: usize) -> bool {
    text.is_sentence_start(at)
        || text.begins_line(at)
        || [",", ";", "and", "but", "please", "should", "must", "–", "can", "you"].contains(&text.before(at, 1))
}

/// `how to avoid burnout`, `tips to avoid`: that is what the goal is about.
fn is_purpose(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "to"
        && (1..=4).any(|back| {
            ["how", "ways", "tips", "way", "strategies", "measures", "guide", "mistakes", "things", "steps"]
                .contains(&text.before(at, back + 1))
        })
}

/// `must not`, `do not` are rules unless they tell what somebody does: `customers do not log in`.
fn is_rule(text: &Text, at: usize) -> bool {
    let before = text.before(at, 1);
    let word = text.lower(at);
    let is_modal = matches!(word, "must" | "should" | "may" | "shall" | "mustn't" | "shouldn't");
    let is_subject_free = is_request(text, at) || matches!(before, "also" | "then" | "it" | "we" | "you");
    // `explain why a kernel must not sleep`
    if text.clause_before(at, 8).any(|i| text.lower(i) == "why") {
        return false;
    }
    if matches!(word, "can" | "will") {
        matches!(before, "we" | "you" | "i")
    } else {
        is_modal || is_subject_free && before != "we"
    }
}
