//! Extracts the topic of a text and the data that it names.

use super::words::{Text, Use, WordKind};

/// Longest topic, in characters.
const TOPIC_CHARS_MAX: usize = 300;

/// What is to be found out: the words after `research`, `report on`, `articles about`, …
pub(super) fn read(text: &Text) -> Option<String> {
    let start = (0..text.words.len()).find_map(|at| topic_start(text, at))?;
    let end = (start..text.words.len()).find(|at| ends_topic(text, *at, start)).unwrap_or(text.words.len());
    let (first, last) = (text.get(start)?, text.get(end.checked_sub(1)?)?);
    (end > start).then_some(())?;
    text.note(start, end, Use::Fact);
    let topic = text.source[first.start..last.end].trim_matches(['"', '“', '”', '\'', ' ']);
    let topic: String = topic.chars().take(TOPIC_CHARS_MAX).collect();
    (!topic.is_empty()).then_some(topic)
}

fn topic_start(text: &Text, at: usize) -> Option<usize> {
    let (word, next) = (text.lower(at), text.lower(at + 1));
    let after_link = |from: usize| {
        let mut from = from;
        while ["the", "about", "on", "into", "topic", "of", ":", "regarding", "subject"].contains(&text.lower(from))
            || length_before(text, from).is_some()
        {
            from = length_before(text, from).unwrap_or(from + 1);
        }
        let is_pronoun = ["most", "least", "it", "her", "him", "them", "us", "me", "this", "that", "you"]
            .contains(&text.lower(from));
        let is_alone = text.get(from + 1).is_none_or(|next| next.kind == WordKind::Sign);
        (text.get(from).is_some() && !(is_pronoun && is_alone)).then_some(from)
    };
    match word {
        "about" | "regarding" | "concerning" => after_link(at + 1).filter(|_| text.number(at + 1).is_none()),
        "research" | "investigate" | "compare" | "summarise" | "summarize" | "explore" | "study" | "review"
            if is_verb_here(text, at) =>
        {
            let articles =
                ["with", "to", "and", "or", ",", "paper", "papers", "articles", "data", "team"].contains(&next);
            (!articles && !has_topic_later(text, at)).then(|| after_link(at + 1))?
        }
        "report" | "overview" | "survey" | "essay" | "briefing" | "summary" | "review" | "research" | "literature"
        | "lesson" | "course" | "workshop" | "presentation" | "talk" | "lecture" | "post" | "posts" | "guide"
        | "tutorial" | "seminar" | "speech" | "video" | "podcast" | "webinar" | "quiz" | "exam" | "faq"
        | "brochure" | "leaflet" | "paper" | "memo" | "information" | "papers" | "articles" | "article" | "sources"
        | "studies" | "findings"
            if matches!(next, "on" | "about" | "of" | "into" | "regarding") =>
        {
            after_link(at + 2)
        }
        "faq" if next == "for" && matches!(text.lower(at + 2), "our" | "the" | "my") => after_link(at + 2),
        "known" if next == "about" => after_link(at + 2),
        "guide" | "introduction" if next == "to" => after_link(at + 2),
        _ => None,
    }
}

/// `800 words on …`: the index of what it is about.
fn length_before(text: &Text, at: usize) -> Option<usize> {
    let at = at + usize::from(matches!(text.lower(at), "around" | "about" | "roughly" | "approximately"));
    let unit = text.number(at)?.next;
    let is_length = matches!(text.lower(unit), "words" | "pages" | "slides" | "minutes" | "paragraphs");
    (is_length && matches!(text.lower(unit + 1), "on" | "about")).then_some(unit + 2)
}

fn is_verb_here(text: &Text, at: usize) -> bool {
    text.is_sentence_start(at) || ["to", "please", "and", ",", "me", "then", "you"].contains(&text.before(at, 1))
}

