//! Extracts the formats and languages that a result is wanted in: `as CSV`, `in Markdown`, `a PDF`, `into French`.

use super::words::{Text, Use, WordKind};

/// A format by its names; `certain` ones are formats wherever they stand as a thing of their own.
struct Format {
    name: &'static str,
    words: &'static [&'static str],
    certain: bool,
}

const fn certain(name: &'static str, words: &'static [&'static str]) -> Format {
    Format { name, words, certain: true }
}

const fn led(name: &'static str, words: &'static [&'static str]) -> Format {
    Format { name, words, certain: false }
}

const FORMATS: &[Format] = &[
    certain("pdf", &["pdf", "pdfs"]),
    certain("csv", &["csv"]),
    certain("tsv", &["tsv"]),
    certain("json", &["json", "jsonl", "ndjson"]),
    certain("yaml", &["yaml"]),
    certain("xml", &["xml"]),
    certain("html", &["html"]),
    certain("markdown", &["markdown"]),
    certain("latex", &["latex"]),
    certain("parquet", &["parquet"]),
    certain("docx", &["docx"]),
    certain("xlsx", &["xlsx", "excel"]),
    certain("pptx", &["pptx", "powerpoint"]),
    certain("slides", &["slides", "slide", "deck"]),
    certain("bibtex", &["bibtex"]),
    certain("epub", &["epub"]),
    certain("odt", &["odt"]),
    certain("openapi", &["openapi"]),
    led("ics", &["ics", "ical"]),
    led("zip", &["zip"]),
    certain("spreadsheet", &["spreadsheet"]),
    certain("checklist", &["checklist"]),
    led("docx", &["word"]),
    led("markdown", &["md"]),
    led("table", &["table", "tabular"]),
    led("chart", &["chart", "charts", "graph", "plot", "diagram"]),
    led("dashboard", &["dashboard"]),
    led("checklist", &["checklist"]),
    led("list", &["list"]),
    led("text", &["text", "txt"]),
    led("png", &["png"]),
    led("svg", &["svg"]),
    led("jpg", &["jpg", "jpeg"]),
    led("wav", &["wav"]),
    led("video", &["video"]),
    led("notebook", &["notebook"]),
    led("sql", &["sql"]),
];

/// The formats of the result, in the order of the text.
pub(super) fn formats(text: &Text) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for at in 0..text.words.len() {
        if let Some((name, next)) = named_in_two_words(text, at) {
            add(&mut found, name);
            text.note(at, next, Use::Fact);
        }
        if is_email(text, at) {
            add(&mut found, "email");
        }
        if let Some(style) = style(text, at) {
            add(&mut found, style);
        }
        let Some(format) = format_at(text, at) else { continue };
        add(&mut found, format.name);
        let from = led_from(text, at);
        if matches!(text.lower(from), "as" | "in" | "into") {
            text.note(from, at + 1, Use::Constraint);
        } else {
            text.note(at, at + 1, Use::Fact);
        }
    }
    found
}

/// `by email`, `in my inbox`, `draft a reply email`.
fn is_email(text: &Text, at: usize) -> bool {
    let is_joined = text.lower(at) == "e" && text.lower(at + 1) == "-" && text.lower(at + 2) == "mail";
    let next = text.lower(if is_joined { at + 3 } else { at + 1 });
    match text.lower(at) {
        "inbox" => matches!(text.before(at, 1), "my" | "our") && matches!(text.before(at, 2), "in" | "to" | "into"),
        "email" | "e" if is_joined || text.lower(at) == "email" => {
            let is_way = matches!(text.before(at, 1), "by" | "via");
            let goes_on = text.get(at + 1).is_none_or(|word| word.kind == WordKind::Sign)
                || ["to", "for", "about", "that", "and", "telling", "in", "with", "of", "by", "asking"].contains(&next);
            let is_written = text.clause_before(at, 5).any(|i| matches!(text.lower(i), "draft" | "write" | "compose"));
            let is_sent = text.begins_clause(at) && matches!(next, "me" | "us" | "it" | "them" | "him" | "her");
            is_way || is_sent || is_written && goes_on
        }
        _ => false,
    }
}

/// `in APA style`
fn style<'t>(text: &Text<'t>, at: usize) -> Option<&'t str> {
    let is_style = matches!(text.lower(at), "style" | "format") && at > 1 && text.before(at, 2) == "in";
    let is_known = FORMATS.iter().any(|format| format.words.contains(&text.before(at, 1)));
    (is_style && text.is_capital(at - 1) && !is_known && !text.is_sentence_start(at - 1))
        .then(|| text.between(at - 1, at + 1))
}

