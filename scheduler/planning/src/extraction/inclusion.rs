//! Extracts what a goal asks to be there: `a vegan option is a must`, `include a shopping list`, `we keep the tiles`.

use super::manner::{manner_at, must_be};
use super::words::{Text, Use, WordKind};

/// Longest inclusion, in words.
const WORDS_MAX: usize = 14;
/// Most inclusions of one goal.
const INCLUSIONS_MAX: usize = 20;

/// What is asked for: the words from `first` to before `end`.
struct AskedSpan {
    first: usize,
    end: usize,
    /// Whether the words are a list of several things.
    is_list: bool,
}

/// Everything that has to be there, in the order of the text. Other constraints are read before and end a phrase.
///
/// - `request`: the index of the main request, which is no condition on itself.
/// - `has_subtasks`: whether the requests after the first are sub-tasks.
pub(super) fn read(text: &Text, request: usize, has_subtasks: bool) -> Vec<String> {
    let mut found: Vec<String> = wanted(text, request);
    let qualities = found.clone();
    let mut at = 0;
    while at < text.words.len() && found.len() < INCLUSIONS_MAX {
        let asked = (!text.is_constraint(at) && !text.is_quoted(at))
            .then(|| asked_at(text, at, request, has_subtasks))
            .flatten();
        let Some(AskedSpan { first, end, is_list }) = asked.filter(|asked| asked.end > asked.first) else {
            at += 1;
            continue;
        };
        for part in if is_list { parts(text, first, end) } else { vec![text.between(first, end).to_owned()] } {
            // `a short, bilingual guide` was read.
            let is_held = qualities.iter().any(|quality| part.starts_with(quality.as_str()));
            if !part.is_empty() && !is_held && !found.contains(&part) {
                found.push(part);
            }
        }
        text.note(first.min(at), end, Use::Constraint);
        at = end.max(at + 1);
    }
    for part in &mut found {
        if ATTRIBUTES.contains(&part.to_lowercase().as_str()) {
            *part = part.to_lowercase();
        }
        // `Only studies since 2018`
        let only = ["Only ", "Just ", "just "].iter().find_map(|lead| part.strip_prefix(lead));
        if let Some(rest) = only {
            *part = format!("only {rest}");
        }
    }
    found
}

fn asked_at(text: &Text, at: usize, request: usize, has_subtasks: bool) -> Option<AskedSpan> {
    let list =
        |first: usize| Some(AskedSpan { first: skip_articles(text, first), end: list_end(text, first), is_list: true });
    let span = |(first, end)| AskedSpan { first, end, is_list: false };
    manner_at(text, at, |first| phrase_end(text, first))
        .map(span)
        .or_else(|| told(text, at))
        .or_else(|| needed(text, at).and_then(list))
        .or_else(|| added(text, at, request, has_subtasks).and_then(list))
        .or_else(|| beside(text, at).and_then(list))
        .or_else(|| kept(text, at, request))
        .or_else(|| only(text, at))
        .or_else(|| by_rule(text, at))
        .or_else(|| attribute(text, at))
        .or_else(|| described(text, at).and_then(list))
        .or_else(|| tone(text, at))
}

/// `create an anonymous survey`: how the thing is to be that the main request asks for.
fn wanted(text: &Text, request: usize) -> Vec<String> {
    let article = (request + 1..request + 3).find(|i| matches!(text.lower(*i), "a" | "an"));
    let Some(article) = article.filter(|_| MAKES.contains(&text.lower(request)) && !text.is_quoted(request)) else {
        return Vec::new();
    };
    let is_inside = |i: &usize| text.get(*i).is_some_and(|word| word.kind == WordKind::Letters || word.lower == ",");
    let words = (article + 1..article + 5).take_while(is_inside);
    let qualities = words.filter(|i| WANTED.contains(&text.lower(*i)));
    // The thing itself stands behind.
    qualities.filter(|i| is_inside(&(i + 1))).map(|i| text.lower(i).to_owned()).collect()
}

/// Verbs that ask for a thing which is not there yet.
const MAKES: &[&str] = &[
    "create", "make", "write", "plan", "design", "draft", "find", "prepare", "build", "set", "organise", "organize",
    "develop", "buy", "book", "cook", "get", "recommend", "suggest", "run", "conduct", "order", "produce", "give",
    "host", "arrange", "put", "rent",
];

const WANTED: &[&str] = &[
    "anonymous", "vegetarian", "vegan", "halal", "kosher", "furnished", "unfurnished", "waterproof", "bilingual",
    "handmade", "secondhand",
];

