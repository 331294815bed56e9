//! Extracts the sub-tasks that a goal lists: after a colon, as lines with bullets or numbers, or as requests in a row.

use super::request_verb::is_verb_by_object;
use super::words::{Text, WordKind};

/// Most sub-tasks that are taken over.
const SUBTASKS_MAX: usize = 20;
/// Longest sub-task, in words.
const WORDS_MAX: usize = 24;

/// Sub-tasks in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subtasks {
    pub items: Vec<String>,
    /// Numbered lines and requests in a row are done one after the other.
    pub in_order: bool,
    /// Sub-tasks that were not taken over because there are too many.
    pub left_out: usize,
}

/// Constraints are read before: a member of a list that is one is no sub-task.
pub(super) fn read(text: &Text) -> Subtasks {
    let mut found = bullets(text)
        .or_else(|| numbered(text))
        .or_else(|| after_colon(text))
        .or_else(|| requests(text))
        .or_else(|| things(text))
        .or_else(|| wished(text))
        .unwrap_or_default();
    found.items.retain(|item| !is_delivery(item));
    found.left_out = found.items.len().saturating_sub(SUBTASKS_MAX);
    found.items.truncate(SUBTASKS_MAX);
    found
}

/// `give it back as CSV`: how the result is handed over.
fn is_delivery(item: &str) -> bool {
    let words: Vec<&str> = item.split(' ').collect();
    let hands_over = matches!(words.first(), Some(&("give" | "save" | "export" | "return" | "hand" | "deliver")));
    hands_over
        && matches!(words.get(1), Some(&("it" | "them")))
        && words.iter().any(|word| matches!(*word, "as" | "in"))
}

/// `1) stop it, 2) back it up, 3) start it`; `first pack, then call the movers, finally clean`.
fn numbered(text: &Text) -> Option<Subtasks> {
    let mark = |at: usize| {
        let is_number = matches!(text.words[at].kind, WordKind::Number(_)) && text.words[at].text.len() <= 2;
        let is_closed = text.lower(at + 1) == ")" && text.words[at + 1].glued;
        let is_order = matches!(text.lower(at), "first" | "second" | "third" | "then" | "next" | "finally" | "lastly");
        let verb = at + 1 + usize::from(text.lower(at + 1) == ",");
        match (is_number && is_closed, is_order && text.begins_clause(at) && text.is_imperative(verb)) {
            (true, _) => Some(at + 2),
            (_, true) => Some(verb),
            _ => None,
        }
    };
    let marks: Vec<(usize, usize)> =
        (0..text.words.len()).filter_map(|at| Some((at, mark(at)?))).take(SUBTASKS_MAX).collect();
    (marks.len() >= REQUESTS_MIN).then_some(())?;
    let ends = marks.iter().skip(1).map(|(at, _)| *at).chain([text.words.len()]);
    let items = marks.iter().zip(ends).filter_map(|((_, from), to)| {
        let stop = (*from..to).find(|i| text.ends_sentence(*i) || text.begins_line(*i) && i > from).unwrap_or(to);
        item_between(text, *from, stop)
    });
    let items: Vec<String> = items.collect();
    (items.len() == marks.len()).then_some(Subtasks { items, in_order: true, left_out: 0 })
}

/// The words from `from` to before `to` without joints at either end.
fn item_between(text: &Text, from: usize, mut to: usize) -> Option<String> {
    while to > from && matches!(text.lower(to - 1), "," | ";" | "and" | "then" | ".") {
        to -= 1;
    }
    (to > from).then(|| item(text, text.words[from].start, text.words[to - 1].end))?
}