fn add(found: &mut Vec<String>, name: &str) {
    if !found.iter().any(|held| held == name) {
        found.push(name.to_owned());
    }
}

/// `as a Google Doc`, `as MP3`, `bullet points`; with the index after it.
fn named_in_two_words(text: &Text, at: usize) -> Option<(&'static str, usize)> {
    let second = text.get(at + 1)?;
    let name = match (text.lower(at), second.lower.as_str()) {
        ("google", "doc" | "docs") => "google docs",
        ("google", "sheet" | "sheets") => "google sheets",
        ("google", "slides") => "google slides",
        ("bullet", "points" | "list") => "bullet points",
        ("mp", "3") if second.glued => "mp3",
        ("mp", "4") if second.glued => "mp4",
        _ => return None,
    };
    let from = led_from(text, at);
    let is_asked = matches!(text.lower(from), "as" | "in" | "into" | "to") && from < at;
    let is_free = ["", ",", ";", ".", "a", "an", "and", "export", "output"].contains(&text.before(at, 1))
        && text
            .get(at + 2)
            .is_none_or(|next| next.kind == WordKind::Sign || matches!(next.lower.as_str(), "and" | "with"));
    (is_asked || is_free).then_some((name, at + 2))
}

fn format_at(text: &Text, at: usize) -> Option<&'static Format> {
    let word = text.get(at).filter(|word| word.kind == WordKind::Letters)?;
    let format = FORMATS.iter().find(|format| format.words.contains(&word.lower.as_str()))?;
    // `customers.csv`, `JSON-API`, `the PDF`: a file, a part of a name, a thing that is there already.
    let is_file = word.glued
        && at > 0
        && match text.lower(at - 1) {
            // `as .csv`
            "." => text.words[at - 1].glued,
            sign => matches!(sign, "/" | "_" | "-"),
        };
    // `a Google Sheet` is one format.
    if text.before(at, 1) == "google" || text.lower(at) == "bullet" || text.before(at, 1) == "bullet" {
        return None;
    }
    let goes_on = text.get(at + 1).is_some_and(|next| {
        next.glued && matches!(next.lower.as_str(), "." | "-" | "_") && text.get(at + 2).is_some_and(|w| w.glued)
    });
    if is_file || goes_on {
        return None;
    }
    let from = led_from(text, at);
    let lead = text.lower(from);
    let article = text.lower(from + 1);
    let (before, next) = (text.before(at, 1), text.lower(at + 1));
    let is_there = ["the", "this", "these", "our", "my", "your", "their", "attached"].contains(&article)
        || ["the", "this", "these", "our", "my", "your", "their", "attached", "from", "of", "about", "on", "between"]
            .contains(&before);
    let is_word = format.name != "docx" || word.lower == "docx" || word.text == "Word";
    if format.name == "openapi" && !is_there {
        return Some(format);
    }
    let asked = matches!(lead, "as" | "in" | "into" | "to" | "format") && from < at && !is_there;
    let converts = ["export", "convert", "exported", "converted", "save", "it", "them", "csv", "json", "pdf", "xml"]
        .contains(&text.before(from, 1));
    if asked && is_word && (lead != "to" || converts) {
        // `in a table for the board`, but not `in a table for two`.
        let is_furniture = next == "of" || next == "for" && !is_article(text.lower(at + 2));
        return Some(format).filter(|format| format.name != "table" || !is_furniture);
    }
    // `build a dashboard of the sales`
    let is_built = text.clause_before(at, 4).any(|i| ["build", "create", "make", "design"].contains(&text.lower(i)));
    if format.name == "dashboard"
        && is_built
        && !is_there
        && next != "for"
        && (before == "a" || text.before(at, 2) == "a")
    {
        return Some(format);
    }
    let ends = ends_phrase(next);
    let is_file_of_program =
        format.name == "docx" && matches!(next, "file" | "doc") && matches!(before, "one" | "single");
    // `table please`, `excel would be great`, `use a table`
    let begins = text.begins_clause(at) || before == "a" && matches!(text.before(at, 2), "use" | "in" | "as");
    let is_wanted = matches!(text.before(at, 2), "like" | "want" | "need" | "me") && before == "a";
    let shows =
        matches!(next, "with" | "of" | "by" | "that" | "showing" | "comparing") && text.number(at + 2).is_none();
    if matches!(format.name, "table" | "chart") && is_wanted && shows {
        return Some(format);
    }
    let is_wish = matches!(next, "please" | "preferred") || next == "would" && text.lower(at + 2) == "be";
    if is_word && begins && (is_wish && format.name != "text" || ends_phrase(next) && text.before(at, 2) == "use") {
        return Some(format);
    }
    if word.lower == "deck" && !matches!(before, "slide" | "pitch") {
        return None;
    }
    if is_word && !is_there && (matches!(next, "format" | "document") || is_file_of_program) {
        return Some(format);
    }
    // `Output PNG`, `export SVG`
    let is_output = matches!(before, "output" | "export" | "deliver" | "save") && !format.certain && ends_phrase(next);
    let is_image = matches!(format.name, "png" | "svg" | "jpg" | "wav");
    if is_image && (is_output || text.begins_clause(at) && ends_phrase(next)) {
        return Some(format);
    }
    let counted = matches!(format.name, "slides") && text.before(at, 1).parse::<u32>().is_ok();
    (format.certain && !is_there && (ends || counted) && may_stand_free(text, at)).then_some(format)
}