/// `something that's easy to look after and good for bees`: the index of what it is to be.
fn described(text: &Text, at: usize) -> Option<usize> {
    let is_short = text.lower(at) == "that" && text.words[at].text.contains(['\'', '’']);
    let first = match (text.lower(at), text.lower(at + 1)) {
        _ if is_short => at + 1,
        ("that" | "which", "is" | "are") => at + 2,
        _ => return None,
    };
    let is_open = matches!(text.before(at, 1), "something" | "anything" | "somewhere" | "one");
    let word = text.lower(first);
    let is_fault = ["not", "no", "wrong", "broken", "missing", "going", "been", "off", "called", "known", "in", "on"]
        .contains(&word);
    let is_told = text.clause_before(at, 5).any(|i| {
        ["is", "there", "was", "has", "about", "do", "did", "found", "see", "saw", "if", "fix"].contains(&text.lower(i))
    });
    (is_open && !is_fault && !is_told && !word.ends_with("ing")).then_some(first)
}

/// `in a friendly tone`, `…, warm and personal tone`: how it is to sound.
fn tone(text: &Text, at: usize) -> Option<AskedSpan> {
    let mut first = at;
    while TONES.contains(&text.before(first, 1))
        || first < at && matches!(text.before(first, 1), "and" | "but") && TONES.contains(&text.before(first, 2))
    {
        first -= 1;
    }
    let is_led =
        ["a", "an", "in", "with", ",", "use", "the", ".", "keep"].contains(&text.before(first, 1)) || first == 0;
    // `in plain language`
    let is_wording =
        matches!(text.lower(at), "language" | "words" | "terms" | "english") && text.before(first, 1) == "in";
    ((matches!(text.lower(at), "tone" | "voice" | "style") || is_wording) && first < at && is_led)
        .then_some(AskedSpan { first, end: at + 1, is_list: false })
}

const TONES: &[&str] = &[
    "friendly", "formal", "informal", "warm", "polite", "casual", "professional", "neutral", "light", "serious",
    "humorous", "funny", "playful", "calm", "firm", "respectful", "personal", "encouraging", "upbeat", "positive",
    "conversational", "relaxed", "reassuring", "simple", "clear", "plain",
];

/// `a walk-in shower is a must`, `breakfast included`: the thing stands before.
fn told(text: &Text, at: usize) -> Option<AskedSpan> {
    let words = (text.lower(at), text.lower(at + 1), text.lower(at + 2));
    let is_weak = matches!(words, ("is" | "are", "important" | "vital" | "crucial", _));
    let is_told = match words {
        ("is" | "are", "a", "must" | "requirement") => true,
        // `cocktails a must`
        ("a", "must", _) => text.get(at + 2).is_none_or(|next| next.kind == WordKind::Sign),
        ("is" | "are", "essential" | "required" | "mandatory" | "compulsory" | "obligatory", _) => true,
        ("is" | "are", "non", "-") => text.lower(at + 3).starts_with("negotiable"),
        ("included", _, _) => text.get(at + 1).is_none_or(|next| next.kind == WordKind::Sign),
        _ => is_weak,
    };
    // `the old stove stays`
    let is_there = words.1 == "where" && matches!(words.2, "it" | "they");
    let stays = matches!(words.0, "stay" | "stays")
        && (is_there || text.get(at + 1).is_none_or(|next| next.kind == WordKind::Sign));
    if stays && text.before(at, 1) != "must" {
        return text.subject_before(at).map(|first| AskedSpan { first, end: at + 1, is_list: false });
    }
    // `Lake Bled and Piran have to be in it`
    let is_inside = |i: usize| matches!(text.lower(i), "in" | "on") && matches!(text.lower(i + 1), "it" | "there");
    if must_be(text, at).is_some_and(is_inside) {
        let mut first = text.subject_before(at)?;
        while text.before(first, 1) == "and" && first > 1 && text.is_capital(first - 2) {
            first = text.clause_before(first - 1, 4).take_while(|i| text.is_capital(*i)).last()?;
        }
        return Some(AskedSpan { first, end: at, is_list: false });
    }
    let first = text.subject_before(at).filter(|_| is_told)?;
    // `lunch must be included`
    if words.0 == "included" && text.before(at, 1) == "be" {
        let end =
            (first..at).find(|i| ["must", "should", "has", "have", "needs", "need", "to"].contains(&text.lower(*i)));
        return end.filter(|end| *end > first).map(|end| AskedSpan { first, end, is_list: false });
    }
    let has_article = matches!(text.before(first, 1), "a" | "an");
    (!is_weak || has_article).then_some(AskedSpan { first, end: at, is_list: false })
}

