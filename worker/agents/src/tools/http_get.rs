//! Tool `http_get`: reads a page or a document from the web.
//!
//! Every host is resolved once, all of its addresses are checked, and the connection goes to these addresses only.
//! Redirects are followed one by one with the same checks.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use goalmill_common::task::Task;
use goalmill_http::client_failure;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Response, Url, redirect};
use serde::Deserialize;
use serde_json::{Value, json};

use super::address_guard::AddressGuard;
use super::{AgentTool, text_of};

/// Columns of the text of a converted page.
const PAGE_WIDTH: usize = 100;
/// Characters of an address.
const URL_CHARS_MAX: usize = 2_048;

/// Fields of the tool in the settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HttpGetSettings {
    /// Hosts that may be read: `example.org`, or `*.example.org` for all subdomains. Any host, if empty.
    allow_hosts: Vec<String>,
    /// Addresses and ranges that may be reached although they are not public: `10.0.0.0/8`.
    allow_addresses: Vec<String>,
    /// Bytes of one document.
    bytes_max: usize,
    /// Milliseconds of one call, including its redirects.
    timeout_ms: u64,
    redirects_max: u32,
}

impl Default for HttpGetSettings {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            allow_addresses: Vec::new(),
            bytes_max: 1 << 20,
            timeout_ms: 20_000,
            redirects_max: 5,
        }
    }
}

/// The tool.
pub(super) struct HttpGet {
    settings: HttpGetSettings,
    guard: AddressGuard,
}

impl HttpGet {
    pub fn new(settings: HttpGetSettings) -> Result<Self, String> {
        let guard = AddressGuard::new(&settings.allow_addresses)?;
        Ok(Self { settings, guard })
    }

    async fn get(&self, url: &str) -> Result<Value, String> {
        let mut url = self.check_url(Url::parse(url).map_err(|error| format!("this is no address: {error}"))?)?;
        for _ in 0..=self.settings.redirects_max {
            let response = self.request(&url).await?;
            if !response.status().is_redirection() {
                return self.read_document(&url, response).await;
            }
            let target = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            let target = target.ok_or("the server redirects to nowhere")?;
            url =
                self.check_url(url.join(target).map_err(|error| format!("the server redirects wrongly: {error}"))?)?;
        }
        Err("the server redirects too often".into())
    }

    fn check_url(&self, url: Url) -> Result<Url, String> {
        if !["http", "https"].contains(&url.scheme()) {
            return Err(format!("`{}` addresses cannot be read; use `http` or `https`", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an address with a user name or a password is not read".into());
        }
        if url.as_str().len() > URL_CHARS_MAX {
            return Err(format!("the address has more than {URL_CHARS_MAX} characters"));
        }
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let is_allowed = |pattern: &String| match pattern.strip_prefix("*.") {
            Some(end) => host.strip_suffix(end).is_some_and(|start| start.ends_with('.')),
            None => host == *pattern,
        };
        let hosts = &self.settings.allow_hosts;
        if hosts.is_empty() || hosts.iter().any(is_allowed) {
            Ok(url)
        } else {
            Err(format!("the settings do not allow the host `{host}`; allowed: {}", hosts.join(", ")))
        }
    }

    /// Sends one request to the checked addresses of the host.
    async fn request(&self, url: &Url) -> Result<Response, String> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let addresses = self.resolve(&host, url.port_or_known_default().unwrap_or(80)).await?;
        let failed = |error: reqwest::Error| client_failure(&error.without_url());
        let builder = goalmill_http::client(url.scheme() == "https")
            .no_proxy()
            .redirect(redirect::Policy::none())
            .resolve_to_addrs(&host, &addresses);
        let client = builder.build().map_err(failed)?;
        let accepted = "text/html, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8";
        client.get(url.clone()).header(ACCEPT, accepted).send().await.map_err(failed)
    }

    /// All addresses of a host; an error if one of them may not be reached.
    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let addresses: Vec<SocketAddr> = match literal {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => match tokio::net::lookup_host((host, port)).await {
                Ok(found) => found.collect(),
                Err(_) => return Err(format!("the host `{host}` is not known")),
            },
        };
        match addresses.iter().find(|address| !self.guard.may_reach(address.ip())) {
            Some(_) => {
                Err(format!("the host `{host}` is not on the public Internet and is not allowed by the settings"))
            }
            None if addresses.is_empty() => Err(format!("the host `{host}` has no address")),
            None => Ok(addresses),
        }
    }

    async fn read_document(&self, url: &Url, response: Response) -> Result<Value, String> {
        let status = response.status().as_u16();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("text/plain");
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !is_text(&kind) {
            return Err(format!("the document is `{kind}`; only text, HTML, JSON and XML are read"));
        }
        let (bytes, is_cut) = self.read_body(response).await?;
        let text = if kind.ends_with("html") || kind.ends_with("xhtml+xml") {
            let rendered = tokio::task::spawn_blocking(move || html2text::from_read(&*bytes, PAGE_WIDTH));
            let rendered = rendered.await.map_err(|_| "the page cannot be read".to_owned())?;
            rendered.map_err(|error| format!("the page cannot be read: {error}"))?
        } else {
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ok(json!({"url": url.as_str(), "status": status, "type": kind, "is_cut": is_cut, "text": text}))
    }

    /// The body up to the limit, and whether the body is longer.
    async fn read_body(&self, response: Response) -> Result<(Vec<u8>, bool), String> {
        let (mut bytes, mut pieces) = (Vec::new(), response.bytes_stream());
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| client_failure(&error.without_url()))?;
            let room = self.settings.bytes_max.saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                return Ok((bytes, true));
            }
        }
        Ok((bytes, false))
    }
}