/// `Summarise three articles about llamas`: the topic stands after the thing.
fn has_topic_later(text: &Text, at: usize) -> bool {
    (at + 1..(at + 8).min(text.words.len())).any(|i| match text.lower(i) {
        "about" | "regarding" | "concerning" => true,
        "on" => matches!(text.before(i, 1), "research" | "literature" | "studies" | "papers" | "articles"),
        _ => false,
    })
}

/// `tea, coffee and cocoa`: the topic goes on after a comma when a short list with `and` follows.
fn continues(text: &Text, comma: usize) -> bool {
    let mut since_comma = 0;
    for at in comma + 1..text.words.len() {
        match text.lower(at) {
            "and" | "or" => {
                return since_comma <= 4
                    && since_comma > 0
                    && !text.is_imperative(at + 1)
                    && !text.is_constraint(at + 1);
            }
            "," => since_comma = 0,
            _ if text.ends_sentence(at) || text.is_constraint(at) || since_comma > 4 => return false,
            _ => since_comma += 1,
        }
    }
    false
}

/// Longest list of options.
const OPTIONS_MAX: usize = 12;

/// What is compared: `compare A, B and C`, `A vs B`, `choose between A and B`.
pub(super) fn options(text: &Text) -> Vec<String> {
    let all = 0..text.words.len();
    let found =
        all.clone().find_map(|at| options_at(text, at)).or_else(|| all.clone().find_map(|at| asked_or(text, at)));
    found.unwrap_or_default()
}

/// `Rust or Go?`, `should we take the train or the car?`: a question with a choice.
fn asked_or(text: &Text, or: usize) -> Option<Vec<String>> {
    (text.lower(or) == "or" && or > 0).then_some(())?;
    let limit = (or + SENTENCE_WORDS_MAX).min(text.words.len());
    let end = (or + 1..limit).find(|i| text.ends_sentence(*i)).unwrap_or(limit);
    let asks = text.lower(end) == "?" || (1..=SENTENCE_WORDS_MAX).any(|back| text.before(or, back) == "whether");
    asks.then_some(())?;
    let stops = |i: usize| {
        text.words[i].kind == WordKind::Sign && !text.words[i].glued || CHOICE_STOPS.contains(&text.lower(i))
    };
    let last = (or + 2 + usize::from(matches!(text.lower(or + 1), "the" | "a" | "an" | "to"))..end)
        .find(|i| stops(*i))
        .unwrap_or(end);
    let lead = text.lower(or + 1);
    let has_lead = matches!(lead, "the" | "a" | "an" | "to");
    let first = if has_lead {
        (1..=OPTION_WORDS_MAX)
            .filter_map(|back| or.checked_sub(back))
            .find(|i| matches!(text.lower(*i), "the" | "a" | "an" | "to"))?
    } else {
        let is_part = |i: &usize| !stops(*i) || text.lower(*i) == "," && text.is_capital(i - 1);
        (1..=SENTENCE_WORDS_MAX)
            .map_while(|back| or.checked_sub(back).filter(|i| *i > 0 || !stops(*i)).filter(is_part))
            .last()?
    };
    let is_vague = ["not", "no", "less", "later", "more", "so", "whether", "false"].contains(&lead);
    let are_verbs = !has_lead && text.is_imperative(or + 1);
    let is_named = has_lead || text.is_capital(or + 1);
    (!is_vague && !are_verbs && is_named && text.number(or + 1).is_none()).then_some(())?;
    split_options(text, first, last)
}

/// Words of a question and of one of its options, at most.
const SENTENCE_WORDS_MAX: usize = 16;
const OPTION_WORDS_MAX: usize = 6;

/// Words around the options of a question.
const CHOICE_STOPS: &[&str] = &[
    "is", "are", "was", "do", "does", "should", "can", "will", "would", "take", "need", "use", "buy", "get", "choose",
    "better", "faster", "cheaper", "best", "quicker", "safer", "for", "in", "on", "with", "if", "when", "which",
    "what", "go", "we", "i", "have", "rent", "prefer", "be", "of", "from", "at", "by",
];