/// `there has to be`, `make sure there is`, `it must have`, `has to be dog-friendly`: the index of what is needed.
fn needed(text: &Text, at: usize) -> Option<usize> {
    let verb = match (text.lower(at), text.lower(at + 1)) {
        ("must" | "should" | "shall", _) => at + 1,
        ("has" | "have" | "needs" | "need", "to") => at + 2,
        ("sure" | "ensure", _) => {
            let there = at + 1 + usize::from(text.lower(at + 1) == "that");
            let is_there = text.lower(there) == "there" && matches!(text.lower(there + 1), "is" | "are");
            return is_there.then_some(there + 2).or_else(|| {
                // `make sure there's wifi`
                (text.lower(there) == "there" && text.words[there].text.contains(['\'', '’'])).then_some(there + 1)
            });
        }
        _ => return None,
    };
    let subject = text.before(at, 1);
    if matches!(subject, "that" | "which" | "who") {
        return None;
    }
    let is_there = subject == "there" || subject == "also" && text.before(at, 2) == "there";
    let first = verb + 1 + usize::from(text.lower(verb + 1) == "also");
    let fits = match text.lower(verb) {
        "be" if is_there => !(at..first + 3).any(|i| MISTAKES.contains(&text.lower(i))),
        "be" => is_attribute(text, first) && !is_person_pronoun(subject),
        "have" | "include" | "contain" | "offer" | "support" | "provide" | "cover" | "feature" | "mention" => {
            let is_past = matches!(text.lower(first), "been" | "lost" | "done" | "gone" | "had" | "made")
                || text.lower(first).ends_with("ed");
            !is_past && !is_person_pronoun(subject)
        }
        "come" if text.lower(first) == "with" => return (!is_person_pronoun(subject)).then_some(first + 1),
        "sound" | "feel" | "look" if TONES.contains(&text.lower(first)) => true,
        "work" if subject == "it" => return Some(verb),
        _ => false,
    };
    fits.then_some(first)
}

const MISTAKES: &[&str] =
    &["mistake", "error", "way", "reason", "problem", "something", "explanation", "bug", "misunderstanding", "better"];

fn is_person_pronoun(word: &str) -> bool {
    ["i", "you", "he", "she", "we"].contains(&word)
}

/// `include a list`, `and add a test`, `please attach the receipts`, `don't forget the cake`: the index of what is added.
fn added(text: &Text, at: usize, request: usize, has_subtasks: bool) -> Option<usize> {
    let is_second = at > request && !has_subtasks && is_asked(text, at);
    match text.lower(at) {
        "include" if is_asked(text, at) && at != request => Some(at + 1),
        "including" if at > 0 && !text.is_constraint(at - 1) => Some(at + 1),
        "add" | "attach" | "append" | "enclose" | "mention" if is_second => Some(at + 1),
        // `we need a permit, first aid and sponsors`
        "need" | "needs" if at > request + 1 && matches!(text.before(at, 1), "we" | "it" | "we'll") => {
            let is_help = matches!(text.lower(at + 2), "hand" | "break" | "lot" | "few" | "couple" | "new");
            (matches!(text.lower(at + 1), "a" | "an") && !is_help).then_some(at + 1)
        }
        "forget" if matches!(text.before(at, 1), "don't" | "dont" | "not") => {
            Some(at + 1 + usize::from(text.lower(at + 1) == "to"))
        }
        _ => None,
    }
}

/// Whether a verb here asks for something.
fn is_asked(text: &Text, at: usize) -> bool {
    text.begins_clause(at) || ["please", "also", "should", "must", "to", "then"].contains(&text.before(at, 1))
}

