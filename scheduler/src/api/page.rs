//! The web page: files of `scheduler/page`, embedded in the program. They need no sign-in; what they show does.

use std::borrow::Cow;
use std::path::Path;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ring::digest::{SHA256, digest};

use super::Api;

/// What the page may load: only its own files.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                                       connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct PageFile {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! page_files {
    ($($name:literal,)+) => {
        &[$(PageFile { name: $name, bytes: include_bytes!(concat!("../../page/", $name)) },)+]
    };
}

/// All files; `index.html` is served at `/`.
static FILES: &[PageFile] = page_files![
    "index.html", "page.css", "icon.svg", "theme.js", "app.js", "dom.js", "api.js", "format.js", "replay.js",
    "parts.js", "actions.js", "graph.js", "timeline.js", "plans.js", "plan.js", "step.js", "approvals.js", "editor.js",
    "playground.js", "stored.js", "items.js", "installation.js", "logs.js", "compare.js", "drafts.js", "vocabulary.js",
    "bulk.js", "forms.js", "waits.js", "transcript.js", "replies.js", "itemcards.js", "views.js", "trends.js",
    "tokens.js",
];

/// The routes of the page.
pub(super) fn routes() -> Router<Api> {
    let index = |headers: HeaderMap| async move { respond(&FILES[0], &headers) };
    FILES.iter().skip(1).fold(Router::new().route("/", get(index)), |router, file| {
        let serve = move |headers: HeaderMap| async move { respond(file, &headers) };
        router.route(&format!("/page/{}", file.name), get(serve))
    })
}

/// Whether the router's path is that of a file of the page.
pub(super) fn is_page(path: &str) -> bool {
    path == "/" || FILES.iter().any(|file| path.strip_prefix("/page/") == Some(file.name))
}

fn respond(file: &PageFile, asked: &HeaderMap) -> Response {
    let bytes = content(file);
    let hash: String = digest(&SHA256, &bytes).as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Weak: the file may be sent compressed or not.
    let tag = format!("W/\"{hash}\"");
    let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type(file.name))),
        // Browsers ask each time whether their copy is still right.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, value(&tag)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    let is_known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, bytes).into_response()
}

/// The embedded content; in debug builds that of the source tree where it is there, so that an edit needs no build.
fn content(file: &PageFile) -> Cow<'static, [u8]> {
    let edited = cfg!(debug_assertions).then(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("page").join(file.name);
        std::fs::read(source).ok().map(Cow::Owned)
    });
    edited.flatten().unwrap_or(Cow::Borrowed(file.bytes))
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of all files together, in bytes.
    const BYTES_MAX: usize = 400_000;

    #[test]
    fn every_file_is_served_and_they_are_small_together() {
        let sizes: usize = FILES.iter().map(|file| file.bytes.len()).sum();
        assert!(sizes < BYTES_MAX, "{sizes} bytes");
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found: Vec<String> = std::fs::read_dir(directory)
            .expect("the directory can be read")
            .map(|entry| entry.expect("it is readable").file_name().to_string_lossy().into_owned())
            .collect();
        found.sort();
        let mut served: Vec<&str> = FILES.iter().map(|file| file.name).collect();
        served.sort_unstable();
        assert_eq!(found, served);
    }

    #[test]
    fn a_file_has_its_type_a_policy_and_a_tag() {
        let response = respond(&FILES[0], &HeaderMap::new());
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], CONTENT_SECURITY_POLICY);
        let known = HeaderMap::from_iter([(header::IF_NONE_MATCH, response.headers()[header::ETAG].clone())]);
        assert_eq!(respond(&FILES[0], &known).status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn no_file_has_inline_scripts_styles_or_foreign_addresses() {
        for file in FILES {
            let text = String::from_utf8_lossy(file.bytes);
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "style=\""]
            {
                assert!(!text.contains(forbidden), "{}: {forbidden}", file.name);
            }
        }
    }
}