fn options_at(text: &Text, at: usize) -> Option<Vec<String>> {
    let first = match (text.lower(at), text.lower(at + 1)) {
        ("between", _) if CHOICES.contains(&text.before(at, 1)) => at + 1,
        ("compare" | "comparing" | "contrast" | "weigh", _) => at + 1,
        ("evaluate" | "rank" | "assess", _) if is_verb_here(text, at) && text.is_capital(at + 1) => at + 1,
        ("choose" | "decide" | "pick", ":") => at + 2,
        ("comparison", "of" | "between") => at + 2,
        ("vs" | "versus", _) => return versus(text, at),
        _ => return None,
    };
    let end = (first..text.words.len()).find(|i| ends_options(text, *i)).unwrap_or(text.words.len());
    split_options(text, first, end)
}

/// What is made `between` options.
const CHOICES: &[&str] = &[
    "choose", "choosing", "choice", "decide", "deciding", "decision", "difference", "differences", "pick", "select",
    "comparison", "torn", "distinguish", "us",
];

fn ends_options(text: &Text, at: usize) -> bool {
    text.ends_sentence(at)
        || text.is_constraint(at)
        || text.begins_line(at)
        || [":", ";", "(", "for", "by", "regarding", "concerning", "using", "on", "in", "as", "based", "from"]
            .contains(&text.lower(at))
        || matches!(text.lower(at), "and" | ",") && text.is_imperative(at + 1) && !text.is_capital(at + 1)
}

fn versus(text: &Text, at: usize) -> Option<Vec<String>> {
    let begins = |i: &usize| {
        i.checked_sub(1).is_none_or(|before| {
            text.ends_sentence(before)
                || text.words[before].kind == WordKind::Sign
                || text.is_imperative(before)
                || ["of", "on", "about", "between", "for", "the", "a", "is", "or", "in"].contains(&text.lower(before))
        })
    };
    let first = (at.saturating_sub(4)..at).rev().find(begins)?;
    let end = (at + 1..text.words.len()).find(|i| ends_options(text, *i)).unwrap_or(text.words.len());
    split_options(text, first, end)
}

fn split_options(text: &Text, first: usize, end: usize) -> Option<Vec<String>> {
    let mut options = Vec::new();
    let mut from = first;
    for at in first..=end {
        let splits =
            at == end || [",", "and", "vs", "versus", "with", "or", "against", "to", "&"].contains(&text.lower(at));
        if splits {
            while from < at && matches!(text.lower(from), "the" | "a" | "an" | "to") {
                from += 1;
            }
            let option = text.between(from, at).trim_matches(['"', '“', '”', '\'', ' ', '.']);
            let is_thing = (from..at).any(|i| text.words[i].kind == WordKind::Letters);
            let is_person = matches!(option, "you" | "me" | "us" | "them" | "him" | "her");
            if is_person || !is_thing && at > from {
                return None;
            }
            if at > from && at - from <= 5 && !option.is_empty() {
                options.push(option.to_owned());
            } else if at > from {
                return None;
            }
            from = at + 1;
        }
    }
    (2..=OPTIONS_MAX).contains(&options.len()).then_some(options)
}