/// `with a buddy`, `with captions and an index`, `plus a glossary`: the index of what goes with what is made.
fn beside(text: &Text, at: usize) -> Option<usize> {
    let next = text.lower(at + 1);
    let follows_comma = text.before(at, 1) == ",";
    let is_document = |word: &str| DOCUMENTS.contains(&word) || LISTED_IN.contains(&word);
    // `…, with the dates, the concert and the new menu`
    let lists_known = (follows_comma || is_document(text.before(at, 1))) && next == "the";
    let is_one = next == "one" && !matches!(text.lower(at + 2), "of" | "or" | "another" | "stop" | "change" | "hand");
    let has_article = matches!(next, "a" | "an" | "some") || is_one;
    match text.lower(at) {
        "plus" if has_article => return Some(at + 1),
        "as" if next == "well" && text.lower(at + 2) == "as" && matches!(text.lower(at + 3), "a" | "an") => {
            return Some(at + 3);
        }
        "with" => {}
        _ => return None,
    }
    let first = if has_article || lists_known { at + 2 } else { at + 1 };
    let thing = text.get(first).filter(|word| word.kind == WordKind::Letters && text.number(first).is_none())?;
    let is_plural = thing.lower.len() > 3 && thing.lower.ends_with('s') && !thing.lower.ends_with("ss");
    let is_named = has_article || follows_comma && is_plural && !text.is_capital(first);
    let is_other = |word: &str| NO_THINGS.contains(&word) || super::people::is_person(word);
    let end = phrase_end(text, first);
    let is_plural = is_plural || end > first && text.before(end, 1).len() > 3 && text.before(end, 1).ends_with('s');
    let is_named = is_named || follows_comma && is_plural && !text.is_capital(first);
    let follows_document = is_document(text.before(at, 1)) && is_plural && !text.is_capital(first);
    let is_somebody = ["him", "her", "me", "us", "them", "you", "friends", "my", "our"].contains(&thing.lower.as_str());
    // `build a website for my salon with prices, opening hours and a booking form`
    let lists_three = text.lower(end) == ","
        && is_plural
        && text
            .clause_before(at, 14)
            .any(|i| ["build", "make", "create", "design", "write", "like", "want", "need"].contains(&text.lower(i)));
    let is_listed = (lists_known || lists_three || LISTED_IN.contains(&text.before(at, 1)))
        && !is_somebody
        && !text.is_capital(first)
        && (first..list_end(text, first)).any(|i| text.lower(i) == "and");
    let is_named = is_named || follows_document || is_listed;
    if SERVICES.contains(&thing.lower.as_str()) && !text.is_constraint(first) && goes_with(text, at) {
        return Some(first);
    }
    let is_cut = text.is_constraint(end)
        && !["by", "before", "in", "as", "for", "at", "on", "under", "until", "within", "max", "from", "no", "instead"]
            .contains(&text.lower(end));
    let has_number = (first..end).any(|i| matches!(text.words[i].kind, WordKind::Number(_)));
    if is_cut || has_number {
        return None;
    }
    let has_other = (first..end).take(3).any(|i| is_other(text.lower(i)) || text.is_constraint(i));
    let tells = text.clause_before(at, 12).any(|i| {
        let word = text.lower(i);
        JOINS.contains(&word)
            || matches!(
                word,
                "i'm" | "am" | "i" | "who" | "has" | "have" | "had" | "customer" | "customers" | "is" | "are" | "was"
            )
    });
    (is_named && !has_other && !tells && end > first).then_some(at + 1)
}

/// Whether what stands before `with lunch` is what the lunch belongs to: not so in `problems with delivery`.
fn goes_with(text: &Text, at: usize) -> bool {
    let is_other = [
        "problem", "problems", "trouble", "help", "issue", "issues", "wrong", "start", "begin", "deal", "complaint",
        "complaints", "compare", "replace", "fill", "late", "done", "busy", "experience", "happy", "delay", "delays",
    ]
    .contains(&text.before(at, 1));
    let tells = text.clause_before(at, 12).any(|i| {
        ["who", "has", "have", "had", "is", "are", "was", "were", "i", "comes", "came", "customer"]
            .contains(&text.lower(i))
    });
    !is_other && !tells
}

/// What a stay, an event or a purchase comes with.
const SERVICES: &[&str] = &[
    "lunch", "dinner", "breakfast", "drinks", "snacks", "coffee", "catering", "parking", "wifi", "childcare",
    "delivery", "installation", "subtitles", "captions", "insurance", "refreshments", "cake", "transfers", "luggage",
];

/// Documents in which things are listed: `a table with price and weight`.
const LISTED_IN: &[&str] = &[
    "spreadsheet", "table", "report", "summary", "dashboard", "list", "overview", "template", "form", "chart", "excel",
];

const DOCUMENTS: &[&str] = &[
    "report", "summary", "guide", "presentation", "letter", "post", "article", "manual", "website", "page",
    "dashboard", "template", "form", "spreadsheet", "app", "video", "plan", "map", "calendar", "card", "lecture",
    "flyer", "brochure", "book", "deck", "slides", "pdf", "handbook", "handout", "document", "table", "newsletter",
    "recipe", "poster",
];

/// What is no part of a thing: people, problems, manners.
const NO_THINGS: &[&str] = &[
    "client", "customer", "friend", "colleague", "supplier", "doctor", "lawyer", "wife", "husband", "partner",
    "family", "complaint", "problem", "question", "income", "salary", "pros", "allergy", "allergies", "intolerance",
    "injury", "disability", "condition", "issue", "view", "budget", "focus", "total", "maximum", "minimum", "limit",
    "lot", "few", "couple", "bit", "number", "deadline", "team", "group", "company", "child", "baby", "dog", "cat",
    "each", "others", "emphasis", "regards", "thanks", "knee", "person", "people",
];

