//! Tells what a date is in a goal by the words around it: a deadline, a day of the goal, the name of a record, past, or ruled out.

use jiff::civil::Date;

use super::calendar_date::{DateSpan, month_number};
use super::lead_time;
use super::relative_date as relative;
use super::words::Text;

/// What the words around a date make of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DateRole {
    Deadline {
        is_exclusive: bool,
    },
    /// `until` and `to`: a deadline, unless a start stands before it.
    Until,
    Plain,
}

/// `every Wednesday until the end of June`: the last time, no deadline.
pub(super) fn is_series(text: &Text, at: usize) -> bool {
    let repeats = ["every", "each", "weekly", "daily", "monthly", "week", "mondays", "weekdays"];
    text.clause_before(at, 16).any(|i| repeats.contains(&text.lower(i)))
}

/// `a study plan for my exam on 18 January`, `a present for his birthday on 9 December`: the day by which the work is of use.
pub(super) fn is_prepared_for(text: &Text, at: usize, span: &DateSpan) -> bool {
    let DateSpan::Day(day) = span else { return false };
    let at = skip_modifiers(text, at);
    let link = at - usize::from(matches!(text.before(at, 1), "on" | "in" | "," | "is")).min(at);
    let link = link - usize::from(text.before(link, 1) == "is").min(link);
    let is_event = EXAMS.contains(&text.before(link, 1)) || OCCASIONS.contains(&text.before(link, 1));
    let is_exam = EXAMS.contains(&text.before(link, 1));
    let is_made_for = || {
        let mut clause = text.clause_before(link, EVENT_WORDS_MAX);
        let lead = clause.find(|i| text.lower(*i) == "for");
        lead.is_some_and(|lead| {
            PREPARED.contains(&text.before(lead, 1))
                || text.clause_before(lead, 5).any(|i| PREPARES.contains(&text.lower(i)))
        })
    };
    let is_studied = || text.words.iter().any(|word| STUDIES.contains(&word.lower.as_str()));
    // `book a table for her birthday on 3 May`: it happens on the day.
    let is_booked = text.clause_before(link, 16).any(|i| matches!(text.lower(i), "book" | "reserve" | "rent"));
    is_event
        && !is_booked
        && lead_time::before_event(text, *day).is_none()
        && (is_made_for() || is_exam && is_studied())
}

/// Words from `for` to the date of an event, at most.
const EVENT_WORDS_MAX: usize = 8;

/// What somebody learns for.
const EXAMS: &[&str] =
    &["exam", "exams", "test", "interview", "viva", "race", "marathon", "audition", "recital", "tournament"];

/// What something is made or bought for.
const OCCASIONS: &[&str] = &[
    "birthday", "wedding", "anniversary", "christening", "graduation", "baptism", "inspection", "audit", "funeral",
    "prom", "leaving",
];

/// What is ready when the day comes.
const PREPARED: &[&str] = &[
    "present", "presents", "gift", "gifts", "speech", "card", "cards", "cake", "outfit", "dress", "suit", "toast",
    "poem", "eulogy", "flashcards", "costume",
];

/// What somebody does until the day.
const PREPARES: &[&str] =
    &["study", "revise", "revision", "prepare", "preparing", "practise", "train", "training", "learn", "ready", "prep"];

const STUDIES: &[&str] =
    &["study", "revise", "revision", "practise", "learn", "training", "studying", "learning", "practice", "flashcards"];

/// `closed until 5 January`, `the contract runs until 31 March`: how long something is so.
pub(super) fn is_of_a_state(text: &Text, at: usize) -> bool {
    let until = if text.before(at, 1) == "the" { 2 } else { 1 };
    [
        "closed", "away", "out", "shut", "runs", "ran", "valid", "ill", "sick", "off", "leave", "holiday", "vacation",
        "lasts", "works", "paid", "booked",
    ]
    .contains(&text.before(at, until + 1))
}

