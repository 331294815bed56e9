//! Reads the documents of the settings: files of a folder, and the listed addresses. Nothing else is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use goalmill_common::config::hide_password;
use goalmill_common::number::to_usize;
use goalmill_llm::DocumentClient;

use super::passages::SourceText;

/// Endings of files that are read.
const ENDINGS: [&str; 6] = ["md", "txt", "rst", "adoc", "csv", "html"];
/// Levels of folders.
const LEVELS_MAX: usize = 8;
/// Entries of folders that are looked at.
const ENTRIES_MAX: usize = 20_000;
/// Bytes of one document.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Addresses that are read concurrently.
const FETCHES: usize = 4;

/// Reads the files of a folder in the order of their paths, as far as there is room. Links are not followed.
///
/// - `room`: bytes of all documents together.
pub fn read_folder(folder: &Path, files_max: usize, room: &mut usize) -> Vec<SourceText> {
    let mut found = Vec::new();
    let (mut waiting, mut entries) = (vec![(folder.to_path_buf(), 0)], 0);
    while let Some((directory, level)) = waiting.pop() {
        let Ok(listed) = std::fs::read_dir(&directory).inspect_err(|error| {
            tracing::warn!("the folder `{}` of documents cannot be read: {error}", directory.display());
        }) else {
            continue;
        };
        for entry in listed.flatten() {
            entries += 1;
            if entries > ENTRIES_MAX {
                tracing::warn!("the folder of documents has more than {ENTRIES_MAX} entries; the rest is left out");
                break;
            }
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if kind.is_dir() && level < LEVELS_MAX && !is_hidden {
                waiting.push((path, level + 1));
            } else if kind.is_file() && !is_hidden && is_document(&path) {
                found.push(path);
            }
        }
        if entries > ENTRIES_MAX {
            break;
        }
    }
    found.sort();
    found.truncate(files_max);
    found.iter().filter_map(|path| read_file(folder, path, room)).collect()
}

fn is_document(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    ENDINGS.contains(&ending.as_str())
}

fn read_file(folder: &Path, path: &PathBuf, room: &mut usize) -> Option<SourceText> {
    let bytes = to_usize(path.metadata().ok()?.len());
    if bytes > DOCUMENT_BYTES_MAX || bytes > *room {
        tracing::warn!("the document `{}` has {bytes} bytes and is left out", path.display());
        return None;
    }
    let text = std::fs::read(path)
        .inspect_err(|error| tracing::warn!("the document `{}` cannot be read: {error}", path.display()))
        .ok()?;
    *room -= text.len().min(*room);
    let source = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
    Some(document(source, &String::from_utf8_lossy(&text)))
}

/// Reads the addresses; one that fails is left out. Redirects are not followed, because only listed addresses are read.
pub async fn read_urls(urls: &[String], timeout: Duration, room: &mut usize) -> Vec<SourceText> {
    if urls.is_empty() {
        return Vec::new();
    }
    let is_secure = urls.iter().any(|url| url.starts_with("https://"));
    let client = match DocumentClient::new(timeout, is_secure) {
        Ok(client) => client,
        Err(reason) => {
            tracing::warn!("the documents cannot be fetched: {reason}");
            return Vec::new();
        }
    };
    let mut fetched = Vec::with_capacity(urls.len());
    for some in urls.chunks(FETCHES) {
        fetched
            .extend(futures_util::future::join_all(some.iter().map(|url| client.fetch(url, DOCUMENT_BYTES_MAX))).await);
    }
    let mut documents = Vec::new();
    for (url, result) in urls.iter().zip(fetched) {
        let shown = hide_password(url);
        match result {
            Ok(text) if text.len() <= *room => {
                *room -= text.len();
                documents.push(document(shown, &text));
            }
            Ok(text) => tracing::warn!("the document `{shown}` has {} bytes and is left out", text.len()),
            Err(reason) => tracing::warn!("the document `{shown}` cannot be fetched: {reason}"),
        }
    }
    documents
}

fn document(source: String, text: &str) -> SourceText {
    let is_html = Path::new(&source).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    let is_markup = is_html || text.trim_start().starts_with('<');
    let text = if is_markup { without_tags(text) } else { text.replace("\r\n", "\n") };
    SourceText { source, text }
}

/// The text between tags; scripts and styles are left out. Tags of blocks end a paragraph.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len() / 2);
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let name: String = tail
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
            .collect::<String>()
            .to_ascii_lowercase();
        let end = match name.as_str() {
            "script" => tail.find("</script"),
            "style" => tail.find("</style"),
            _ => tail.find('>'),
        };
        if matches!(name.trim_matches('/'), "p" | "div" | "li" | "tr" | "section" | "br" | "h1" | "h2" | "h3" | "h4") {
            out.push_str("\n\n");
        }
        match end {
            Some(end) if matches!(name.as_str(), "script" | "style") => rest = &tail[end..],
            Some(end) => rest = &tail[end + 1..],
            None => return out,
        }
    }
    out.push_str(rest);
    let entities = [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(out, |text, (entity, plain)| text.replace(entity, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_within_its_bounds_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let outside = tempfile::tempdir().expect("a temporary directory can be made");
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("it can be written");
        std::fs::create_dir(folder.path().join("sub")).expect("it can be made");
        write(&folder.path().join("a.md"), "a");
        write(&folder.path().join("sub/b.txt"), "b");
        write(&folder.path().join(".hidden.md"), "h");
        write(&folder.path().join("image.png"), "p");
        write(&folder.path().join("large.md"), &"x".repeat(DOCUMENT_BYTES_MAX + 1));
        write(&outside.path().join("secret.md"), "s");
        #[cfg(unix)]
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).expect("it can be linked");
        let read = |files_max, mut room| {
            let found = read_folder(folder.path(), files_max, &mut room);
            found.into_iter().map(|document| document.source).collect::<Vec<_>>()
        };
        assert_eq!(read(10, 1_000), ["a.md", "sub/b.txt"]);
        assert_eq!(read(1, 1_000), ["a.md"]);
        assert_eq!(read(10, 1), ["a.md"], "there is room for one byte");
    }

    #[test]
    fn tags_scripts_and_entities_leave_the_text() {
        let text = "<html><script>if (a < b) {}</script><p>Tea &amp; <b>cake</b></p><p>At four</p>";
        let words = without_tags(text).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, "Tea & cake At four");
        assert_eq!(without_tags("open <p"), "open \n\n");
    }
}