/// Verbs and nouns that `with` belongs to: `a meeting with`, `replace it with`.
const JOINS: &[&str] = &[
    "meeting", "call", "interview", "talk", "contract", "deal", "agreement", "appointment", "lunch", "dinner", "help",
    "conversation", "discussion", "partnership", "trouble", "problem", "problems", "dealing", "start", "begin",
    "agree", "speak", "meet", "connect", "integrate", "sync", "compare", "replace", "fill", "along", "together",
    "continue", "share", "swap", "combine", "merge", "work", "cover", "negotiate", "check", "start", "starting",
    "begins", "joins", "deals", "helps", "issue", "exchange", "play", "chat", "argue", "argument", "dispute",
    "comparison", "someone", "somebody", "people", "man", "woman", "child", "familiar", "happy", "wrong", "done",
    "one", "guest", "guests",
];

/// `keep the Markdown formatting`, `we're keeping the existing tiles`: with its verb.
fn kept(text: &Text, at: usize, request: usize) -> Option<AskedSpan> {
    let is_verb = match text.lower(at) {
        "keep" => at != request && (is_asked(text, at) || text.before(at, 1) == "we"),
        "keeping" => at > 0,
        _ => false,
    };
    let points = ["the", "our", "my", "all", "every", "existing", "original", "both", "these", "those"]
        .contains(&text.lower(at + 1));
    let is_bare = text.lower(at) == "keep"
        && text.begins_clause(at)
        && text.get(at + 1).is_some_and(|word| word.kind == WordKind::Letters && word.lower.len() >= 3)
        && ![
            "the", "you", "him", "her", "calm", "going", "quiet", "track", "them", "this", "that", "mind", "short",
            "simple", "clear",
        ]
        .contains(&text.lower(at + 1));
    let points = points || is_bare;
    let end = phrase_end(text, at + 1);
    let is_limited = text.is_constraint(end)
        || matches!(text.lower(end), "to" | "under" | "below" | "between" | "within" | "at")
        || (at..end).any(|i| matches!(text.lower(i), "to" | "under" | "below" | "out" | "away" | "within" | "at"));
    (is_verb && points && !is_limited && end > at + 2).then_some(AskedSpan { first: at, end, is_list: false })
}

/// `only peer-reviewed studies since 2018`, `metric units only`.
fn only(text: &Text, at: usize) -> Option<AskedSpan> {
    // `just comments on structure and argument`
    let is_plural = |word: &str| word.len() > 4 && word.ends_with('s') && !word.ends_with("ss") && !word.contains('\'');
    // `…, just piano`
    let is_bare = text.lower(at) == "just"
        && text.before(at, 1) == ","
        && text.get(at + 1).is_some_and(|word| word.kind == WordKind::Letters && word.lower.len() > 3)
        && text.get(at + 2).is_none_or(|next| next.kind == WordKind::Sign);
    if text.lower(at) == "just" && text.begins_clause(at) && (is_plural(text.lower(at + 1)) || is_bare) {
        let end = phrase_end(text, at + 1);
        return Some(AskedSpan { first: at, end, is_list: false });
    }
    if text.lower(at) == "only" && (text.begins_clause(at) || text.before(at, 1) == "use") {
        let is_other =
            ["if", "when", "after", "then", "because", "one", "once", "i", "we", "you", "the", "on", "in", "by"]
                .contains(&text.lower(at + 1));
        let end = phrase_end(text, at + 1);
        let is_told =
            (at + 1..end).any(|i| matches!(text.lower(i), "is" | "are" | "has" | "have" | "can" | "was" | "knows"));
        return (!is_other && !is_told && !text.is_imperative(at + 1)).then_some(AskedSpan {
            first: at,
            end,
            is_list: false,
        });
    }
    let starts = at > 0 && (text.begins_clause(at) && text.before(at, 1) != "and");
    let end = (at + 1..at + 8).find(|i| ends_clause(text, *i))?;
    let is_read = (at..end).any(|i| text.is_constraint(i));
    let has_verb = text.is_imperative(at) || (at..end).any(|i| matches!(text.lower(i), "is" | "are" | "was" | "for"));
    (starts && text.before(end, 1) == "only" && end > at + 1 && !is_read && !has_verb).then_some(AskedSpan {
        first: at,
        end,
        is_list: false,
    })
}

/// `against WCAG 2.2 AA`, `according to the Harvard rules`: a rule that has a name.
fn by_rule(text: &Text, at: usize) -> Option<AskedSpan> {
    let first = match (text.lower(at), text.lower(at + 1), text.lower(at + 2)) {
        ("according", "to", _) | ("compliant", "with", _) => at + 2,
        ("in", "line" | "accordance" | "compliance", "with") => at + 3,
        ("against", ..) => at + 1,
        _ => return None,
    };
    let checks = text.lower(at) != "against"
        || text
            .clause_before(at, 12)
            .any(|i| ["audit", "check", "test", "review", "validate", "assess"].contains(&text.lower(i)));
    let end = phrase_end(text, first);
    let has_name = (first..end).any(|i| text.is_capital(i));
    (checks && has_name).then_some(AskedSpan { first: at, end, is_list: false })
}