fn is_article(word: &str) -> bool {
    ["the", "our", "my", "your", "their", "a", "an", "each", "every"].contains(&word)
}

/// Whether what stands behind a format leaves it a thing of its own.
fn ends_phrase(next: &str) -> bool {
    [
        "", ",", ".", ";", ")", "!", "?", ":", "and", "or", "with", "by", "for", "format", "file", "files", "report",
        "document", "export", "list", "table", "version", "presentation", "deck", "sheet", "page", "until", "before",
        "within", "showing", "that", "per", "plus", "please", "of", "template",
    ]
    .contains(&next)
}

/// `a PDF`, `send me a CSV`, `, PowerPoint,`, `15 slides`; not `parse JSON`.
fn may_stand_free(text: &Text, at: usize) -> bool {
    let before = text.before(at, 1);
    let input = [
        "read", "parse", "analyse", "analyze", "clean", "review", "convert", "translate", "summarise", "summarize",
        "fix", "check", "import", "load", "merge", "open",
    ]
    .contains(&before);
    !input
        && ([
            "a", "an", ",", "and", "or", "me", "us", "plus", "(", "as", ":", "deliver", "produce", "send", "create",
            "make", "prepare", "one", "some", "output", "export",
        ]
        .contains(&before)
            || text.before(at, 1).parse::<u32>().is_ok()
            || text.number(at.saturating_sub(1)).is_some()
            || is_described(text, at)
            || at > 1 && text.begins_clause(at - 1) && !text.is_imperative(at - 1)
            || text.is_constraint(at.saturating_sub(1)))
}

/// `a printable PDF`, `a one-page PDF`, `a slide deck`: words that describe it stand between the article and the format.
fn is_described(text: &Text, at: usize) -> bool {
    let makes = ["make", "create", "prepare", "build", "write", "produce", "want", "need", "me", "send", "deliver"];
    let article =
        text.clause_before(at, 4).find(|i| matches!(text.lower(*i), "a" | "an" | "the" | "of" | "my" | "our"));
    let is_made = article
        .is_some_and(|article| matches!(text.lower(article), "a" | "an") && makes.contains(&text.before(article, 1)));
    is_made || article.is_none() && makes[..6].contains(&text.before(at, 2))
}