/// `sort out removals, change of address and the broadband`; `Short briefing, agenda and three questions.`: three things at least.
fn things(text: &Text) -> Option<Subtasks> {
    let sentences: Vec<usize> = (0..text.words.len())
        .filter(|at| *at == 0 || text.ends_sentence(at - 1) || text.lower(at - 1) == ";" || text.begins_line(*at))
        .collect();
    sentences.iter().enumerate().find_map(|(index, first)| {
        let limit = sentences.get(index + 1).copied().unwrap_or(text.words.len());
        let end = (*first..limit).find(|i| text.ends_sentence(*i) || text.lower(*i) == ";").unwrap_or(limit);
        let at = first + usize::from(text.lower(*first) == "please");
        let from = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
            ("sort", "out", _) | ("deal", "with", _) | ("look", "after", _) | ("see", "to", _) => at + 2,
            ("take", "care", "of") => at + 3,
            ("arrange" | "organise" | "organize" | "handle", ..) => at + 1,
            ("plan" | "prepare", "the", _) => at + 1,
            _ if index > 0 && text.words[at].kind == WordKind::Letters => at,
            _ => return None,
        };
        let items = nouns(text, from, end, from == at)?;
        Some(Subtasks { items, in_order: false, left_out: 0 })
    })
}

/// The members of `A, B and C`, without articles, when all of them are things.
///
/// - `is_bare`: there is no verb before them.
fn nouns(text: &Text, from: usize, end: usize, is_bare: bool) -> Option<Vec<String>> {
    let and = (from..end).rev().find(|i| text.lower(*i) == "and")?;
    (from..and).any(|i| text.lower(i) == ",").then_some(())?;
    let mut items = Vec::new();
    let mut first = from;
    for at in from..=end {
        if at == end || at == and || text.lower(at) == "," {
            while first < at && matches!(text.lower(first), "the" | "a" | "an" | "our" | "my" | "and") {
                first += 1;
            }
            let verb = (first..at).take(THING_WORDS_MAX).any(|i| FINITE.contains(&text.lower(i)));
            let is_thing = (1..=THING_WORDS_MAX).contains(&(at - first)) && !text.is_constraint(first) && !verb;
            let is_name = is_bare && first > from && text.is_capital(first);
            let is_quality = is_bare && at == first + 1 && is_quality(text.lower(first));
            (is_thing && !is_name && !is_quality && (!text.is_imperative(first) || !is_bare)).then_some(())?;
            items.push(text.between(first, at).to_owned());
            first = at + 1;
        }
    }
    (items.len() >= REQUESTS_MIN).then_some(items)
}

/// Longest name of a thing, in words.
const THING_WORDS_MAX: usize = 8;

/// Words that make a sentence of what would be a list.
const FINITE: &[&str] = &[
    "is", "are", "was", "were", "has", "have", "had", "do", "does", "will", "would", "should", "must", "it", "they",
    "we", "i'm", "we're", "which", "because", "if", "when",
];

fn is_quality(word: &str) -> bool {
    let known = [
        "short", "friendly", "polite", "warm", "formal", "clear", "simple", "funny", "cheap", "quiet", "modern", "fast",
    ];
    known.contains(&word) || word.len() > 4 && (word.ends_with("ful") || word.ends_with("able") || word.ends_with("ly"))
}