/// `…, anonymous, …`: a word of its own that says how the result is to be.
fn attribute(text: &Text, at: usize) -> Option<AskedSpan> {
    // `Vegetarian, nothing with nuts.`
    let is_sentence = at > 0 && text.ends_sentence(at - 1) && ends_clause(text, at + 1);
    // `Vegetarian dinners for next week`
    if at == 0 && WANTED.contains(&text.lower(0)) && text.get(1).is_some_and(|next| next.kind == WordKind::Letters) {
        return Some(AskedSpan { first: 0, end: 1, is_list: false });
    }
    let begins = at > 0 && matches!(text.before(at, 1), "," | ";") || is_sentence;
    let is_turned = |i: usize| text.lower(i) == "but" && TONES.contains(&text.lower(at));
    let end = (at + 1..at + 5).find(|i| ends_clause(text, *i) || is_turned(*i))?;
    // `keywords: soap, handmade, vegan`
    let is_listed = (1..=12)
        .map_while(|back| at.checked_sub(back))
        .take_while(|i| !text.ends_sentence(*i))
        .any(|i| text.lower(i) == ":" && !(i..at).any(|member| text.is_constraint(member)));
    let closes = matches!(text.lower(end), "" | "," | "." | ";" | "!" | ")" | "but");
    let is_attribute = is_attribute(text, at) && end <= at + 3
        || matches!(text.before(end, 1), "certified" | "compliant" | "accessible");
    (begins && closes && !is_listed && is_attribute).then_some(AskedSpan { first: at, end, is_list: false })
}

/// `vegan`, `dog-friendly`, `wheelchair accessible`, `refundable`.
fn is_attribute(text: &Text, at: usize) -> bool {
    let joined = text.lower(at + 1) == "-" && text.get(at + 2).is_some_and(|word| word.glued);
    let ends = |word: &str| {
        let is_able = word.len() > 7 && (word.ends_with("able") || word.ends_with("ible"));
        is_able && !matches!(word, "available" | "possible" | "responsible" | "reasonable" | "suitable")
    };
    let (first, second) = (text.lower(at), text.lower(at + 1));
    joined && matches!(text.lower(at + 2), "friendly" | "proof" | "accessible" | "resistant")
        || matches!(second, "compliant" | "accessible" | "certified")
        || ends(first)
        || ends(second)
        || ATTRIBUTES.contains(&first)
        || MOODS.contains(&first)
}

/// How a text is to be, in a word of its own.
const MOODS: &[&str] = &["funny", "serious", "humorous", "playful", "upbeat", "heartfelt", "witty"];

const ATTRIBUTES: &[&str] = &[
    "anonymous", "vegetarian", "vegan", "halal", "kosher", "organic", "waterproof", "furnished", "confidential",
    "formal", "informal", "bilingual", "encrypted", "petrol", "quiet", "diesel", "electric", "hybrid", "fireproof",
    "responsive", "secondhand", "handmade", "unfurnished",
];

fn ends_clause(text: &Text, at: usize) -> bool {
    text.get(at).is_none_or(|word| word.kind == WordKind::Sign && !(word.lower == "-" && word.glued))
}

fn skip_articles(text: &Text, mut at: usize) -> usize {
    while ["a", "an", "the", "some", "any", "also", "both", "at", "least", "one"].contains(&text.lower(at)) {
        at += 1;
    }
    at
}

/// Where the phrase ends: at a sign, a new line, another constraint, or another request.
fn phrase_end(text: &Text, first: usize) -> usize {
    let ends = |at: &usize| {
        let word = &text.words[*at];
        let is_inside = word.glued && text.get(at + 1).is_some_and(|next| next.glued);
        let is_sign =
            word.kind == WordKind::Sign && !is_inside && !matches!(word.lower.as_str(), "%" | "&" | "\"" | "$" | "€");
        let is_joint = matches!(word.lower.as_str(), "and" | "then" | "or");
        is_sign
            || matches!(word.lower.as_str(), "but" | "because" | "so" | "then" | "while" | "without" | "please")
            || is_joint
                && (VERBS.contains(&text.lower(at + 1))
                    || text.is_imperative(at + 1)
                    || text.is_constraint(at + 1)
                    || is_subject(text.lower(at + 1)))
            || *at > first && text.begins_line(*at)
            || text.is_constraint(*at)
    };
    let last = text.words.len().min(first + WORDS_MAX);
    (first.min(last)..last).find(ends).unwrap_or(last)
}

/// Verbs that go on with what is told: `it must support X and cost less`.
const VERBS: &[&str] = &[
    "cost", "costs", "be", "have", "has", "run", "runs", "take", "takes", "must", "should", "need", "fit", "is", "are",
];

