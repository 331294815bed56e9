//! Extracts what a goal rules out: `without flying`, `no alcohol`, `do not touch the schema`, `except Amazon`.

use super::words::{Text, WordKind};

/// Longest exclusion, in words.
const WORDS_MAX: usize = 14;
/// Most exclusions of one goal.
const EXCLUSIONS_MAX: usize = 20;

/// How the exclusion is introduced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// `no`, `without`: things follow, which may be a list.
    Things,
    /// `do not`: an action follows.
    Action,
}

/// Everything that is ruled out, in the order of the text. Dates, money, limits and formats are read before and end a phrase.
pub(super) fn read(text: &Text) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < text.words.len() && found.len() < EXCLUSIONS_MAX {
        let Some((lead, first)) = lead_at(text, at) else {
            if let Some(free) = free_of(text, at) {
                add(&mut found, free);
            }
            at += 1;
            continue;
        };
        let end = phrase_end(text, lead, first);
        if end <= first {
            at += 1;
            continue;
        }
        for part in parts(text, lead, first, end) {
            add(&mut found, part);
        }
        text.note_constraint(at, end);
        at = end;
    }
    found
}

fn add(found: &mut Vec<String>, part: String) {
    if !part.is_empty() && !found.contains(&part) {
        found.push(part);
    }
}

/// Whether an exclusion is introduced at `at`, and the index of what is ruled out.
fn lead_at(text: &Text, at: usize) -> Option<(Lead, usize)> {
    let (word, next, third) = (text.lower(at), text.lower(at + 1), text.lower(at + 2));
    if text.is_constraint(at) {
        return None;
    }
    let (lead, first) = match word {
        "without" | "excluding" | "sans" | "minus" => (Lead::Things, at + 1),
        "excl" if next == "." => (Lead::Things, at + 2),
        "except" | "excepting" => (Lead::Things, at + 1),
        "exclude" | "ignore" | "skip" | "omit" | "disregard" | "exclud" if is_request(text, at) => {
            (Lead::Things, at + 1)
        }
        "ignoring" | "skipping" | "omitting" => (Lead::Things, at + 1),
        "leave" | "leaving" if next == "out" => (Lead::Things, at + 2),
        "avoid" if !is_purpose(text, at) => (Lead::Things, at + 1),
        "avoiding" => (Lead::Things, at + 1),
        "refrain" if next == "from" => (Lead::Things, at + 2),
        "apart" | "aside" if next == "from" => (Lead::Things, at + 2),
        "other" if next == "than" && !matches!(text.before(at, 1), "each" | "any") => (Lead::Things, at + 2),
        "rather" if next == "than" => (Lead::Things, at + 2),
        "instead" if next == "of" => (Lead::Things, at + 2),
        "neither" => (Lead::Things, at + 1),
        "nor" => (Lead::Things, at + 1),
        "none" if next == "of" => (Lead::Things, at + 2),
        "nothing" if matches!(next, "with" | "containing" | "from" | "about" | "in" | "that") => (Lead::Things, at + 2),
        "no" => (Lead::Things, no(text, at)?),
        "do" | "must" | "should" | "may" | "shall" | "can" | "will" if next == "not" && is_rule(text, at) => {
            (Lead::Action, at + 2)
        }
        "don't" | "dont" | "mustn't" | "shouldn't" if is_rule(text, at) => (Lead::Action, at + 1),
        "cannot" | "can't" | "won't" if matches!(text.before(at, 1), "we" | "i" | "it" | "they" | "you") => {
            (Lead::Action, at + 1)
        }
        "never" if is_request(text, at) || text.before(at, 1) == "must" => (Lead::Action, at + 1),
        "nothing" if third == "than" || is_bare(text, at) => (Lead::Things, at + 1),
        "nothing" if matches!(next, "may" | "must" | "should" | "can") => (Lead::Action, at + 2),
        "anything" | "everything" | "everyone" | "all" if matches!(next, "but" | "except") => (Lead::Things, at + 2),
        "leave" if stays(text, at) => (Lead::Things, at + 1),
        "nobody" | "none" => (Lead::Action, at),
        "not" => (Lead::Things, not(text, at)?),
        _ => return None,
    };
    // `do not use more than 3 pages` is a limit.
    let is_limit = matches!(third, "more" | "less" | "fewer") && word == "not";
    (!is_limit).then_some((lead, skip_articles(text, first)))
}

/// `…, nothing heavy on the stairs`; not `nothing else`, `nothing is lost`.
fn is_bare(text: &Text, at: usize) -> bool {
    let begins = matches!(text.before(at, 1), "," | ";" | "and" | "but" | "(");
    let describes = text.get(at + 1).is_some_and(|next| next.kind == WordKind::Letters);
    let says_more = matches!(
        text.lower(at + 1),
        "is" | "was"
            | "has"
            | "had"
            | "else"
            | "to"
            | "but"
            | "more"
            | "less"
            | "special"
            | "new"
            | "much"
            | "happens"
            | "works"
            | "changes"
    );
    begins && describes && !says_more
}

/// `leave the numbers untouched`.
fn stays(text: &Text, at: usize) -> bool {
    let end = (at + 2..at + 8).find(|i| !text.get(*i).is_some_and(|w| w.kind == WordKind::Letters)).unwrap_or(at + 8);
    matches!(text.before(end, 1), "untouched" | "unchanged" | "alone")
}