/// Whether a date says which thing is meant, or since when something is so: `the minutes from 3 November`, `since 1 May`.
pub(super) fn is_reference(text: &Text, at: usize, next: usize) -> bool {
    let at = skip_modifiers(text, at);
    let goes_on = ["to", "until", "till", "through", "-", "–", "onwards", "onward", "on"].contains(&text.lower(next));
    let is_after_that = || {
        let mut clause = text.clause_before(at, 6);
        clause.any(|i| text.lower(i) == "after" && matches!(text.lower(i + 1), "that" | "this"))
    };
    match text.before(at, 1) {
        "since" | "dated" => true,
        // `after that mail on Tuesday`
        "on" if is_after_that() => true,
        // `Anna is away from the 21st`
        "from" if ["away", "out", "off", "leave", "holiday", "vacation", "absent"].contains(&text.before(at, 2)) => {
            true
        }
        "from" | "of" => !goes_on && RECORDS.contains(&text.before(at, 2)),
        _ => false,
    }
}

/// `the sales figures for October`: the month of what there is already.
pub(super) fn is_record_of(text: &Text, at: usize) -> bool {
    matches!(text.before(at, 1), "for" | "of" | "from") && RECORDS.contains(&text.before(at, 2))
}

/// `the October receipts`
pub(super) fn names_record(text: &Text, at: usize, next: usize) -> bool {
    // `the October bank statements`
    let is_record = (next..next + 2).any(|i| RECORDS.contains(&text.lower(i)) && !text.is_constraint(i));
    is_record && !matches!(text.before(at, 1), "in" | "by" | "until" | "before")
}

/// The second month of `complaints from October and November`.
pub(super) fn follows_record(text: &Text, at: usize) -> bool {
    let first = at.checked_sub(2).filter(|_| matches!(text.before(at, 1), "and" | "to" | "-" | "–" | "&"));
    first.is_some_and(|first| month_number(text, first).is_some() && is_record_of(text, first))
}

/// `not on Wednesday`, `except in August`: for [`super::exclusion`] to read.
pub(super) fn is_ruled_out(text: &Text, at: usize) -> bool {
    let is_not = |word: &str| matches!(word, "not" | "never" | "except" | "excluding" | "avoid" | "avoiding");
    match text.before(at, 1) {
        // `tell him that we can't deliver before February`
        "before" if text.before(at, 2) != "not" => text.negation_before(at - 1).is_some_and(|i| {
            let is_rule = matches!(text.before(i, 1), "must" | "should" | "may") && text.lower(i + 1) == "be";
            matches!(text.lower(i), "can't" | "cannot" | "won't") || is_rule || text.lower(i) == "nothing"
        }),
        "on" | "in" | "at" | "for" | "during" => is_not(text.before(at, 2)) || nothing_happens(text, at - 1),
        "the" if text.before(at, 2) == "on" => nothing_happens(text, at - 2),
        word => is_not(word),
    }
}

/// `nobody works on the 25th`, `no deliveries on 3 May`, `we're closed on 24 December`: a day on which nothing is done.
fn nothing_happens(text: &Text, on: usize) -> bool {
    let is_nobody =
        text.clause_before(on, 7).any(|i| matches!(text.lower(i), "nobody" | "none") && text.begins_clause(i));
    let is_nothing = text.before(on, 2) == "no" && text.begins_clause(on - 2);
    let is_closed = matches!(text.before(on, 1), "closed" | "shut")
        && matches!(text.before(on, 2), "we're" | "are" | "is" | "be" | "shop" | "office" | ",");
    // `the server can't go down on Monday`
    let is_forbidden = text.clause_before(on, 6).any(|i| {
        let is_not = text.lower(i) == "not" && matches!(text.before(i, 1), "must" | "should" | "may");
        (is_not || matches!(text.lower(i), "can't" | "cannot" | "mustn't")) && matches!(text.lower(i + 1), "be" | "go")
    });
    is_nobody || is_nothing || is_closed || is_forbidden
}

/// Days ahead from which a day that is told in the past tense is last year's.
const PAST_DAYS_MIN: i32 = 180;

/// `it stopped after 10 November`, told on 25 November.
pub(super) fn is_past(text: &Text, at: usize, next: usize, span: &DateSpan, today: Date) -> bool {
    if let DateSpan::Days(first, last) = span {
        return first.until(*last).is_ok_and(|length| length.get_days() < 7) && is_over_the_last(text, at);
    }
    let DateSpan::Day(day) = span else { return false };
    // `the rules changed on 1 January`
    let verb = text.before(at, 2);
    let is_passive =
        ["be", "is", "are", "being", "get", "to", "and", "will", ",", "it", "them"].contains(&text.before(at, 3));
    if text.before(at, 1) == "on" && is_past_tense(verb) && !is_passive {
        return true;
    }
    if fails_after(text, next) {
        return true;
    }
    let is_far = today.until(*day).is_ok_and(|length| length.get_days() > PAST_DAYS_MIN);
    let has_year = text.before(next, 1).len() == 4;
    is_far && !has_year && is_told(text, at)
}