fn is_subject(word: &str) -> bool {
    ["i", "we", "it", "they", "he", "she", "there", "we're", "they're", "i'm"].contains(&word)
}

/// As [`phrase_end`], on through a list: `a permit, first aid and sponsors`.
fn list_end(text: &Text, first: usize) -> usize {
    let mut end = phrase_end(text, first);
    while text.lower(end) == "," && end - first < WORDS_MAX {
        let is_request = text.is_imperative(end + 2)
            && ["it", "them", "me", "us", "the", "a", "an", "our", "all"].contains(&text.lower(end + 3));
        if text.lower(end + 1) == "and" && !is_request && !is_subject(text.lower(end + 2)) {
            return phrase_end(text, end + 2);
        }
        let next = phrase_end(text, end + 1);
        let begins_otherwise = [
            "no", "not", "with", "without", "but", "please", "and", "max", "maximum", "at", "by", "in", "as", "for",
            "nothing", "only",
        ]
        .contains(&text.lower(end + 1));
        let is_member = (1..=9).contains(&(next - end.min(next)).saturating_sub(1)) && !text.is_imperative(end + 1);
        let goes_on = text.lower(next) == "," || (end + 1..next).any(|i| text.lower(i) == "and");
        if begins_otherwise || !is_member || !goes_on {
            break;
        }
        end = next;
    }
    end
}

