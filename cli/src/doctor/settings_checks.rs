//! Checks of the settings, and of the services that they name.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use goalmill_common::config::{ArchiveKind, Loaded, environment, hide_password};
use goalmill_common::id::AgentType;
use reqwest::Url;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{Checks, Level};

/// The port of an address of PostgreSQL that names none.
const POSTGRES_PORT: u16 = 5432;
/// The longest wait for a service.
const ANSWER: Duration = Duration::from_secs(3);

pub(super) fn check_settings(loaded: &Loaded, checks: &mut Checks) {
    let changed = loaded.origins.len();
    let files: BTreeMap<String, usize> = loaded.origins.values().fold(BTreeMap::new(), |mut files, origin| {
        *files.entry(origin.to_string()).or_default() += 1;
        files
    });
    let from = files.into_keys().collect::<Vec<_>>().join(", ");
    checks.ok(
        "settings",
        if changed == 0 { "all defaults".into() } else { format!("{changed} not default, from {from}") },
    );
    for found in loaded.without_effect() {
        let detail = format!("`{}` has no effect without {} (from {})", found.path, found.needs, found.origin);
        checks.add(Level::Warning, "settings", detail, format!("set {}, or remove the setting", found.needs));
    }
}

/// Reaches the archive, the agents over HTTP, and the address of callbacks.
pub(super) async fn check_services(loaded: &Loaded, checks: &mut Checks) {
    check_archive(loaded, checks).await;
    let agents = loaded.settings.worker.agents.iter();
    for (agent_type, url) in agents.filter_map(|(agent_type, entry)| Some((agent_type, http_url(entry)?))) {
        check_agent(agent_type, url, checks).await;
    }
    let callbacks = &loaded.settings.api.callback_url;
    if !callbacks.is_empty()
        && let Err(error) = reach(callbacks).await
    {
        let detail = format!(
            "callbacks of agents cannot arrive: {} (`api.callback_url`) {error} from here",
            hide_password(callbacks)
        );
        let fix = "let `api.callback_url` be an address of the API that agents reach";
        checks.add(Level::Warning, "callbacks", detail, fix);
    }
}

async fn check_archive(loaded: &Loaded, checks: &mut Checks) {
    let settings = &loaded.settings.archive;
    // Opening the archive would bring its schema up to date, which is for schedulers.
    let found = match settings.store {
        ArchiveKind::None => return,
        ArchiveKind::Sqlite => find_file(Path::new(&settings.path)),
        ArchiveKind::Postgres => match environment(&settings.url_env) {
            Some(url) => reach(&url).await,
            None => Err(format!("the environment variable `{}` (`archive.url_env`) is not set", settings.url_env)),
        },
    };
    match found {
        Ok(()) => checks.ok("archive", "can be reached"),
        Err(error) => {
            let fix = "check the server or file, and `archive` in the settings: goalmill config archive";
            checks.add(Level::Problem, "archive", format!("finished plans cannot be archived: {error}"), fix);
        }
    }
}

async fn check_agent(agent_type: &AgentType, url: &str, checks: &mut Checks) {
    match reach(url).await {
        Ok(()) => checks.ok("agents", format!("`{agent_type}` at {} can be reached", hide_password(url))),
        Err(error) => {
            let fix = format!("start the service, or correct `worker.agents.{agent_type}.url`");
            checks.add(Level::Problem, "agents", format!("`{agent_type}`: {} {error}", hide_password(url)), fix);
        }
    }
}

/// Whether a file can be written, or be made.
fn find_file(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = if path.exists() {
        OpenOptions::new().read(true).write(true).open(path).map(drop)
    } else {
        folder.metadata().map(drop)
    };
    found.map_err(|error| format!("{}: {error}", path.display()))
}

/// The address of an agent over HTTP.
fn http_url(entry: &Value) -> Option<&str> {
    (entry["kind"] == "http").then(|| entry["url"].as_str())?
}

/// Opens a connection to the server of an address. No request is sent: it might do work.
async fn reach(url: &str) -> Result<(), String> {
    let parsed = Url::parse(url).map_err(|error| format!("is no address: {error}"))?;
    let port = parsed.port_or_known_default().or(parsed.scheme().starts_with("postgres").then_some(POSTGRES_PORT));
    let (host, port) = parsed.host_str().zip(port).ok_or("names no server")?;
    let host = host.trim_matches(['[', ']']);
    match tokio::time::timeout(ANSWER, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("cannot be reached: {error}")),
        Err(_) => Err(format!("cannot be reached: no answer in {} s", ANSWER.as_secs())),
    }
}