/// `on Tuesday between 14:00 and 15:30 nobody could log in`: what went wrong on the day.
fn fails_after(text: &Text, next: usize) -> bool {
    let mut clause = (next..(next + FAULT_WORDS_MAX).min(text.words.len())).take_while(|i| !text.ends_sentence(*i));
    let is_fault = |i: usize| {
        let state = text.lower(i + 1);
        match text.lower(i) {
            "nobody" => state == "could",
            "was" | "were" | "went" => matches!(state, "down" | "offline" | "unavailable" | "wrong"),
            word => matches!(word, "crashed" | "failed"),
        }
    };
    clause.any(is_fault)
}

/// Words between a day and what went wrong on it, at most.
const FAULT_WORDS_MAX: usize = 14;

/// `it broke down over the weekend`, `during the week we were offline`: the one before.
pub(super) fn is_over_the_last(text: &Text, at: usize) -> bool {
    let back = 1 + usize::from(text.before(at, 1) == "the");
    matches!(text.before(at, back), "over" | "during") && is_told(text, at)
}

/// Whether the clause before a date tells what happened.
fn is_told(text: &Text, at: usize) -> bool {
    text.clause_before(at, 8).any(|i| {
        let word = text.lower(i);
        let is_past = [
            "was", "were", "came", "went", "bought", "broke", "began", "sent", "fell", "got", "had", "lost", "stopped",
        ];
        is_past_tense(word) || is_past.contains(&word)
    })
}

fn is_past_tense(word: &str) -> bool {
    word.len() > 4 && word.ends_with("ed") && !is_due(word) && !PLANNED.contains(&word)
}

/// Participles of what is still to come.
const PLANNED: &[&str] = &[
    "planned", "scheduled", "booked", "expected", "postponed", "needed", "wanted", "required", "moved", "extended",
    "limited", "invited", "based", "embargoed", "closed", "shared",
];

/// What bears the date of its making.
const RECORDS: &[&str] = &[
    "minutes", "notes", "letter", "letters", "mail", "mails", "email", "emails", "message", "messages", "invoice",
    "invoices", "bill", "bills", "receipt", "receipts", "report", "reports", "statement", "statements", "log", "logs",
    "figures", "numbers", "data", "photos", "pictures", "recording", "recordings", "transcript", "transcripts",
    "draft", "complaint", "complaints", "article", "articles", "file", "files", "backup", "decision", "decisions",
    "cash", "sales", "claims", "transactions", "expenses", "timesheets", "payslips",
];

/// What the words before and after the date say about it.
pub(super) fn role(text: &Text, at: usize, next: usize) -> DateRole {
    let inclusive = DateRole::Deadline { is_exclusive: false };
    let after = (text.lower(next), text.lower(next + 1), text.lower(next + 2));
    if matches!(after, ("at", "the", "latest") | ("latest" | "deadline", _, _) | ("at", "latest", _))
        || matches!(after, ("or", "earlier" | "sooner" | "before", _))
    {
        return inclusive;
    }
    let is_today = text.lower(at) == "today" && next == at + 1;
    // `before the end of March`: its last day is in time.
    let is_end = ["end", "close", "eod", "cob", "eow", "eom", "eoy", "year", "month", "week", "quarter"]
        .contains(&text.lower(at));
    let at = skip_modifiers(text, at);
    let (word, second, third) = (text.before(at, 1), text.before(at, 2), text.before(at, 3));
    match word {
        "by" => inclusive,
        "before" if second == "or" => inclusive,
        "before" if second != "not" && is_end => inclusive,
        "before" if second != "not" => DateRole::Deadline { is_exclusive: true },
        "to" if second == "prior" => DateRole::Deadline { is_exclusive: true },
        "of" if second == "ahead" => DateRole::Deadline { is_exclusive: true },
        "until" | "till" | "til" if second.starts_with("embargo") => DateRole::Plain,
        "until" | "till" | "til" if second != "not" => DateRole::Until,
        "than" if second == "later" => inclusive,
        "in" if before_event(text, at) == Some("before") => DateRole::Deadline { is_exclusive: true },
        "on" if before_event(text, at) == Some("before") => DateRole::Deadline { is_exclusive: true },
        "on" if before_event(text, at).is_some() => inclusive,
        "due" | "deadline" | "latest" => inclusive,
        "on" | "is" | ":" | "for" | "of" | "at" | "=" | "," | "in" | "(" if is_due(second) => inclusive,
        "is" if text.clause_before(at, 6).any(|i| text.lower(i) == "deadline") => inclusive,
        "date" if is_due(second) => inclusive,
        ":" | "is" | "of" | "=" if second == "date" && is_due(third) => inclusive,
        ":" | "is" | "on" if second == "in" && matches!(third, "hand" | "handed" | "turned" | "-") => inclusive,
        "from" | "starting" | "as" | "of" | "since" | "beginning" => DateRole::Plain,
        // What is to be done today is not to be done later.
        _ if is_today || is_wanted(text, at) => inclusive,
        _ => DateRole::Plain,
    }
}