fn is_text(kind: &str) -> bool {
    let known = ["application/json", "application/xml", "application/xhtml+xml", "application/yaml"];
    kind.starts_with("text/") || known.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml")
}

#[async_trait]
impl AgentTool for HttpGet {
    fn name(&self) -> &'static str {
        "http_get"
    }

    fn description(&self) -> &'static str {
        "Reads a page or a document from the web by its address; HTML becomes text."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["url"],
            "properties": {"url": {"type": "string", "description": "begins with http:// or https://"}},
        })
    }

    fn is_read_only(&self) -> bool {
        true
    }

    async fn run(&self, arguments: &Value, _: &Task) -> Result<Value, String> {
        let limit = Duration::from_millis(self.settings.timeout_ms);
        let read = tokio::time::timeout(limit, self.get(text_of(arguments, "url"))).await;
        read.unwrap_or_else(|_| Err(format!("the server did not answer within {} ms", self.settings.timeout_ms)))
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::response::{Html, IntoResponse, Redirect};
    use axum::routing::get;
    use tokio::net::TcpListener;
    use tokio_util::task::TaskTracker;

    use super::*;

    async fn serve() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let to = |target: String| move || async move { Redirect::temporary(&target) };
        let router = Router::new()
            .route("/page", get(|| async { Html("<h1>Title</h1><script>alert(1)</script><p>Hello <b>you</b></p>") }))
            .route("/long", get(|| async { "x".repeat(5_000) }))
            .route("/image", get(|| async { ([(CONTENT_TYPE.as_str(), "image/png")], vec![1_u8]).into_response() }))
            .route("/missing", get(|| async { (StatusCode::NOT_FOUND, "nothing here") }))
            .route("/near", get(to("/page".into())))
            .route("/loop", get(to("/loop".into())))
            .route("/metadata", get(to("http://169.254.169.254/latest".into())))
            .route("/other", get(to(format!("http://127.0.0.2:{port}/page"))))
            .route("/file", get(to("file:///etc/passwd".into())));
        TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
        port
    }

    fn tool(fields: Value) -> HttpGet {
        let settings = serde_json::from_value(fields).expect("the settings are valid");
        HttpGet::new(settings).expect("the settings are valid")
    }

    #[tokio::test]
    async fn pages_become_text_and_limits_hold() {
        let base = format!("http://127.0.0.1:{}", serve().await);
        let tool = tool(json!({"allow_addresses": ["127.0.0.1"], "bytes_max": 1_000}));
        for path in ["/page", "/near"] {
            let page = tool.get(&format!("{base}{path}")).await.expect("the page is there");
            let text = page["text"].as_str().expect("it has a text");
            assert!(text.contains("Title") && text.contains("you") && !text.contains("alert"), "{text}");
        }
        let long = tool.get(&format!("{base}/long")).await.expect("it is cut");
        assert_eq!((long["text"].as_str().map(str::len), &long["is_cut"]), (Some(1_000), &json!(true)));
        assert_eq!(tool.get(&format!("{base}/missing")).await.expect("it is told")["status"], 404);
        for (path, part) in [("/image", "image/png"), ("/loop", "too often"), ("/file", "`file`")] {
            let refused = tool.get(&format!("{base}{path}")).await.expect_err("it is refused");
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[tokio::test]
    async fn addresses_that_are_not_public_are_refused_also_after_a_redirect() {
        let port = serve().await;
        let open = tool(json!({"allow_addresses": ["127.0.0.1"]}));
        for path in ["/metadata", "/other"] {
            let refused = open.get(&format!("http://127.0.0.1:{port}{path}")).await.expect_err("it is refused");
            assert!(refused.contains("not on the public Internet"), "{refused}");
        }
        let closed = tool(json!({}));
        for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0"] {
            let refused = closed.get(&format!("http://{host}:{port}/page")).await.expect_err("it is refused");
            assert!(refused.contains("not on the public Internet"), "{host}: {refused}");
        }
        for url in ["ftp://example.org/", "http://user:key@example.org/", "data:text/plain,x", "example.org", ""] {
            assert!(closed.get(url).await.is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn only_allowed_hosts_are_read() {
        let tool = tool(json!({"allow_hosts": ["example.org", "*.example.com"]}));
        for (url, is_allowed) in [
            ("http://example.org/a", true),
            ("http://EXAMPLE.org/", true),
            ("http://a.example.com/", true),
            ("http://example.com/", false),
            ("http://evilexample.com/", false),
            ("http://example.org.evil.test/", false),
        ] {
            let url = Url::parse(url).expect("it is an address");
            assert_eq!(tool.check_url(url.clone()).is_ok(), is_allowed, "{url}");
        }
    }
}