/// `captions and an index`: two things.
fn parts(text: &Text, first: usize, end: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut from = first;
    for at in first..=end {
        let has_comma = (first..end).any(|i| text.lower(i) == ",");
        let is_pair = text.lower(at + 1).len() <= 3 && matches!(text.lower(at + 1), "a" | "an" | "the");
        let is_described = matches!(text.before(first, 1), "that" | "is" | "are");
        let is_joint =
            text.lower(at) == "and" && (is_described || is_pair || has_comma || at - from == 1 && end - at == 2);
        if at == end || is_joint || text.lower(at) == "," {
            if at > from {
                parts.push(text.between(skip_articles(text, from).min(at), at).to_owned());
            }
            from = at + 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    #[test]
    fn inclusions_are_read_as_people_write_them() {
        super::super::phrases::check(&[PHRASES, NOT_ASKED_FOR].concat(), |facts| facts.inclusions.join(" | "));
    }

    const PHRASES: &[(&str, &str)] = &[
        (
            "Update the handbook with the new holiday rules, the remote work policy and the sick note process",
            "new holiday rules | remote work policy | sick note process",
        ),
        ("Write a wedding speech, about 5 minutes, funny but no stories about exes", "funny"),
        (
            "We'd like a website for our salon with prices, opening hours and a booking form",
            "prices | opening hours | booking form",
        ),
        ("Vegetarian dinners for next week, no mushrooms", "vegetarian"),
        ("Write our newsletter, about 300 words, and mention the wreath workshop", "wreath workshop"),
        ("Review the lease and point out anything risky in plain language", "plain language"),
        ("Make a meal plan for next week. Vegetarian, nothing with nuts.", "vegetarian"),
        ("Looking for a used car, petrol or hybrid, under 9,000 pounds", "petrol or hybrid"),
        (
            "Build a website for my salon with prices, opening hours and a booking form",
            "prices | opening hours | booking form",
        ),
        ("Give me a spreadsheet with the totals per month", "totals per month"),
        ("Plan the trip; Lake Bled and Piran have to be in it", "Lake Bled and Piran"),
        ("Move the office. The old safe stays where it is.", "old safe stays"),
        ("Translate our brochure, it has to sound friendly", "friendly"),
        ("Organise the concert, no orchestra, just piano", "only piano"),
        ("Show it as a slide deck with charts", "charts"),
        (
            "Write our newsletter, with the holiday dates, the Christmas concert and the new lunch menu",
            "holiday dates | Christmas concert | new lunch menu",
        ),
        ("Put it in a spreadsheet with price, noise and warranty", "price | noise | warranty"),
        ("Send me a table with weight and colour", "weight | colour"),
        ("Organise a workshop in the town hall with lunch and parking", "lunch | parking"),
        ("Find a hotel in Kiel with breakfast", "breakfast"),
        ("Plan a half-day workshop, with lunch at no more than €15 per person", "lunch at no more than €15 per person"),
        ("Create an anonymous staff survey", "anonymous"),
        ("Make a vegetarian meal plan for a week", "vegetarian"),
        ("Write a short, bilingual guide", "bilingual"),
        ("Find a furnished flat", "furnished"),
        (
            "Turn the garden into something that's easy to look after and good for bees",
            "easy to look after | good for bees",
        ),
        ("Find a gift, something that is small and cheap", "small | cheap"),
        ("Can you read my essay? Just comments on structure and argument", "only comments on structure and argument"),
        ("Write a letter to the parents, friendly tone", "friendly tone"),
        ("Answer them in a firm but polite tone", "firm but polite tone"),
        ("Organise a workshop. Lunch must be included.", "Lunch"),
        ("Redo the bathroom, a walk-in shower is a must", "walk-in shower"),
        ("Plan the party, there has to be a vegan option", "vegan option"),
        ("Write a dinner plan. Include a shopping list.", "shopping list"),
        ("Make an onboarding plan for her with a buddy", "buddy"),
        ("Redo the bath, we're keeping the existing tiles", "keeping the existing tiles"),
        ("Find a flat, it must have a balcony", "balcony"),
        ("I want a sales summary, with a chart per region", "chart per region"),
        ("Find a hotel, parking is essential", "parking"),
        ("Rent a hall and make sure there is wifi", "wifi"),
        ("Find an office, it needs to have air conditioning", "air conditioning"),
        ("Book a hotel, breakfast included", "breakfast"),
        ("Write a lesson on bees, including a quiz at the end", "quiz at the end"),
        ("Fix the export and add a test for it", "test for it"),
        ("Find out what helps. Only peer-reviewed studies since 2018", "only peer-reviewed studies since 2018"),
        ("Plan the buffet; vegetarian options are required", "vegetarian options"),
        ("Translate the recipes, metric units only", "metric units only"),
        ("Edit the video, with captions and an index", "captions | index"),
        ("Find a café, it must be wheelchair accessible", "wheelchair accessible"),
        ("Book a cottage, it has to be dog-friendly", "dog-friendly"),
        ("Survey our customers, at least 200 responses, anonymous", "anonymous"),
        ("Send the claim. Please attach the receipts.", "receipts"),
        ("Write it up; the report must contain a summary", "summary"),
        ("Write a manual plus a glossary", "glossary"),
        ("Buy a fridge, it should come with a warranty", "warranty"),
        ("Rework the app; support for dark mode is mandatory", "support for dark mode"),
        ("Check the site against WCAG 2.2 AA", "against WCAG 2.2 AA"),
        ("Translate it, keep the Markdown formatting", "keep the Markdown formatting"),
        ("Make a meal plan, vegetarian, under 120 euros", "vegetarian"),
        ("Find studies on sleep, with a bibliography in APA style", "bibliography in APA style"),
        ("Write the thesis according to the Harvard rules", "according to the Harvard rules"),
        ("Find me a gym. A sauna is non-negotiable.", "sauna"),
        ("Run a campaign: Instagram and flyers only", "Instagram and flyers only"),
        ("Organise a run; we need a permit, first aid and sponsors", "permit | first aid | sponsors"),
        ("Plan the hen do, cocktails a must", "cocktails"),
        ("Set up a newsletter, GDPR compliant", "GDPR compliant"),
        ("Clean the flat, eco-friendly products only", "eco-friendly products only"),
        ("Repaint it. The old stove stays.", "old stove stays"),
        ("Write the rules. They should cover fees, and water use.", "fees | water use"),
    ];

    const NOT_ASKED_FOR: &[(&str, &str)] = &[
        ("Make the list with him and her", ""),
        ("Review an anonymous letter", ""),
        ("Fix the problems with delivery", ""),
        ("There is something that's wrong with the app, fix it", ""),
        ("Write a list with Anna and Tom", ""),
        ("Find the customers who pay with insurance", ""),
        ("Write about the tone of the report", ""),
        ("Sell a furnished flat", ""),
        ("I'm 52 with a bad knee and want to run", ""),
        ("Prepare a meeting with a client", ""),
        ("Help me with a letter", ""),
        ("Answer a customer with a complaint", ""),
        ("Deal with a leak", ""),
        ("Replace the bath with a shower", ""),
        ("Our shop includes a café, advertise it", ""),
        ("I must have lost it, help me look", ""),
        ("It needs to be done by Friday", ""),
        ("Write it and keep it short", ""),
        ("Keep it under 5 pages", ""),
        ("There must be a mistake in the bill", ""),
        ("A trip with 2000 euros", ""),
        ("A trip with my wife", ""),
        ("We have to move", ""),
        ("Add a dark mode to our app", ""),
        ("Start with a draft", ""),
        ("It is the only shop in town, write about it", ""),
        ("A launch with a marketing budget of 20k USD", ""),
        ("A budget with an income of 4,200 euros a month", ""),
        ("Only Anna has the key", ""),
        ("Keywords: soap, handmade, vegan", ""),
        ("Our house has a garden with an apple tree", ""),
        ("Debug the script that should have run", ""),
    ];
}
