//! Reads the files that a text names: `receipts.zip`, `(supply_v3.pdf)`, `https://example.org/data.csv`.

use super::words::Text;

/// Most files of one goal.
const FILES_MAX: usize = 10;

/// The files, in the order of the text.
pub(super) fn read(text: &Text) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for name in text.source.split_whitespace().map(bare).filter(|name| is_file(name)) {
        if files.len() < FILES_MAX && !files.iter().any(|held| held == name) {
            text.source.match_indices(name).for_each(|(start, _)| text.note_bytes(start, start + name.len()));
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
    use super::*;

    #[test]
    fn files_are_found_and_names_that_look_alike_are_not() {
        for (text, files) in [
            ("Please clean contacts_2026.xlsx: remove the duplicates", "contacts_2026.xlsx"),
            ("Go through the contract (acme_supply_v3.pdf) and list the risks", "acme_supply_v3.pdf"),
            ("Plot 'data/sales.xlsx'", "data/sales.xlsx"),
            ("Compare a.csv and b.csv", "a.csv b.csv"),
            ("Find the error in /var/log/app.log", "/var/log/app.log"),
            ("Unpack backup.tar.gz", "backup.tar.gz"),
            ("Load https://example.org/data.csv", "https://example.org/data.csv"),
            ("What is wrong with menu.pdf?", "menu.pdf"),
            ("Build a Node.js app", ""),
            ("Fix our ASP.NET site", ""),
            ("Name animals, e.g. dogs", ""),
            ("Ship v2.4 today", ""),
            ("Check example.com", ""),
            ("Save it as .csv", ""),
            ("Write to anna@firm.de", ""),
        ] {
            assert_eq!(read(&Text::new(text)).join(" "), files, "{text}");
        }
        assert_eq!(dataset("Analyse sales.csv and notes.md"), Some("sales.csv".into()));
        assert_eq!(dataset("Load s3://bucket/orders"), Some("s3://bucket/orders".into()));
        assert_eq!(dataset("Read notes.md"), None);
    }
}