/// The index of the word that leads to a format, past articles and adjectives: `as a single`, `in`.
fn led_from(text: &Text, at: usize) -> usize {
    let mut from = at;
    for _ in 0..3 {
        let before = text.before(from, 1);
        if matches!(before, "as" | "in" | "into" | "to" | "format") {
            return from - 1;
        }
        if before == ":" && text.before(from, 2) == "format" {
            return from - 2;
        }
        let skipped = [
            ".", "a", "an", "one", "the", "single", "simple", "short", "plain", "editable", "clean", "bar", "line",
            "pie", "our", "this", "my", "slide", "valid", "excel", "markdown", "html", "and", "or", "google", "both",
        ]
        .contains(&before);
        // `as CSV and JSON`
        let joined = from >= 2 && FORMATS.iter().any(|f| f.words.contains(&text.before(from, 1)));
        if from == 0 || !(skipped || joined) {
            return at;
        }
        from -= 1;
    }
    if matches!(text.before(from, 1), "as" | "in" | "into") { from - 1 } else { at }
}

/// The languages of the result, and of what is translated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Languages {
    pub to: Vec<String>,
    pub from: Option<String>,
}

pub(super) fn languages(text: &Text) -> Languages {
    let mut found = Languages::default();
    let translates = text.words.iter().any(|w| w.lower.starts_with("translat") || w.lower.starts_with("locali"));
    let mut at = 0;
    while at < text.words.len() {
        let Some(language) = language_at(text, at) else {
            at += 1;
            continue;
        };
        let variety = usize::from(
            [
                "american", "british", "australian", "brazilian", "canadian", "mexican", "swiss", "simplified",
                "plain", "simple", "easy", "formal", "clear", "good", "everyday",
            ]
            .contains(&text.before(at, 1)),
        );
        let before = text.before(at, 1 + variety);
        // `the names remain in Italian`
        if text.clause_before(at, 3).any(|i| matches!(text.lower(i), "remain" | "stay" | "remains" | "stays")) {
            at += 1;
            continue;
        }
        let listed = matches!(before, "," | "and" | "or" | "&" | "both")
            && at >= 2
            && (language_at(text, at - 2).is_some()
                || before == "both"
                || before == "and" && language_at(text, at.saturating_sub(3)).is_some())
            && text.is_constraint(at - 2);
        let version = (is_version(text.lower(at + 1)) || is_pair(text, at) && is_version(text.lower(at + 3)))
            && !matches!(before, "the" | "this");
        let leads = before == ":" && text.before(at, 2) == "language"
            || matches!(before, "," | "bilingual" | "both") && is_pair(text, at);
        let is_original = matches!(before, "the" | "this" | "these" | "our" | "my")
            && text.before(at, 2 + variety).starts_with("translat");
        match before {
            _ if is_original => found.from = found.from.or(Some(language.to_owned())),
            "from" if translates => found.from = found.from.or(Some(language.to_owned())),
            "in" | "into" => found.to.push(language.to_owned()),
            "to" if translates => found.to.push(language.to_owned()),
            _ if listed || version || leads || alone(text, at) => found.to.push(language.to_owned()),
            _ => {
                at += 1;
                continue;
            }
        }
        let from = at - variety - usize::from(matches!(before, "from" | "in" | "into" | "to"));
        text.note(from, at + 1, Use::Constraint);
        at += 1;
    }
    found.to.dedup();
    found
}

fn is_version(word: &str) -> bool {
    matches!(word, "translation" | "version" | "subtitles" | "translations" | "edition" | "versions")
}

/// `French and English`
fn is_pair(text: &Text, at: usize) -> bool {
    matches!(text.lower(at + 1), "and" | "or" | "&") && language_at(text, at + 2).is_some()
}

/// `at most 8 pages, German`: the language stands between commas.
fn alone(text: &Text, at: usize) -> bool {
    text.before(at, 1) == "," && matches!(text.lower(at + 1), "" | "," | "." | ";" | "only" | "please") && at > 3
}