/// `I'd like the photos sorted by year, renamed and backed up`: what is to be done, as participles.
fn wished(text: &Text) -> Option<Subtasks> {
    let wish = (0..text.words.len()).find(|at| {
        matches!(text.lower(*at), "like" | "love" | "want" | "need")
            && matches!(text.before(*at, 1), "i" | "we" | "i'd" | "we'd" | "would")
    })?;
    let limit = wish + WISH_WORDS_MAX;
    let end = (wish..limit.min(text.words.len()))
        .find(|i| {
            text.ends_sentence(*i)
                || matches!(text.lower(*i), "–" | "-" if !text.words[*i].glued)
                || text.lower(*i) == "but"
        })
        .unwrap_or(limit.min(text.words.len()));
    let is_participle = |i: usize| {
        let word = text.lower(i);
        word.len() > 4 && word.ends_with("ed")
            || matches!(word, "put" | "thrown" | "done" | "written" | "set" | "built" | "sent")
    };
    let start = wish + 1;
    let first = (start..end).find(|i| is_participle(*i))?;
    let has_pronoun = first == start + 1 && matches!(text.lower(start), "it" | "them" | "everything");
    // `the photos sorted …, renamed`: the thing stands once.
    let shared =
        has_pronoun || !(first + 1..end).any(|i| is_participle(i) && !matches!(text.before(i, 1), "," | "and"));
    let mut items = Vec::new();
    let begin = if shared { first } else { start };
    let mut from = begin;
    for at in begin..=end {
        let is_joint = at < end && matches!(text.lower(at), "," | "and");
        let begins = |at: usize| {
            (at..(at + 5).min(end)).take_while(|i| !matches!(text.lower(*i), "," | "and")).any(is_participle)
        };
        if at == end || is_joint && begins(at + 1) {
            let begin = if matches!(text.lower(from), "the" | "my" | "our") { from + 1 } else { from };
            if let Some(item) = item_between(text, begin, at) {
                items.push(item);
            }
            from = at + 1;
        }
    }
    items.retain(|item| !item.is_empty());
    (items.len() >= 2).then_some(Subtasks { items, in_order: false, left_out: 0 })
}

/// Longest wish that is read for its parts, in words.
const WISH_WORDS_MAX: usize = 40;

