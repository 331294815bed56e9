//! HTTPS at the API, with an authority that each test creates: served, reloaded, refused; page and commands through it.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Authentication, Settings};
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::installation::{Installation, one_step_plan, settings};
use goalmill_tests::process::{Process, Signal, signal};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client, StatusCode, Version};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DAY: Duration = Duration::from_hours(24);
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A certificate authority.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// Certificate and key for these names, in PEM form.
    fn issue(&self, names: &[&str]) -> Result<(String, String)> {
        let default = CertificateParams::default();
        self.issue_until(names, default.not_before.into(), default.not_after.into())
    }

    /// The same, with a time in which the certificate counts.
    fn issue_until(&self, names: &[&str], begin: SystemTime, end: SystemTime) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        (params.not_before, params.not_after) = (begin.into(), end.into());
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }

    /// A client that trusts only this authority, with connections of its own.
    fn client(&self) -> Result<Client> {
        goalmill_http::install_tls();
        Ok(Client::builder().tls_certs_only(Certificate::from_pem_bundle(self.pem.as_bytes())?).build()?)
    }
}

/// The directory of certificate, key and the authority's certificate.
struct Files(TempDir);

impl Files {
    fn new(authority: &Authority, names: &[&str]) -> Result<Self> {
        let files = Self(tempfile::tempdir()?);
        let (cert, key) = authority.issue(names)?;
        files.write(&cert, &key)?;
        std::fs::write(files.ca(), &authority.pem)?;
        Ok(files)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    fn write(&self, cert: &str, key: &str) -> Result<()> {
        std::fs::write(self.path("tls.crt"), cert)?;
        Ok(std::fs::write(self.path("tls.key"), key)?)
    }

    fn settings(&self) -> Settings {
        let mut settings = settings();
        settings.api.tls.cert_file = self.path("tls.crt").display().to_string();
        settings.api.tls.key_file = self.path("tls.key").display().to_string();
        settings.api.tls.reload_ms = 20;
        settings
    }

    /// The same as a file of settings.
    fn settings_file(&self, reload_ms: u64) -> Result<PathBuf> {
        let dir = self.0.path().display();
        let files = format!("cert_file = '{dir}/tls.crt'\nkey_file = '{dir}/tls.key'");
        let text = format!("[api.tls]\n{files}\nreload_ms = {reload_ms}\n");
        std::fs::write(self.path("goalmill.toml"), text)?;
        Ok(self.path("goalmill.toml"))
    }
}

async fn start(settings: Settings, client: Client) -> Result<Installation> {
    let mut it = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    it.http = client;
    Ok(it)
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_their_events_are_served_over_https_by_http_1_and_2() -> Result<()> {
    let authority = Authority::new("one")?;
    let files = Files::new(&authority, &NAMES)?;
    let it = start(files.settings(), authority.client()?).await?;
    assert!(it.url("").starts_with("https://127.0.0.1:"), "{}", it.url(""));
    let plan = it.submit(&one_step_plan("echo")).await?;
    it.await_end(&plan, SOON).await?;
    let old = Client::builder()
        .tls_certs_only(Certificate::from_pem_bundle(authority.pem.as_bytes())?)
        .http1_only()
        .build()?;
    for (client, version) in [(&it.http, Version::HTTP_2), (&old, Version::HTTP_11)] {
        let answer = client.get(it.url("/")).send().await?;
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, version));
        assert!(answer.text().await?.contains("<html"));
        let path = format!("/v1/plans/{plan}/events");
        let mut events = client.get(it.url(&path)).header("Accept", "text/event-stream").send().await?;
        let mut text = String::new();
        while !text.contains("plan_completed") {
            let chunk = events.chunk().await?.with_context(|| format!("the stream has ended: {text}"))?;
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_certificate_is_said_before_it_comes() -> Result<()> {
    let authority = Authority::new("one")?;
    let files = Files::new(&authority, &NAMES)?;
    let mut settings = files.settings();
    settings.metrics.listen = "127.0.0.1:0".into();
    let it = start(settings, authority.client()?).await?;
    let warnings = async || it.get("/readyz").await.map(|ready| ready["warnings"].to_string()).unwrap_or_default();
    until(SOON, async || warnings().await == "[]").await;
    let days = |days: u32| UNIX_EPOCH + Duration::from_millis(Clock::system().now_ms()) + DAY * days;
    let issue = |end| authority.issue_until(&NAMES, UNIX_EPOCH, end);
    let (cert, key) = issue(days(13))?;
    files.write(&cert, &key)?;
    until(SOON, async || warnings().await.contains("the certificate of the API ends at")).await;
    let said = program().args(["--server", &it.url(""), "--ca-file"]).arg(files.ca()).arg("doctor").output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("in 12 days") && said.contains("renew it"), "{said}");
    let metrics = it.schedulers[0].metrics().context("the settings name an address")?;
    let end = async || {
        let answer = Client::new().get(format!("http://{metrics}/metrics")).send().await.ok()?.text().await.ok()?;
        let line =
            answer.lines().find_map(|line| line.strip_prefix("goalmill_tls_certificate_expiration_timestamp_seconds "));
        line?.parse::<f64>().ok()
    };
    let expected = days(13).duration_since(UNIX_EPOCH)?.as_secs_f64();
    until(SOON, async || end().await.is_some_and(|end| (expected - 60.0..expected + 60.0).contains(&end))).await;
    let (cert, key) = issue(days(400))?;
    files.write(&cert, &key)?;
    until(SOON, async || warnings().await == "[]").await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_the_page_works_over_https() -> Result<()> {
    let authority = Authority::new("one")?;
    let files = Files::new(&authority, &NAMES)?;
    let mut it = start(files.settings(), authority.client()?).await?;
    let new = json!({"actor": "ann", "roles": ["viewer"]});
    let (_, created) = it.post("/v1/tokens", &new).await?;
    let open = it.schedulers.remove(0);
    it.settings.api.authentication = Authentication::Required;
    it.add_scheduler().await?;
    open.stop().await;
    assert_eq!(it.http.get(it.url("/v1/plans")).send().await?.status(), StatusCode::UNAUTHORIZED);
    let answer = it.http.post(it.url("/v1/session")).json(&json!({"token": created["token"]}));
    let answer = answer.header("origin", it.url("")).send().await?;
    let cookie = answer.headers()["set-cookie"].to_str()?.to_owned();
    assert!(cookie.starts_with("__Host-goalmill=") && cookie.contains("; Secure"), "{cookie}");
    let pair = cookie.split(';').next().context("it has a value")?;
    let view: Value = it.http.get(it.url("/v1/session")).header("cookie", pair).send().await?.json().await?;
    assert_eq!((&view["actor"], &view["authentication"]), (&json!("ann"), &json!("session")));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_certificate_is_served_to_new_connections_without_a_restart() -> Result<()> {
    let (one, two) = (Authority::new("one")?, Authority::new("two")?);
    let files = Files::new(&one, &NAMES)?;
    let it = start(files.settings(), one.client()?).await?;
    let answers = async |client: Client| client.get(it.url("/livez")).send().await.is_ok();
    assert!(answers(one.client()?).await && !answers(two.client()?).await);
    let (cert, key) = two.issue(&NAMES)?;
    files.write(&cert, &key)?;
    until(SOON, async || answers(two.client().expect("a client can be made")).await).await;
    assert!(!answers(one.client()?).await, "the old certificate is not served any more");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_plain_http_are_refused() -> Result<()> {
    let (one, two) = (Authority::new("one")?, Authority::new("two")?);
    let files = Files::new(&one, &["localhost"])?;
    let it = start(files.settings(), one.client()?).await?;
    let api = it.schedulers[0].api().context("the settings name an address")?;
    let named = format!("https://localhost:{}/livez", api.port());
    assert_eq!(one.client()?.get(&named).send().await?.status(), StatusCode::OK);
    for (client, url) in [(two.client()?, &named), (one.client()?, &it.url("/livez"))] {
        let error = client.get(url).send().await.err().with_context(|| format!("{url} is trusted"))?;
        assert!(format!("{error:?}").contains("InvalidCertificate"), "{error:?}");
    }
    let mut plain = TcpStream::connect(api).await?;
    plain.write_all(format!("GET /v1/plans HTTP/1.1\r\nHost: {api}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await?;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("https://"), "{answer}");
    // Nothing, and half a handshake, end nobody else's service.
    let mut silent = TcpStream::connect(api).await?;
    silent.write_all(&[22, 3, 1]).await?;
    let mut odd = TcpStream::connect(api).await?;
    odd.write_all(&[0; 100]).await?;
    assert_eq!(one.client()?.get(&named).send().await?.status(), StatusCode::OK);
    it.stop().await;
    Ok(())
}

/// Runs a client command with this file of authorities.
async fn command(server: &str, ca: Option<&Path>, words: &'static [&'static str]) -> Result<(i32, String)> {
    let mut command = program();
    command.args(words).args(["--server", server]);
    if let Some(ca) = ca {
        command.env("GOALMILL_CA_FILE", ca);
    }
    let ran = tokio::task::spawn_blocking(move || command.output()).await??;
    let Output { status, stdout, stderr } = ran;
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    Ok((status.code().context("the program ended by itself")?, text))
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_trust_the_authority_of_a_file() -> Result<()> {
    let authority = Authority::new("one")?;
    let files = Files::new(&authority, &NAMES)?;
    let ca = files.ca();
    let config = std::fs::read_to_string(files.settings_file(1_000)?)?;
    let dev = Dev::start_in(&[], &config, &[("GOALMILL_CA_FILE", ca.to_str().context("it is text")?)]).await?;
    assert!(dev.server().starts_with("https://"), "{}", dev.server());
    let list = &["plan", "list"];
    let (code, text) = command(dev.server(), Some(&ca), list).await?;
    assert_eq!(code, 0, "{text}");
    let (code, text) = command(dev.server(), Some(&ca), &["submit", "Plan a 3-day trip to Paris", "--watch"]).await?;
    assert_eq!(code, 0, "{text}");
    let (code, text) = command(dev.server(), None, list).await?;
    assert!(code == 69 && text.contains("GOALMILL_CA_FILE"), "{code} {text}");
    let (code, text) = command(&dev.server().replace("https://", "http://"), None, list).await?;
    assert!(code != 0 && text.contains("https://"), "{code} {text}");
    for file in [Path::new("/nowhere/ca.crt"), &files.path("tls.key")] {
        let (code, text) = command(dev.server(), Some(file), list).await?;
        let name = file.display().to_string();
        assert!(code == 2 && text.contains(&name) && !text.contains("PRIVATE"), "{code} {text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_keeps_the_old_certificate_and_a_hangup_reads_the_files_again() -> Result<()> {
    let (one, two) = (Authority::new("one")?, Authority::new("two")?);
    let files = Files::new(&one, &NAMES)?;
    let redis = RedisServer::start().await?;
    // An hour: only the signal has the files read.
    let config = files.settings_file(3_600_000)?.display().to_string();
    let words = [
        "scheduler",
        "--config",
        &config,
        "--redis",
        &redis.url(),
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
    ];
    let mut process = Process::start(&words, &files.path("log"))?;
    let last = |line: String| line.split_whitespace().last().map(|word| word.trim_matches('"').to_owned());
    let api = last(process.wait_line("the api listens on https://", SOON).await?).context("it has an address")?;
    let metrics = last(process.wait_line("the metrics are at", SOON).await?).context("it has an address")?;
    let answers = async |client: Client| client.get(format!("{api}/livez")).send().await.is_ok();
    assert!(answers(one.client()?).await);
    std::fs::write(files.path("tls.crt"), "no certificate")?;
    signal(process.pid(), Signal::SIGHUP)?;
    let said = process.wait_line("the certificate in use is kept", SOON).await?;
    ensure!(said.contains("tls.crt") && said.contains("api.tls.cert_file"), "{said}");
    assert!(answers(one.client()?).await, "the old certificate is served");
    let counted = one.client()?.get(&metrics).send().await?.text().await?;
    assert!(counted.contains("goalmill_tls_reloads_total{outcome=\"failed\"} 1"), "{counted}");
    let (cert, key) = two.issue(&NAMES)?;
    files.write(&cert, &key)?;
    assert!(!answers(two.client()?).await);
    signal(process.pid(), Signal::SIGHUP)?;
    until(SOON, async || answers(two.client().expect("a client can be made")).await).await;
    process.terminate()?;
    assert!(process.wait_exit(SOON).await?.success());
    let log = process.output();
    assert!(!log.contains("PRIVATE KEY"), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_files_are_refused_at_the_start() -> Result<()> {
    let authority = Authority::new("one")?;
    let files = Files::new(&authority, &NAMES)?;
    let (cert, _) = authority.issue(&NAMES)?;
    std::fs::write(files.path("tls.crt"), cert)?;
    let started = Installation::start(embedded::open(None, Clock::system())?, files.settings()).await;
    let error = started.err().context("the key is that of another certificate")?.to_string();
    assert!(error.contains("tls.key") && error.contains("is not that of the first certificate"), "{error}");
    let config = files.settings_file(1_000)?.display().to_string();
    let words = ["dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config", &config];
    let output = tokio::task::spawn_blocking({
        let mut command = program();
        command.args(words);
        move || command.output()
    });
    let output = output.await??;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(8) && text.contains("tls.key"), "{text}");
    Ok(())
}