fn ends_topic(text: &Text, at: usize, start: usize) -> bool {
    let word = &text.words[at];
    let next = text.lower(at + 1);
    if text.is_constraint(at) || at > start && text.begins_line(at) {
        return true;
    }
    match word.lower.as_str() {
        ":" => text.get(at + 1).is_none_or(|after| !after.glued),
        "(" | "–" | "—" | "but" => true,
        "," | "and" if text.is_imperative(at + 1) => true,
        "," if !continues(text, at) => true,
        "," if text.get(at + 1).is_some_and(|after| matches!(after.kind, WordKind::Number(_)))
            || text.is_constraint(at + 1) =>
        {
            true
        }
        "." => text.get(at + 1).is_none_or(|after| !after.glued),
        "?" | "!" | ";" | "\n" => true,
        "," | "and" => [
            "and", "write", "then", "with", "summarise", "summarize", "send", "give", "using", "create", "make",
            "produce", "cite",
        ]
        .contains(&next),
        "with" if text.get(at + 1).is_some_and(|after| matches!(after.kind, WordKind::Number(_))) => true,
        "with" => {
            matches!(next, "a" | "sources" | "citations" | "references")
                && (text.lower(at + 2) == "budget" || next != "a")
        }
        "by" | "before" | "within" => {
            ["tomorrow", "monday", "tuesday", "wednesday", "thursday", "friday", "next"].contains(&next)
        }
        "in" => {
            matches!(text.get(at + 1).map(|w| w.kind), Some(WordKind::Number(_)))
                && matches!(text.lower(at + 2), "words" | "pages" | "sentences" | "days" | "bullet")
        }
        "for" => {
            let is_reader = [
                "board", "team", "school", "class", "management", "meeting", "client", "people", "sales", "staff",
                "customers", "members", "boss", "committee", "local",
            ]
            .contains(&text.lower(at + 2));
            at > start && (next == "me" || matches!(next, "the" | "our" | "my") && is_reader)
        }
        _ => false,
    }
}

/// The data a text names: a file, an address, or `the sales data`.
pub(super) fn dataset(text: &Text) -> Option<String> {
    super::file::dataset(text.source).or_else(|| named_data(text)).or_else(|| attached(text))
}

/// `the attached CSV`, `this spreadsheet`.
fn attached(text: &Text) -> Option<String> {
    let at = (1..text.words.len()).find(|at| {
        matches!(text.lower(*at), "csv" | "excel" | "spreadsheet" | "xlsx" | "table")
            && matches!(text.before(*at, 1), "attached" | "this" | "enclosed")
    })?;
    Some(text.between(at - 1, at + 1).to_owned())
}

/// `…, redact their data`: a verb, not a part of the name as in `the order data`.
fn is_request(text: &Text, at: usize) -> bool {
    let begins = at
        .checked_sub(1)
        .is_none_or(|before| text.words[before].kind == WordKind::Sign || matches!(text.lower(before), "and" | "then"));
    begins && text.is_imperative(at)
}

/// Words of a clause that tells what happens to data.
const TOLD: &[&str] = &[
    "has", "have", "had", "been", "are", "was", "were", "be", "keeps", "lost", "loses", "drops", "dropped", "not",
    "doesn't", "don't", "can't",
];

/// The words before `data`, up to three.
fn named_data(text: &Text) -> Option<String> {
    let at = (0..text.words.len()).filter(|at| !text.is_constraint(*at)).find(|at| {
        let word = text.lower(*at);
        ["data", "dataset", "spreadsheet", "logs", "records", "figures", "transactions"].contains(&word)
            && (word != "spreadsheet" || text.read_as(*at) == Use::Unread)
            && !matches!(text.before(*at, 1), "people" | "person" | "customer" | "user")
            && !["analysis", "analyst", "science", "scientist", "structure", "structures", "type", "types"]
                .contains(&text.lower(at + 1))
    })?;
    let mut first = at;
    while at - first < 3 && first > 0 {
        let before = &text.words[first - 1];
        // `the pipeline has been dropping records`
        if TOLD.contains(&before.lower.as_str()) {
            return None;
        }
        if before.kind == WordKind::Sign || is_request(text, first - 1) || STOPS.contains(&before.lower.as_str()) {
            break;
        }
        first -= 1;
    }
    let pointed_at = matches!(text.before(at, 1), "the" | "this" | "my" | "our" | "these" | "a");
    if first == at && !pointed_at {
        return None;
    }
    let mut last = at;
    if matches!(text.lower(at + 1), "of" | "from" | "for" | "on" | "about")
        && text.get(at + 2).is_some_and(|w| w.kind != WordKind::Sign)
    {
        last = at + 2;
    }
    Some(text.source[text.words[first].start..text.words[last].end].to_owned())
}