/// Lines that begin with `-`, `*`, `•`, `1.` or `a)`.
fn bullets(text: &Text) -> Option<Subtasks> {
    let mut items = Vec::new();
    let mut numbered = 0;
    let mut offset = 0;
    for line in text.source.split_inclusive('\n') {
        let begin = offset;
        offset += line.len();
        let Some((mark, _)) = bullet(line) else { continue };
        let first = begin + (line.len() - line.trim_start().len()) + mark;
        if let Some(item) = item(text, first, begin + line.trim_end().len()) {
            items.push(item);
            numbered += usize::from(line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
        }
    }
    let in_order = numbered == items.len();
    (items.len() >= 2).then_some(Subtasks { items, in_order, left_out: 0 })
}

/// Whether the word stands in a line with a bullet: what is said there is said of one sub-task.
pub(super) fn is_bullet(text: &Text, at: usize) -> bool {
    let Some(word) = text.get(at) else { return false };
    let begin = text.source[..word.start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text.source[begin..].lines().next().unwrap_or_default();
    bullet(line).is_some()
}

/// The length of a line's bullet and what follows.
fn bullet(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix(['-', '*', '•', '–', '+']) {
        return rest.starts_with(char::is_whitespace).then_some((line.len() - rest.len(), rest));
    }
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let letter = usize::from(digits == 0 && line.starts_with(|c: char| c.is_ascii_alphabetic()));
    let rest = &line[digits + letter..];
    let closed = if letter == 1 { rest.strip_prefix(')') } else { rest.strip_prefix(['.', ')']) };
    let rest = closed.filter(|rest| (1..=2).contains(&(digits + letter)) && rest.starts_with(char::is_whitespace))?;
    Some((line.len() - rest.len(), rest))
}

/// `…: a, b and c`, to the end of the sentence.
fn after_colon(text: &Text) -> Option<Subtasks> {
    (0..text.words.len()).filter(|at| opens_list(text, *at) && !follows_statement(text, *at)).find_map(|at| {
        let end = (at + 1..text.words.len())
            .find(|i| text.ends_sentence(*i) || text.lower(*i) == ":" && !text.words[*i].glued)
            .unwrap_or(text.words.len());
        let separator = if (at + 1..end).any(|i| text.lower(i) == ";") && !(at + 1..end).any(|i| text.lower(i) == ",") {
            ";"
        } else {
            ","
        };
        let end = (at + 1..end).find(|i| separator == "," && text.lower(*i) == ";").unwrap_or(end);
        let mut items = members(text, at + 1, end, separator);
        if items.len() < 2 && separator == "," {
            items = pair(text, at + 1, end).unwrap_or_default();
        }
        (items.len() >= 2).then_some(Subtasks { items, in_order: false, left_out: 0 })
    })
}

/// `Mum's photos are all over the place: phone, laptop and shoeboxes`: where things are, not what is to be done.
fn follows_statement(text: &Text, colon: usize) -> bool {
    let is_told = text.clause_before(colon, 16).any(|i| matches!(text.lower(i), "are" | "is" | "were" | "was"));
    let asks = text.clause_before(colon, 16).any(|i| {
        text.is_imperative(i)
            || ["need", "want", "needs", "must", "should", "tasks", "steps", "to"].contains(&text.lower(i))
    });
    is_told && !asks && !text.is_imperative(colon + 1)
}

/// `CV of two pages and motivation letter, both in German`: two things.
fn pair(text: &Text, from: usize, end: usize) -> Option<Vec<String>> {
    let comma = (from..end).find(|i| text.lower(*i) == ",")?;
    let and = (from..comma).find(|i| text.lower(*i) == "and")?;
    let is_rest = (comma + 1..end).filter(|i| text.is_constraint(*i)).count() * 2 >= end - comma - 1;
    let is_short = |from: usize, to: usize| (1..=5).contains(&(to - from));
    let is_rest = is_rest && text.before(comma, 1) != "only";
    (is_rest && is_short(from, and) && is_short(and + 1, comma)).then_some(())?;
    Some(vec![item_between(text, from, and)?, item_between(text, and + 1, comma)?])
}

/// Fewest requests of one sentence that make a list.
const REQUESTS_MIN: usize = 3;

/// `find the cause, fix it and add a test`: the requests of the first sentence that has several.
fn requests(text: &Text) -> Option<Subtasks> {
    let begins = |at: &usize| *at == 0 || text.ends_sentence(at - 1) || text.begins_line(*at);
    let starts: Vec<usize> = (0..text.words.len()).filter(begins).collect();
    starts.iter().enumerate().find_map(|(index, first)| {
        let end = starts.get(index + 1).copied().unwrap_or(text.words.len());
        let items = requests_between(text, *first, end)?;
        Some(Subtasks { items, in_order: true, left_out: 0 })
    })
}

/// Verbs whose objects are results of their own.
const MAKING: &[&str] = &[
    "write", "rewrite", "draft", "create", "design", "make", "prepare", "build", "record", "translate", "compose",
    "produce", "develop", "edit", "proofread", "bake", "cook", "paint",
];

fn requests_between(text: &Text, first: usize, end: usize) -> Option<Vec<String>> {
    let first = first + usize::from(text.lower(first) == "please");
    // `I need to change my passwords, …`
    let is_own =
        matches!(text.lower(first), "i" | "we") && matches!(text.lower(first + 1), "need" | "have" | "want" | "must");
    let first = if is_own { first + 2 + usize::from(text.lower(first + 2) == "to") } else { first };
    is_request_of_its_own(text, first).then_some(())?;
    let mut bounds = vec![(first, first)];
    let mut at = first + 1;
    while at < end {
        let begin = (at..end).find(|i| !matches!(text.lower(*i), "," | "and" | "then" | "also" | "finally"));
        match begin.filter(|begin| *begin > at && is_request_of_its_own(text, *begin)) {
            Some(begin) => {
                bounds.push((at, begin));
                at = begin + 1;
            }
            None => at += 1,
        }
    }
    // `rewrite my CV and write a cover letter`
    let makes = |at: usize| {
        MAKING.contains(&text.lower(at))
            && matches!(text.lower(at + 1), "a" | "an" | "the" | "my" | "our" | "two" | "three")
    };
    let is_pair = bounds.len() == 2 && bounds.iter().all(|(_, at)| makes(*at));
    (is_pair || bounds.len() >= REQUESTS_MIN).then_some(())?;
    let ends = bounds.iter().skip(1).map(|(end, _)| *end).chain([end]);
    let items = bounds.iter().zip(ends).map(|((_, from), to)| {
        // A verb alone may be a noun: `price, design and support`.
        (to > from + 1).then(|| item(text, text.words[*from].start, text.words[to - 1].end))?
    });
    items.collect()
}

/// A request that is done by itself; `keep it short` and `do not …` say how another one is done.
fn is_request_of_its_own(text: &Text, at: usize) -> bool {
    (text.is_imperative(at) || is_verb_by_object(text.lower(at), text.lower(at + 1)))
        && !matches!(text.lower(at), "keep" | "use" | "include" | "let" | "finish" | "leave")
        && !(text.lower(at) == "do" && text.lower(at + 1) == "not")
        && !matches!(text.lower(at + 1), "is" | "was" | "were" | "has" | "are")
        && text.get(at + 1).is_some_and(|next| next.kind != WordKind::Sign)
}

/// A colon with words on both sides; not one of a time, an address or a pair such as `budget: 500`.
fn opens_list(text: &Text, at: usize) -> bool {
    let next_glued = text.get(at + 1).is_some_and(|next| next.glued);
    let label = [
        "budget", "deadline", "due", "format", "date", "note", "goal", "task", "subject", "keywords", "tags",
        "colours", "colors", "ingredients", "languages", "sizes", "tone", "style", "title",
    ]
    .contains(&text.before(at, 1));
    let tells = ["i", "i'm", "we", "we're", "it", "he", "she", "they", "you", "there"].contains(&text.lower(at + 1));
    // `the offer: 40 windows, …`
    let label = label
        || tells
        || text.number(at + 1).is_some_and(|number| number.value > 1.0 && text.lower(number.next) != ")");
    let is_dash =
        matches!(text.lower(at), "-" | "–" | "—") && !text.words[at].glued && is_request_of_its_own(text, at + 1);
    (text.lower(at) == ":" || is_dash) && at > 0 && !next_glued && !label && text.words[at - 1].kind != WordKind::Sign
}

fn members(text: &Text, from: usize, end: usize, separator: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut first = from;
    let mut bounds = Vec::new();
    let has_separator = (from..end).any(|i| text.lower(i) == separator);
    for at in from..end {
        let last_and = matches!(text.lower(at), "and" | "then" | "&")
            && (matches!(text.before(at, 1), "," | ";") || !(at + 1..end).any(|i| text.lower(i) == separator))
            && (has_separator && is_last_joint(text, at, end) || text.is_imperative(at + 1));
        if text.lower(at) == separator || last_and {
            bounds.push((first, at));
            first = at + 1;
        }
    }
    bounds.push((first, end));
    let members = bounds.iter().filter(|(from, to)| from < to).count();
    for (from, to) in bounds {
        let mut from = from;
        while from < to
            && (matches!(text.lower(from), "and" | "then" | "also" | "," | "or")
                || matches!(text.lower(from), "first" | "finally") && text.is_imperative(from + 1))
        {
            from += 1;
        }
        if from < to
            && let Some(item) = item(text, text.words[from].start, text.words[to - 1].end)
        {
            items.push(item);
        }
    }
    // A list of terms is no list of sub-tasks.
    if items.len() * 2 <= members { Vec::new() } else { items }
}

/// Whether no other `and` joins the members after this one: `a, b and c`.
fn is_last_joint(text: &Text, at: usize, end: usize) -> bool {
    !(at + 1..end).any(|i| matches!(text.lower(i), "and" | "&"))
}

/// A member as a sub-task, unless it is a constraint or too long to be one.
fn item(text: &Text, from: usize, to: usize) -> Option<String> {
    let words: Vec<usize> =
        (0..text.words.len()).filter(|i| text.words[*i].start >= from && text.words[*i].end <= to).collect();
    let constraints = words.iter().filter(|i| text.is_constraint(**i)).count();
    let item = text.source.get(from..to)?.trim().trim_end_matches(['.', ';', ',']).trim();
    let first = words.first().copied()?;
    let is_constraint = constraints * 2 > words.len() && !text.is_imperative(first) || text.lower(first + 1) == "times";
    let bounds =
        matches!((text.lower(first), text.lower(first + 1)), ("at", "least" | "most") | ("no", "more" | "less"));
    let is_constraint = is_constraint || bounds;
    let fits = words.len() <= WORDS_MAX && !is_constraint;
    let says_something = words.iter().any(|i| text.words[*i].kind == WordKind::Letters);
    (fits && says_something).then(|| item.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subtasks(text: &str) -> String {
        read(&Text::new(text)).items.join(" | ")
    }

    #[test]
    fn sub_tasks_are_read_after_a_colon() {
        for (text, expected) in [
            (
                "Onboard Ana: laptop, accounts, introduction meetings, first project",
                "laptop | accounts | introduction meetings | first project",
            ),
            ("Clean it: remove duplicates, fix phone numbers; save it", "remove duplicates | fix phone numbers"),
            ("Do this: book a room, invite the team and order food.", "book a room | invite the team | order food"),
            ("Prepare the fair: rent a booth; print flyers; train staff", "rent a booth | print flyers | train staff"),
            ("Move the site: export the posts and import them", "export the posts | import them"),
            ("Research bikes: size, competitors, prices. Deliver slides", "size | competitors | prices"),
        ] {
            assert_eq!(subtasks(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_with_bullets_are_sub_tasks() {
        assert_eq!(
            subtasks("Open the shop:\n- order shelves\n- hire staff, two at least\n"),
            "order shelves | hire staff, two at least"
        );
        assert_eq!(subtasks("Do\n* a thing\n• another"), "a thing | another");
        let numbered = read(&Text::new("Steps:\n1. stop it\n2) back it up\n3. start it"));
        assert_eq!((numbered.items.join(" | ").as_str(), numbered.in_order), ("stop it | back it up | start it", true));
        assert_eq!(read(&Text::new(&format!("Do:{}", "\n- a thing".repeat(25)))).left_out, 5);
    }

    #[test]
    fn requests_in_a_row_are_sub_tasks() {
        for (text, expected) in [
            (
                "Uploads fail. Reproduce it, find the cause and add a regression test.",
                "Reproduce it | find the cause | add a regression test",
            ),
            (
                "Write an apology, offer a refund, and find out what went wrong",
                "Write an apology | offer a refund | find out what went wrong",
            ),
        ] {
            let found = read(&Text::new(text));
            assert_eq!((found.items.join(" | ").as_str(), found.in_order), (expected, true), "{text}");
        }
        for text in [
            "Compare price, design and support",
            "Write a report and send it to Ana",
            "Buy water, paint, film and a hammer",
            "Write it, keep it short and use plain words",
        ] {
            assert_eq!(subtasks(text), "", "{text}");
        }
    }

    #[test]
    fn other_colons_list_nothing() {
        for text in [
            "a schedule: three times a week, tea",
            "at 10:00, please",
            "see https://a.example, b",
            "budget: 500, 600",
            "Note: this",
            "10:30",
            "a: b",
            "",
            ": a, b",
        ] {
            assert_eq!(subtasks(text), "", "{text}");
        }
    }

    #[test]
    fn sub_tasks_are_read_as_people_write_them() {
        super::super::phrases::check(PHRASES, |facts| facts.subtasks.join(" | "));
    }

    const PHRASES: &[(&str, &str)] = &[
        ("Plan the games, the food and the party bags", "games | food | party bags"),
        (
            "Someone got in. I need to change my passwords, set up two-factor login and check my bank account, help me.",
            "change my passwords | set up two-factor login | check my bank account, help me",
        ),
        ("Mum's photos are all over the place: phone, laptop and shoeboxes. Sort them.", ""),
        (
            "Somebody got into our account. Change the passwords, turn on two-factor login and inform the members.",
            "Change the passwords | turn on two-factor login | inform the members",
        ),
        (
            "Clean up a.csv - remove duplicates, fix the phone numbers, and don't delete anyone",
            "remove duplicates | fix the phone numbers",
        ),
        (
            "Tidy up the wiki – merge duplicates, archive old pages and fix broken links",
            "merge duplicates | archive old pages | fix broken links",
        ),
        ("Rewrite my CV and write a cover letter for a clinic", "Rewrite my CV | write a cover letter for a clinic"),
        ("Draft a press release and design a flyer", "Draft a press release | design a flyer"),
        ("Write a report and send it to Anna", ""),
        ("Fix the tap - it leaks, and quickly", ""),
        ("Make a cake and some tea", ""),
        ("Onboard Ana: laptop, accounts, first project", "laptop | accounts | first project"),
        ("Ship it.\n- freeze the code\n- run the tests\n", "freeze the code | run the tests"),
        (
            "Prep me for the call. Short briefing, agenda and three questions I can ask them.",
            "Short briefing | agenda | three questions I can ask them",
        ),
        ("Sort out removals, change of address and the broadband", "removals | change of address | broadband"),
        ("Help me apply: CV of two pages and motivation letter, both in German", "CV of two pages | motivation letter"),
        (
            "Clean it: remove the duplicates, fix the phone numbers and give it back as CSV",
            "remove the duplicates | fix the phone numbers",
        ),
        ("Find the cause, fix it and add a test", "Find the cause | fix it | add a test"),
        ("Do this: 1) stop it, 2) back it up, 3) start it", "stop it | back it up | start it"),
        (
            "First pack the boxes, then call the movers, finally clean the flat",
            "pack the boxes | call the movers | clean the flat",
        ),
        ("Organise the fête: stalls, raffle, music", "stalls | raffle | music"),
        ("Prepare the fair: rent a booth; print flyers; train staff", "rent a booth | print flyers | train staff"),
        ("Take care of flowers, music and the cake", "flowers | music | cake"),
        (
            "Handle the invitations, the seating plan and the thank-you cards",
            "invitations | seating plan | thank-you cards",
        ),
        ("Draft a reply: apologise, offer her 15% off", "apologise | offer her 15% off"),
        ("Renew my passport. New photo, form and appointment.", "New photo | form | appointment"),
        ("To do:\n1. call Bo\n2. pay rent", "call Bo | pay rent"),
        ("Steps:\na) measure\nb) order wood", "measure | order wood"),
        (
            "Write an offer, send it to Ana and call her on Friday",
            "Write an offer | send it to Ana | call her on Friday",
        ),
        ("Set up the shop: domain, payment and shipping", "domain | payment | shipping"),
        ("I'd like the photos sorted by year, renamed and backed up", "sorted by year | renamed | backed up"),
        (
            "I want the garage cleaned, the tools sorted and the junk thrown away",
            "garage cleaned | tools sorted | junk thrown away",
        ),
        ("Deal with the insurance, the police report and the repair", "insurance | police report | repair"),
        ("Arrange catering, a photographer and a band", "catering | photographer | band"),
        ("Tasks: sweep the yard, mow the lawn", "sweep the yard | mow the lawn"),
        ("Compare price, design and support", ""),
        ("Write a report and send it to Ana", ""),
        ("Buy water, paint, film and a hammer", ""),
        ("Write it, keep it short and use plain words", ""),
        ("Write a note. Friendly, short and polite.", ""),
        ("Invite the board. Anna, Tom and Lisa.", ""),
        ("Plan it at 10:00, please", ""),
        ("Budget: 500, 600", ""),
        ("Compare Asana, Trello and Monday", ""),
        ("A trip to Rome, Paris and Nice", ""),
        ("The soup, the fish and the cake were cold; complain", ""),
        ("Write the offer: 40 windows, delivered in May, valid for two weeks", ""),
        ("Plan it: I'm 45, can save 400, want to stop at 63", ""),
        ("Draft a complaint, train was late, ask for money back", ""),
    ];
}