/// `I need it on Friday`, `have it on my desk tomorrow`: by then it is to be there.
fn is_wanted(text: &Text, at: usize) -> bool {
    text.clause_before(at, 6).any(|i| {
        let is_thing = ["it", "this", "them", "these", "everything"].contains(&text.lower(i + 1));
        matches!(text.lower(i), "need" | "want" | "have") && is_thing && text.lower(i + 2) != "to"
    })
}

/// `before the rollout on 3 May`: the word that makes the day of an event a deadline.
fn before_event<'t>(text: &'t Text, at: usize) -> Option<&'t str> {
    let is_own = |i: usize| matches!(text.lower(i + 1), "my" | "our" | "the" | "her" | "his" | "their");
    text.clause_before(at, 8).find_map(|i| match text.lower(i) {
        "before" => Some("before"),
        "until" => Some("until"),
        // `by my wedding on 3 July`
        "by" if is_own(i) => Some("by"),
        _ => None,
    })
}

/// `deadline`, and words for work that is done at its end: `ready on Monday`.
pub(super) fn is_due(word: &str) -> bool {
    [
        "deadline", "due", "ready", "finished", "completed", "done", "delivered", "submitted", "deliver", "delivery",
        "submit", "finish", "complete", "submission", "closing", "expires", "closes", "close", "expire", "ends",
    ]
    .contains(&word)
}