const STOPS: &[&str] = &[
    "the", "a", "an", "this", "that", "our", "my", "your", "analyse", "analyze", "of", "in", "from", "on", "with",
    "and", "visualise", "visualize", "plot", "clean", "explore", "load", "to", "for", "some", "these", "all", "using",
    "into", "examine", "process", "me", "is", "any", "only", "just",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_in_many_spellings() {
        for (text, expected) in [
            ("Research the history of tea", "history of tea"),
            ("Write a report on solid-state batteries.", "solid-state batteries"),
            ("Summarise three articles about llamas", "llamas"),
            ("Find recent papers on graph neural networks and write a summary", "graph neural networks"),
            ("Compare Kafka and Redis Streams", "Kafka and Redis Streams"),
            ("Please research quantum computing with sources", "quantum computing"),
            ("What is known about dark task?", "dark task"),
            ("Give me an overview of the EU AI Act in 500 words", "EU AI Act"),
            ("Write a blog post of about 800 words on sourdough", "sourdough"),
            ("research v1.2 of the protocol. Be quick.", "v1.2 of the protocol"),
        ] {
            assert_eq!(read(&Text::new(text)).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn options_are_what_is_compared() {
        for (text, expected) in [
            ("Compare Kafka, RabbitMQ and NATS for 10 services", "Kafka|RabbitMQ|NATS"),
            ("Choose between Postgres and MySQL", "Postgres|MySQL"),
            ("a comparison of heat pumps with gas boilers", "heat pumps|gas boilers"),
            ("Compare three CRM systems", ""),
            ("Report on trains versus planes", "trains|planes"),
        ] {
            assert_eq!(options(&Text::new(text)).join("|"), expected, "{text}");
        }
    }

    #[test]
    fn what_has_no_topic_gives_none() {
        for text in ["", "Plan a trip", "about", "research", "it takes about 5 minutes", "the research team"] {
            assert_eq!(read(&Text::new(text)), None, "{text}");
        }
    }

    #[test]
    fn data_is_found_by_file_or_by_name() {
        for (text, expected) in [
            ("Analyse sales.csv and plot it", Some("sales.csv")),
            ("Analyse 'data/sales.xlsx'.", Some("data/sales.xlsx")),
            ("Load https://example.org/x?a=1 please", Some("https://example.org/x?a=1")),
            ("Analyse the quarterly sales data", Some("quarterly sales data")),
            ("find trends in the data of 2024", Some("data of 2024")),
            ("do a data analysis", None),
            ("vast amounts of data", None),
            (".csv", None),
        ] {
            assert_eq!(dataset(&Text::new(text)).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn options_are_read_as_people_write_them() {
        super::super::phrases::check(OPTIONS, |facts| facts.options.join(" | "));
    }

    const OPTIONS: &[(&str, &str)] = &[
        ("compare Asana, Trello and Monday for a team of 14", "Asana | Trello | Monday"),
        ("Tesla vs BYD", "Tesla | BYD"),
        ("Help me choose between oak and walnut", "oak | walnut"),
        ("Which is better, Rust or Go?", "Rust | Go"),
        ("Should we take the train or the car?", "train | car"),
        ("The pros and cons of renting versus buying", "renting | buying"),
        ("A comparison of Hetzner, OVH and AWS", "Hetzner | OVH | AWS"),
        ("Decide between Lisbon and Porto", "Lisbon | Porto"),
        ("Weigh leasing against buying", "leasing | buying"),
        ("Compare solar with wind", "solar | wind"),
        ("Postgres or MySQL for our shop?", "Postgres | MySQL"),
        ("Help me choose: gas, oil or heat pump", "gas | oil | heat pump"),
        ("Is it cheaper to rent or to buy?", "rent | buy"),
        ("Zoom, Teams or Meet?", "Zoom | Teams | Meet"),
        ("Compare cork to bamboo", "cork | bamboo"),
        ("Explain the difference between latex and acrylic paint", "latex | acrylic paint"),
        ("Contrast stoicism and epicureanism", "stoicism | epicureanism"),
        ("Evaluate Figma, Sketch and Penpot", "Figma | Sketch | Penpot"),
        ("Compare Kafka and NATS in a table", "Kafka | NATS"),
        ("Choose between the blue and the green design", "blue | green design"),
        ("Compare Miele with Bosch by Friday", "Miele | Bosch"),
        ("Is the bus or the tram faster?", "bus | tram"),
        ("Do I need a lawyer or a notary?", "lawyer | notary"),
        ("Write about cats versus dogs", "cats | dogs"),
        ("Compare the iPhone 15 and the Pixel 9", "iPhone 15 | Pixel 9"),
        ("Compare three CRM systems", ""),
        ("Compare prices", ""),
        ("Meet between 9 and 11", ""),
        ("Answer yes or no", ""),
        ("It should be more or less done", ""),
        ("Keep it between you and me", ""),
        ("Give me two or three names", ""),
        ("Do it sooner or later", ""),
        ("Is it true or not?", ""),
        ("Review the code and the tests", ""),
        ("Can you call or write to her?", ""),
        ("Find out whether it is cheaper to lease or to buy", "lease | buy"),
        ("Write a dialogue between a doctor and a patient", ""),
    ];

    #[test]
    fn topics_are_read_as_people_write_them() {
        super::super::phrases::check(TOPICS, |facts| facts.topic.clone().unwrap_or_default());
    }

    const TOPICS: &[(&str, &str)] = &[
        ("Write an FAQ for our returns policy with 20 questions", "our returns policy"),
        ("Write a blog post of around 800 words about composting", "composting"),
        ("Review Tom's changes to the payment module but leave the styling", "Tom's changes to the payment module"),
        ("Find out what people complain about most", ""),
        ("I need a report on the e-bike market in Spain, max 12 pages", "e-bike market in Spain"),
        ("Research the history of tea", "history of tea"),
        ("create a beginner course about beekeeping", "beekeeping"),
        ("Find out about heat pumps by Friday", "heat pumps"),
        ("What is known about sleep and shift work?", "sleep and shift work"),
        ("Write about life on Mars, 500 words", "life on Mars"),
        ("An article on bike lanes, no jargon", "bike lanes"),
        ("A presentation on our Q3 results for the board", "our Q3 results"),
        ("A blog post on sourdough starting the first week of May", "sourdough"),
        ("An essay about the French Revolution, 1500 words", "French Revolution"),
        ("Give me an overview of the EU AI Act", "EU AI Act"),
        ("I want to learn about bees", "bees"),
        ("Write a guide to composting", "composting"),
        ("An introduction to Rust for beginners", "Rust for beginners"),
        ("Survey our customers about the new delivery slots. Ten questions", "new delivery slots"),
        ("Summarise the research on sleep", "sleep"),
        ("A newsletter about our summer sale", "our summer sale"),
        ("compare Asana, Trello and Monday for a team of 14", "Asana, Trello and Monday"),
        ("Collect information on grants for artists", "grants for artists"),
        (
            "Find out what is known about the effect of night shifts on nurses' sleep",
            "effect of night shifts on nurses' sleep",
        ),
        ("Review our login code and tell me what's wrong", "our login code"),
        ("A workshop on first aid on 3 May", "first aid"),
        ("Investigate the outage of last night", "outage of last night"),
        ("A podcast about chess, weekly", "chess"),
        ("Write a memo regarding the new dress code", "new dress code"),
        ("Plan a trip to Rome", ""),
        ("It takes about 5 minutes", ""),
        ("Ask the research team", ""),
        ("I have to think about it", ""),
        ("Buy a car for about 9000 euros", ""),
        ("Move the report to the archive", ""),
        ("Book the course for Anna", ""),
        ("Clean the data", ""),
        ("Fix the bug in the study planner", ""),
        ("Bake about twenty rolls", ""),
    ];
}