/// `no alcohol`, but not `no later than`, `no. 5`, `no doubt`, `yes or no`.
fn no(text: &Text, at: usize) -> Option<usize> {
    let next = text.get(at + 1)?;
    let other = matches!(
        next.lower.as_str(),
        "later"
            | "more"
            | "less"
            | "fewer"
            | "longer"
            | "earlier"
            | "sooner"
            | "matter"
            | "doubt"
            | "one"
            | "problem"
            | "need"
            | "idea"
            | "and"
            | "or"
            | "to"
            | "."
    );
    let answer = text.before(at, 1) == "or" && text.before(at, 2) == "yes";
    let is_fact =
        matches!(text.before(at, 1), "has" | "have" | "had" | "is" | "are" | "was" | "were" | "there's" | "shows");
    (next.kind == WordKind::Letters && !other && !answer && !is_fact).then_some(at + 1)
}

/// `not on Sundays`, `not by plane`, `but not Amazon`; `if not`, `whether or not` and `is not` rule nothing out.
fn not(text: &Text, at: usize) -> Option<usize> {
    let (before, next) = (text.before(at, 1), text.lower(at + 1));
    let clause = matches!(before, "," | "but" | ";" | "and" | "(" | "." | "–" | "-") || at == 0;
    let other = matches!(
        next,
        "more"
            | "less"
            | "fewer"
            | "later"
            | "longer"
            | "only"
            | "just"
            | "yet"
            | "sure"
            | "exceeding"
            | "over"
            | "above"
            | ""
            | "."
            | ","
            | "least"
    );
    let keep =
        matches!(next, "on" | "by" | "in" | "at" | "from" | "before" | "after" | "during" | "for" | "to" | "with");
    // `not older than 6 years` is a limit.
    let other = other || next.ends_with("er") && text.lower(at + 2) == "than";
    let led = clause
        || keep && !matches!(before, "is" | "are" | "was" | "were" | "does" | "did" | "do" | "if" | "or" | "has");
    (led && !other).then_some(if matches!(next, "on" | "by" | "from" | "with" | "in" | "at" | "for" | "to") {
        at + 2
    } else {
        at + 1
    })
}

/// Whether a verb here asks for something: at the start of a clause, or after `please`, `to`.
fn is_request(text: &Text, at: usize) -> bool {
    text.is_sentence_start(at)
        || text.begins_line(at)
        || matches!(text.before(at, 1), "," | ";" | "and" | "but" | "please" | "should" | "must" | "–" | "can" | "you")
}

/// `how to avoid burnout`, `tips to avoid`: that is what the goal is about.
fn is_purpose(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "to"
        && (1..=4).any(|back| {
            matches!(
                text.before(at, back + 1),
                "how" | "ways" | "tips" | "way" | "strategies" | "measures" | "guide" | "mistakes" | "things" | "steps"
            )
        })
}

/// `must not`, `do not` are rules unless they tell what somebody does: `customers do not log in`.
fn is_rule(text: &Text, at: usize) -> bool {
    let before = text.before(at, 1);
    let word = text.lower(at);
    let is_modal = matches!(word, "must" | "should" | "may" | "shall" | "mustn't" | "shouldn't");
    let is_subject_free = is_request(text, at) || matches!(before, "also" | "then" | "it" | "we" | "you");
    if matches!(word, "can" | "will") {
        matches!(before, "we" | "you" | "i")
    } else {
        is_modal || is_subject_free && before != "we"
    }
}

/// `gluten-free`, `free of nuts`.
fn free_of(text: &Text, at: usize) -> Option<String> {
    if text.lower(at) != "free" {
        return None;
    }
    if at >= 2 && text.lower(at - 1) == "-" && text.words[at - 1].glued && text.words[at].glued {
        let thing = text.words[at - 2].text.to_owned();
        text.note(at - 2, at + 1, super::words::Use::Fact);
        return Some(thing);
    }
    let thing = text.get(at + 2).filter(|w| text.lower(at + 1) == "of" && w.kind == WordKind::Letters)?;
    (!matches!(thing.lower.as_str(), "charge" | "cost")).then(|| thing.text.to_owned())
}

fn skip_articles(text: &Text, mut at: usize) -> usize {
    while matches!(
        text.lower(at),
        "any" | "the" | "a" | "an" | "all" | "for" | "from" | "of" | "with" | "use" | "using" | "having" | "also"
    ) && text.get(at + 1).is_some_and(|w| w.kind == WordKind::Letters)
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
            && !(inside || matches!(word.lower.as_str(), "\"" | "'" | "“" | "”" | "&" | "$" | "€" | "%" | "/"));
        if word.lower == "," && continues_list(text, at, lead) {
            at += 1;
            continue;
        }
        let joins_verb = matches!(word.lower.as_str(), "and" | "then") && text.is_imperative(at + 1);
        let turns = matches!(word.lower.as_str(), "but" | "because" | "since" | "so" | "without" | "then" | "while")
            || word.lower == "or" && text.lower(at + 1) == "more";
        if sign
            || joins_verb
            || turns
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
            ("the schema must not change", "change"),
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
            ("translate it, leave the numbers untouched", "numbers untouched"),
            ("nothing may go to landfill", "go to landfill"),
            ("anything but Dell", "Dell"),
            ("8 books, nothing older than 2015", "older than 2015"),
            ("neither meat nor fish", "meat | fish"),
            ("use trains instead of planes", "planes"),
            ("never send e-mails at night", "send e-mails at night"),
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
            "",
        ] {
            assert_eq!(exclusions(text), "", "{text}");
        }
    }
}