pub(super) fn language_at(text: &Text, at: usize) -> Option<&'static str> {
    let word = text.get(at)?;
    let capital = text.is_capital(at) || !text.has_case;
    LANGUAGES.iter().find(|language| capital && language.eq_ignore_ascii_case(word.text)).copied()
}

const LANGUAGES: &[&str] = &[
    "English", "German", "French", "Spanish", "Italian", "Portuguese", "Dutch", "Polish", "Czech", "Slovak",
    "Hungarian", "Romanian", "Bulgarian", "Greek", "Turkish", "Russian", "Ukrainian", "Swedish", "Norwegian", "Danish",
    "Finnish", "Icelandic", "Estonian", "Latvian", "Lithuanian", "Croatian", "Serbian", "Slovenian", "Arabic",
    "Hebrew", "Persian", "Hindi", "Urdu", "Bengali", "Tamil", "Chinese", "Mandarin", "Japanese", "Korean",
    "Vietnamese", "Thai", "Indonesian", "Malay", "Swahili", "Catalan", "Welsh", "Irish", "Latin",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_in_many_spellings() {
        for (text, expected) in [
            ("a report as PDF", "pdf"),
            ("write it in Markdown", "markdown"),
            ("give me a PDF", "pdf"),
            ("send me a CSV", "csv"),
            ("as a spreadsheet", "spreadsheet"),
            ("give me an Excel list", "xlsx"),
            ("save it as Parquet", "parquet"),
            ("15 slides, PowerPoint, for Monday", "slides pptx"),
            ("Deliver slides by Friday", "slides"),
            ("compare them in a table", "table"),
            ("put it in a table for the board meeting", "table"),
            ("show revenue as a bar chart", "chart"),
            ("as CSV and JSON", "csv json"),
            ("export to HTML", "html"),
            ("a Word file", ""),
            ("one Word file", "docx"),
            ("two pages, Word format", "docx"),
            ("as a Word document", "docx"),
            ("convert the CSV to JSON", "json"),
            ("save it as .csv", "csv"),
            ("share it as a Google Doc", "google docs"),
            ("keep it in Google Sheets", "google sheets"),
            ("export as MP3", "mp3"),
            ("One page, bullet points", "bullet points"),
            ("Output PNG plus a JSON file", "png json"),
            ("save it as an SVG", "svg"),
            ("the references as BibTeX", "bibtex"),
        ] {
            assert_eq!(formats(&Text::new(text)).join(" "), expected, "{text}");
        }
        for text in [
            "clean customers.csv",
            "summarise the PDF",
            "fix the HTML of the page",
            "a JSON parser",
            "in other words",
            "a table for four",
            "dinner in a table for two",
            "our JSON export",
            "in the table of contents",
        ] {
            assert_eq!(formats(&Text::new(text)), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn languages_have_a_direction() {
        for (text, to, from) in [
            ("Translate it from German into French and Polish", "French Polish", Some("German")),
            ("translate this blog to Spanish", "Spanish", None),
            ("a contract in German", "German", None),
            ("an e-mail in English, French and Italian", "English French Italian", None),
            ("learn Spanish", "", None),
            ("French restaurants in Berlin", "", None),
            ("a German version", "German", None),
            ("a thesis in American English", "English", None),
            ("an emergency plan for the clinic, German", "German", None),
        ] {
            let found = languages(&Text::new(text));
            assert_eq!((found.to.join(" ").as_str(), found.from.as_deref()), (to, from), "{text}");
        }
    }

    #[test]
    fn formats_are_read_as_people_write_them() {
        super::super::phrases::check(PHRASES, |facts| facts.formats.join(" "));
    }

    const PHRASES: &[(&str, &str)] = &[
        ("We're moving in May, make me a checklist", "checklist"),
        ("Build a dashboard of monthly expenses", "dashboard"),
        ("Create a sales dashboard", "dashboard"),
        ("Show it in a dashboard", "dashboard"),
        ("Fix the dashboard", ""),
        ("Speed up our dashboard", ""),
        ("Write a report as a PDF", "pdf"),
        ("Make a rota in Excel", "xlsx"),
        ("Make a budget, excel would be great", "xlsx"),
        ("Compare them. table please", "table"),
        ("Findings in a spreadsheet", "spreadsheet"),
        ("Clean the list and give it back as CSV", "csv"),
        ("Send the summary by email", "email"),
        ("I want a summary in my inbox", "email"),
        ("Write the menu, PDF please", "pdf"),
        ("Make a slide deck", "slides"),
        ("Prepare a talk, PowerPoint, 10 slides", "pptx slides"),
        ("Write it up as Word doc", "docx"),
        ("Write the docs in Markdown", "markdown"),
        ("List the risks as bullet points", "bullet points"),
        ("Make a one-page PDF of it", "pdf"),
        ("Export it to JSON", "json"),
        ("Make a printable PDF", "pdf"),
        ("Write the contract in Word", "docx"),
        ("Save it as an .xlsx file", "xlsx"),
        ("Draft a reply email to Mrs Okafor", "email"),
        ("Give it to me both as PDF and as HTML", "pdf html"),
        ("Write the book. Format: EPUB", "epub"),
        ("I'd like it in LaTeX", "latex"),
        ("Turn it into a checklist", "checklist"),
        ("Compare the phones, use a table", "table"),
        ("Put the results in a Google Sheet", "google sheets"),
        ("Book a table for two", ""),
        ("Parse the JSON", ""),
        ("Summarise report.pdf", ""),
        ("The PDF is broken, fix it", ""),
        ("Learn Excel", ""),
        ("Our email server is down", ""),
        ("Clean the email list", ""),
        ("Say it in other words", ""),
        ("Plan a word of mouth campaign", ""),
        ("Build a deck in the garden", ""),
    ];

    #[test]
    fn languages_are_read_as_people_write_them() {
        super::super::phrases::check(LANGUAGE_PHRASES, |facts| {
            let from = facts.source_language.iter().map(|from| format!(" < {from}")).collect::<String>();
            format!("{}{from}", facts.languages.join(" "))
        });
    }

    const LANGUAGE_PHRASES: &[(&str, &str)] = &[
        ("A survey in English and Welsh", "English Welsh"),
        ("Translate it from German into French and Polish", "French Polish < German"),
        ("List the risks in plain English", "English"),
        ("Write a letter to the landlord, German please", "German"),
        ("Write it in simple German", "German"),
        ("Make a Spanish version", "Spanish"),
        ("Translate the site to Dutch", "Dutch"),
        ("A flyer, bilingual, French and English", "French English"),
        ("CV and letter, both in German", "German"),
        ("Translate the song from Japanese to English", "English < Japanese"),
        ("Write the manual in Brazilian Portuguese", "Portuguese"),
        ("The letter should be in Italian", "Italian"),
        ("Write the offer. Language: Czech", "Czech"),
        ("A thesis in British English", "English"),
        ("Answer her in Finnish.", "Finnish"),
        ("Add Turkish and Arabic subtitles", "Turkish Arabic"),
        ("A leaflet in Urdu, Hindi and English", "Urdu Hindi English"),
        ("Translate the Greek original into English", "English < Greek"),
        ("Translate this German contract", " < German"),
        ("Write the rules, English only", "English"),
        ("A notice in both Welsh and English", "Welsh English"),
        ("Write a poem in Swiss German", "German"),
        ("Can you write to them in Polish?", "Polish"),
        ("Make a sign in Dutch or French", "Dutch French"),
        ("Put the recipe into English", "English"),
        ("Learn Spanish", ""),
        ("Find French restaurants", ""),
        ("Describe the Polish market", ""),
        ("Buy a German car", ""),
        ("Cook an English breakfast", ""),
        ("Call our Italian supplier", ""),
        ("Book a Spanish course", ""),
        ("Bake Danish pastries", ""),
        ("Sail to the Greek islands", ""),
        ("Find a Russian teacher", ""),
    ];
}
