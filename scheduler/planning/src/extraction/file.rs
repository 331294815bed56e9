//! Extracts the files that a text names: `receipts.zip`, `(supply_v3.pdf)`, `https://example.org/data.csv`.

/// Most files of one goal.
const FILES_MAX: usize = 10;

/// The files, in the order of the text.
pub(super) fn read(source: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for name in source.split_whitespace().map(bare).filter(|name| is_file(name)) {
        if files.len() < FILES_MAX && !files.iter().any(|held| held == name) {
            files.push(name.to_owned());
        }
    }
    files
}

/// The first file or address with data in it.
pub(super) fn dataset(source: &str) -> Option<String> {
    source.split_whitespace().map(bare).find(|name| has_ending(name, DATA) || is_address(name)).map(str::to_owned)
}

/// Without the signs around it.
fn bare(word: &str) -> &str {
    let is_sign =
        |c: char| matches!(c, '"' | '\'' | '`' | '(' | ')' | ',' | ';' | ':' | '“' | '”' | '?' | '!' | '.' | '[' | ']');
    word.trim_end_matches("'s").trim_matches(is_sign)
}

fn is_file(name: &str) -> bool {
    let is_product = PRODUCTS.contains(&name.to_lowercase().as_str());
    !is_product && (has_ending(name, DATA) || has_ending(name, ENDINGS))
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty() && !stem.ends_with('/')).map(|(_, end)| end);
    ending.is_some_and(|ending| endings.contains(&ending.to_lowercase().as_str()))
}

fn is_address(name: &str) -> bool {
    let lower = name.to_lowercase();
    ["https://", "http://", "s3://", "gs://", "postgres://"].iter().any(|scheme| lower.starts_with(scheme))
}

/// Endings of files with data.
const DATA: &[&str] = &["csv", "tsv", "xlsx", "xls", "parquet", "json", "jsonl", "sqlite", "db", "sql"];

/// Endings of other files.
const ENDINGS: &[&str] = &[
    "pdf", "doc", "docx", "odt", "rtf", "txt", "md", "tex", "ppt", "pptx", "odp", "key", "ods", "numbers", "pages",
    "zip", "tar", "gz", "rar", "7z", "jpg", "jpeg", "png", "gif", "svg", "tiff", "heic", "psd", "ai", "mp3", "wav",
    "m4a", "mp4", "mov", "avi", "mkv", "html", "htm", "css", "xml", "yaml", "yml", "toml", "ini", "conf", "log", "py",
    "rs", "js", "ts", "java", "go", "rb", "php", "c", "cpp", "h", "sh", "ipynb", "epub", "eml", "ics", "vcf", "bib",
];

/// Names of programs that look like files.
const PRODUCTS: &[&str] =
    &["node.js", "vue.js", "next.js", "react.js", "d3.js", "three.js", "express.js", "nuxt.js", "ember.js"];

#[cfg(test)]
mod tests {
    #[test]
    fn files_are_read_as_people_write_them() {
        super::super::phrases::check(PHRASES, |facts| facts.files.join(" "));
    }

    const PHRASES: &[(&str, &str)] = &[
        ("Please clean contacts_2026.xlsx: remove the duplicates", "contacts_2026.xlsx"),
        ("Go through the contract (acme_supply_v3.pdf) and list the risks", "acme_supply_v3.pdf"),
        ("Receipts are in receipts.zip. Get my tax return ready", "receipts.zip"),
        ("Translate user_manual.docx from German", "user_manual.docx"),
        ("Plot 'data/sales.xlsx'", "data/sales.xlsx"),
        ("Shorten the talk (Q3-final.pptx)", "Q3-final.pptx"),
        ("Compare a.csv and b.csv", "a.csv b.csv"),
        ("Crop photo.jpg", "photo.jpg"),
        ("Put logo.svg, banner.png on the page", "logo.svg banner.png"),
        ("Summarise notes.txt", "notes.txt"),
        ("Review main.py", "main.py"),
        ("Improve ~/docs/plan.md", "~/docs/plan.md"),
        ("Find the error in /var/log/app.log", "/var/log/app.log"),
        ("Unpack backup.tar.gz", "backup.tar.gz"),
        ("Fix the footer of index.html", "index.html"),
        ("Rewrite README.md", "README.md"),
        ("Check config.yaml", "config.yaml"),
        ("Load dump.sql", "dump.sql"),
        ("Transcribe interview.mp3", "interview.mp3"),
        ("Cut video.mp4", "video.mp4"),
        ("Load https://example.org/data.csv", "https://example.org/data.csv"),
        ("What is wrong with menu.pdf?", "menu.pdf"),
        ("Read scan_01.png and scan_02.png", "scan_01.png scan_02.png"),
        ("Add the new costs to budget-2027.ods", "budget-2027.ods"),
        ("Check `schema.json`", "schema.json"),
        ("Build a Node.js app", ""),
        ("Fix our ASP.NET site", ""),
        ("Name animals, e.g. dogs", ""),
        ("Ship v2.4 today", ""),
        ("Check example.com", ""),
        ("Work 3.5 hours", ""),
        ("Save it as .csv", ""),
        ("Migrate to monday.com", ""),
        ("Book it on Booking.com", ""),
        ("Write to anna@firm.de", ""),
        ("Use Vue.js for the page", ""),
    ];
}