/// Steps over what stands between a date and the word that gives its role: `by 5 pm on Friday`, `until the next Monday`.
fn skip_modifiers(text: &Text, mut at: usize) -> usize {
    loop {
        let before = text.before(at, 1);
        let second = text.before(at, 2);
        at = match before {
            "the" | "this" | "next" | "coming" | "upcoming" | "following" | "early" | "late" | "mid" => at - 1,
            "-" if second == "mid" => at - 1,
            "on" | "," | "of" if relative::is_time_of_day(text, at.saturating_sub(2)) => at - 1,
            _ if at > 0 && relative::weekday_at(text, at - 1).is_some() => at - 1,
            "," if at > 1 && relative::weekday_at(text, at - 2).is_some() => at - 1,
            "pm" | "am" | "noon" | "midnight" => at - 1,
            _ if at > 0 && relative::is_time_of_day(text, at - 1) => at - 1,
            ":" if at > 1 && relative::is_time_of_day(text, at - 2) => at - 1,
            _ => return at,
        };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn deadlines_are_read_as_people_write_them() {
        super::super::phrases::check(DEADLINES, |facts| {
            let exclusive = if facts.deadline_is_exclusive { "<" } else { "" };
            let time = facts.deadline_time.iter().map(|time| format!(" {time}")).collect::<String>();
            facts.deadline.map(|day| format!("{exclusive}{day}{time}")).unwrap_or_default()
        });
    }

    const DEADLINES: &[(&str, &str)] = &[
        ("Apply for the course, closing date is 1 February", "2027-02-01"),
        ("Count the stock before New Year", "<2027-01-01"),
        ("The parcel should not be delivered before 3 May, tell them", ""),
        ("Nothing should be ordered before 3 May", ""),
        ("The parcel should be delivered before 3 May", "<2027-05-03"),
        ("Book a table with a cake for my mum's birthday on 9 December", ""),
        ("Make me a study plan for my chemistry exam on 18 January", "2027-01-18"),
        ("Help me revise for the driving test on 12 March", "2027-03-12"),
        ("My son has a maths exam in three weeks, make him a study plan", "2026-12-17"),
        ("Find a present for my dad's 70th birthday on 9 December", "2026-12-09"),
        ("Write a speech for my sister's wedding on 3 July", "2027-07-03"),
        ("My exam is on 3 May, make flashcards", "2027-05-03"),
        ("A training plan for my first marathon on 18 April", "2027-04-18"),
        ("Get me ready for a job interview on 14 December", "2026-12-14"),
        ("Find a caterer for our wedding on 3 July", ""),
        ("Plan my dad's birthday on 9 December", ""),
        ("Organise the exam on 18 January", ""),
        ("Send me the draft by Monday", "2026-11-30"),
        ("The form has to be in by 3 December", "2026-12-03"),
        ("I sign tomorrow at 2 pm so I need it by noon", "2026-11-27 12:00"),
        ("Summarise the contract, I need it by noon", "2026-11-26"),
        ("Get it done before year end", "2026-12-31"),
        ("Deliver the chairs before the end of March", "2027-03-31"),
        ("Finish the audit before end of February", "2027-02-28"),
        ("It's for the fair on 12 January and we need the slides two days before", "2027-01-10"),
        ("The workshop is on 5 February; invitations should go out three weeks before", "2027-01-15"),
        ("It must run from 1 to 14 March and be ready a week before it starts", "2027-02-22"),
        ("The wedding is on 5 June; have the cards ready a month in advance", "2027-05-05"),
        ("Have the slides done the day before the meeting on 9 December", "2026-12-08"),
        ("Send the cake order two weeks before 20 December", "2026-12-06"),
        ("Finish the translation no later than 15 January", "2027-01-15"),
        ("Apply for the grant. Application closes on 20 December", "2026-12-20"),
        ("Have it on my desk tomorrow morning", "2026-11-27"),
        ("Write the press release. Due: Friday", "2026-11-27"),
        ("Hand in the essay by next Tuesday", "2026-12-01"),
        ("It must be online by the end of the week", "2026-11-27"),
        ("The sledge must be ready for Christmas", "2026-12-25"),
        ("Please reply within 48 hours", "2026-11-28"),
        ("We have until 10 December", "2026-12-10"),
        ("Order the parts, latest by 6 Jan", "2027-01-06"),
        ("Do it ASAP, but in any case before 1 December", "<2026-12-01"),
        ("The tax return is due on 31 January", "2027-01-31"),
        ("Get my papers together, they're due 31 Jan", "2027-01-31"),
        ("The reply should go out today", "2026-11-26"),
        ("Deploy it by EOD Friday", "2026-11-27"),
        ("The deadline for entries is 28 February", "2027-02-28"),
        ("The offer expires on 1 December", "2026-12-01"),
        ("Paint the room before month end", "2026-11-30"),
        ("Celebrate our 10th anniversary on 3 May", ""),
        ("Start on Monday", ""),
        ("Since Monday the printer has been broken", ""),
        ("Write about what happened before 1945", ""),
        ("Our shop is closed until 5 January, put up a sign", ""),
        ("Summarise the minutes from 3 November", ""),
        ("Last Friday's order was wrong, call them", ""),
        ("Remind me two days before the exam on 9 December", ""),
        ("Find a hotel two streets before the station", ""),
        ("Move it before it rains", ""),
        ("Read the chapter before the one on bees", ""),
        ("Lose 8 kg by my wedding on July 3rd", "2027-07-03"),
        ("Renew our passports before the trip to Canada on 20 February", "<2027-02-20"),
        ("Install it before the car arrives in the second week of January", "<2027-01-08"),
        ("Start on 10 January and finish within 5 days", "2027-01-15"),
        ("Get it translated, latest 15.12., please", "2026-12-15"),
        ("Reply to him that we can't deliver before February", ""),
        ("Book the room every Wednesday until the end of June", ""),
    ];
}
