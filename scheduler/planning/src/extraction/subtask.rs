//! Extracts the sub-tasks that a goal lists: after a colon, or as lines with bullets or numbers.

use super::words::{Text, WordKind};

/// Most sub-tasks that are taken over.
const SUBTASKS_MAX: usize = 20;
/// Longest sub-task, in words.
const WORDS_MAX: usize = 24;

/// Sub-tasks in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subtasks {
    pub items: Vec<String>,
    /// Numbered lines are done one after the other.
    pub in_order: bool,
    /// Sub-tasks that were not taken over because there are too many.
    pub left_out: usize,
}

/// Constraints are read before: a member of a list that is one is no sub-task.
pub(super) fn read(text: &Text) -> Subtasks {
    let mut found = bullets(text).or_else(|| after_colon(text)).unwrap_or_default();
    found.left_out = found.items.len().saturating_sub(SUBTASKS_MAX);
    found.items.truncate(SUBTASKS_MAX);
    found
}

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
    (0..text.words.len()).filter(|at| opens_list(text, *at)).find_map(|at| {
        let end = (at + 1..text.words.len())
            .find(|i| text.ends_sentence(*i) || text.lower(*i) == ":" && !text.words[*i].glued)
            .unwrap_or(text.words.len());
        let separator = if (at + 1..end).any(|i| text.lower(i) == ";") && !(at + 1..end).any(|i| text.lower(i) == ",") {
            ";"
        } else {
            ","
        };
        let end = (at + 1..end).find(|i| separator == "," && text.lower(*i) == ";").unwrap_or(end);
        let items = members(text, at + 1, end, separator);
        (items.len() >= 2).then_some(Subtasks { items, in_order: false, left_out: 0 })
    })
}

/// A colon with words on both sides; not one of a time, an address or a pair such as `budget: 500`.
fn opens_list(text: &Text, at: usize) -> bool {
    let next_glued = text.get(at + 1).is_some_and(|next| next.glued);
    let label = matches!(
        text.before(at, 1),
        "budget" | "deadline" | "due" | "format" | "date" | "note" | "goal" | "task" | "subject"
    );
    text.lower(at) == ":" && at > 0 && !next_glued && !label && text.words[at - 1].kind != WordKind::Sign
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
    let members = bounds.len();
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
}
