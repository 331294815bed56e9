//! Answers of schedulers and workers while Redis, the archive or the identity provider is away at their start.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use goalmill_tests::dev::program;
use goalmill_tests::installation::http_client;
use goalmill_tests::process::Process;
use goalmill_tests::proxy::Proxy;
use goalmill_tests::redis_server::{self, RedisServer, free_port};
use goalmill_tests::wait::{SOON, until_some};
use serde_json::Value;

/// A process that was started, with the addresses of its HTTP ports.
struct Role {
    process: Process,
    base: String,
    metrics: String,
    _dir: tempfile::TempDir,
}

/// What an address answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    retry_after: Option<String>,
    text: String,
}

impl Answer {
    fn problem(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| self.text.clone())
    }
}

impl Role {
    fn scheduler(redis: &str, settings: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let (api, metrics) = (free_port()?, free_port()?);
        let words = ["scheduler", "--metrics", &format!("127.0.0.1:{metrics}")].map(str::to_owned);
        Self::start(words.to_vec(), redis, settings, environment, api, metrics)
    }

    fn worker(redis: &str) -> Result<Self> {
        let port = free_port()?;
        Self::start(vec!["worker".into(), "--demo".into()], redis, "", &[], port, port)
    }

    fn start(
        words: Vec<String>,
        redis: &str,
        settings: &str,
        environment: &[(&str, &str)],
        api: u16,
        metrics: u16,
    ) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("goalmill.toml");
        std::fs::write(&file, settings)?;
        let mut command = program();
        command.args(words).args(["--redis", redis, "--listen", &format!("127.0.0.1:{api}"), "--config"]).arg(file);
        command.envs(environment.iter().copied());
        let process = Process::spawn(&mut command, &dir.path().join("log"))?;
        let url = |port| format!("http://127.0.0.1:{port}");
        Ok(Self { process, base: url(api), metrics: url(metrics), _dir: dir })
    }

    async fn get(&self, url: &str) -> Result<Answer> {
        let answer = http_client().get(url).send().await?;
        let retry_after =
            answer.headers().get("retry-after").map(|value| value.to_str().map(str::to_owned)).transpose()?;
        Ok(Answer { status: answer.status().as_u16(), retry_after, text: answer.text().await? })
    }

    /// Waits until an address answers with a status and a text that has `part`.
    async fn answers(&self, path: &str, status: u16, part: &str) -> Result<Answer> {
        let url = format!("{}{path}", if path == "/metrics" { &self.metrics } else { &self.base });
        let found = until_some(SOON, async || {
            self.get(&url).await.ok().filter(|answer| answer.status == status && answer.text.contains(part))
        });
        found.await.with_context(|| format!("{url} never said {status} `{part}`: {}", self.process.output()))
    }

    /// Asserts what a scheduler answers while it waits for `reason`.
    async fn waits_for(&self, reason: &str) -> Result<()> {
        self.answers("/livez", 200, "ok").await?;
        let unready = self.answers("/readyz", 503, reason).await?;
        assert_eq!(unready.problem()?["code"], "STORE_UNAVAILABLE", "{unready:?}");
        for path in ["/v1/plans", "/v1/scaling/echo", "/", "/nowhere"] {
            let refused = self.get(&format!("{}{path}", self.base)).await?;
            assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")), "{path}: {refused:?}");
            assert_eq!(refused.problem()?["code"], "STORE_UNAVAILABLE", "{path}");
        }
        let metrics = self.answers("/metrics", 200, "goalmill_redis_up 0").await?;
        for part in ["goalmill_scheduler_leader 0", "goalmill_build_info{", "commit=\""] {
            ensure!(metrics.text.contains(part), "{part}: {metrics:?}");
        }
        Ok(())
    }

    async fn becomes_ready(&mut self) -> Result<()> {
        let base = self.base.clone();
        self.process.wait_ready(&base, SOON).await
    }
}

/// A server with a user, and the address of that user.
async fn with_user(password: &str) -> Result<(RedisServer, String)> {
    let server = RedisServer::start().await?;
    send(&server, "ACL SETUSER someone on >right ~* &* +@all").await?;
    let url = format!("redis://someone:{password}@127.0.0.1:{}", server.port());
    Ok((server, url))
}

async fn send(server: &RedisServer, line: &str) -> Result<()> {
    redis_server::send(&mut server.connection().await?, line).await.map(drop).with_context(|| line.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_whose_redis_refuses_connections_answers_probes_and_becomes_ready() -> Result<()> {
    let mut server = RedisServer::start().await?;
    server.kill9();
    let mut scheduler = Role::scheduler(&server.url(), "", &[])?;
    scheduler.waits_for("refused").await?;
    server.restart().await?;
    scheduler.becomes_ready().await?;
    for part in ["goalmill_redis_up 1", "goalmill_shards_owned 4", "goalmill_shards 4", "goalmill_shards_taken_total 4"]
    {
        scheduler.answers("/metrics", 200, part).await?;
    }
    // The same address now is the whole API.
    let plans = scheduler.get(&format!("{}/v1/plans", scheduler.base)).await?;
    assert_eq!(plans.status, 200, "{plans:?}");
    Ok(())
}

/// The checks of `doctor` by topic, and its exit code.
async fn doctor(redis: &str, server: &str, flags: &[&str]) -> Result<(Vec<Value>, Option<i32>)> {
    let mut command = program();
    command.args(["doctor", "--redis", redis, "--server", server, "-o", "json"]).args(flags);
    let ran = tokio::task::spawn_blocking(move || command.output()).await??;
    let report: Value = serde_json::from_slice(&ran.stdout)
        .with_context(|| format!("{} {}", ran.status, String::from_utf8_lossy(&ran.stderr)))?;
    Ok((report["checks"].as_array().context("there are checks")?.clone(), ran.status.code()))
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_what_is_away_and_waits_for_it() -> Result<()> {
    let mut server = RedisServer::start().await?;
    server.kill9();
    let scheduler = Role::scheduler(&server.url(), "", &[])?;
    scheduler.waits_for("refused").await?;
    let (checks, code) = doctor(&server.url(), &scheduler.base, &[]).await?;
    assert_eq!(code, Some(1), "{checks:#?}");
    let topics = |checks: &[Value], level: &str| {
        let of_level = checks.iter().filter(|check| check["level"] == level);
        of_level.filter_map(|check| check["topic"].as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(topics(&checks, "ok"), "settings");
    assert_eq!(topics(&checks, "problem"), "scheduler redis");
    let has_fix = |check: &Value| check["hint"].as_str().is_some_and(|hint| !hint.is_empty());
    assert!(checks.iter().filter(|check| check["level"] == "problem").all(has_fix), "{checks:#?}");

    let (url, base) = (server.url(), scheduler.base.clone());
    #[expect(clippy::disallowed_methods, reason = "the handle is kept, and awaited")]
    let waiting = tokio::spawn(async move { doctor(&url, &base, &["--wait", "5m"]).await });
    server.restart().await?;
    let (checks, code) = waiting.await??;
    assert_eq!((code, topics(&checks, "problem").as_str()), (Some(0), ""), "{checks:#?}");
    for topic in ["scheduler", "settings", "redis", "queues", "workers"] {
        assert!(checks.iter().any(|check| check["topic"] == topic), "{topic}: {checks:#?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_whose_redis_is_silent_answers_probes_and_becomes_ready() -> Result<()> {
    let server = RedisServer::start().await?;
    let proxy = Proxy::start(server.port()).await?;
    proxy.black_hole();
    let mut scheduler = Role::scheduler(&proxy.url(), "", &[])?;
    scheduler.waits_for("redis cannot be reached").await?;
    proxy.heal();
    scheduler.becomes_ready().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_with_a_wrong_password_says_so_and_takes_the_right_one_once_redis_has_it() -> Result<()> {
    let (server, url) = with_user("wrong").await?;
    let mut scheduler = Role::scheduler(&url, "", &[])?;
    scheduler.answers("/livez", 200, "ok").await?;
    let said = scheduler.answers("/readyz", 503, "authentication failed").await?;
    ensure!(!said.text.contains("wrong@") && !scheduler.process.output().contains("wrong@"), "{said:?}");
    send(&server, "ACL SETUSER someone resetpass >wrong").await?;
    scheduler.becomes_ready().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_whose_redis_has_no_address_yet_answers_probes() -> Result<()> {
    Role::scheduler("redis://no-such-host.invalid:6379", "", &[])?.waits_for("redis cannot be reached").await
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_end_a_scheduler_without_waiting_for_redis() -> Result<()> {
    let nobody = format!("redis://127.0.0.1:{}", free_port()?);
    let settings =
        "[api.oidc]\nissuer = \"https://127.0.0.1:1\"\naudiences = [\"x\"]\nroles = { viewer = [\"all\"] }\n";
    let mut scheduler = Role::scheduler(&nobody, settings, &[])?;
    let status = scheduler.process.wait_exit(SOON).await?;
    assert_eq!(status.code(), Some(8), "{}", scheduler.process.output());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_is_ready_while_the_archive_and_the_identity_provider_are_away() -> Result<()> {
    let server = RedisServer::start().await?;
    let silent = Proxy::start(server.port()).await?;
    silent.black_hole();
    let settings = "[archive]\nstore = \"postgres\"\nurl_env = \"ARCHIVE_OF_THE_TEST\"\n\
                    [api]\nauthentication = \"required\"\nadmin_token_env = \"TOKEN_OF_THE_TEST\"\n\
                    [api.oidc]\nissuer = \"http://127.0.0.1:1\"\naudiences = [\"x\"]\nroles = { viewer = [\"all\"] }\n";
    let refused = "postgres://a:b@127.0.0.1:1/c".to_owned();
    for archive in [refused, format!("postgres://a:b@127.0.0.1:{}/c", silent.port())] {
        let token = "a-token-of-thirty-two-characters-or-more";
        let environment = BTreeMap::from([("ARCHIVE_OF_THE_TEST", archive.as_str()), ("TOKEN_OF_THE_TEST", token)]);
        let environment: Vec<(&str, &str)> = environment.into_iter().collect();
        let mut scheduler = Role::scheduler(&server.url(), settings, &environment)?;
        scheduler.answers("/livez", 200, "ok").await?;
        scheduler.becomes_ready().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_redis_is_away_answers_probes_and_becomes_ready() -> Result<()> {
    let server = RedisServer::start().await?;
    let proxy = Proxy::start(server.port()).await?;
    for away in [Proxy::cut, Proxy::black_hole] {
        away(&proxy);
        let mut worker = Role::worker(&proxy.url())?;
        worker.answers("/livez", 200, "ok").await?;
        worker.answers("/readyz", 503, "redis").await?;
        worker.answers("/metrics", 200, "goalmill_worker_slots").await?;
        // A worker is ready only beside an installation.
        proxy.heal();
        let mut scheduler = Role::scheduler(&server.url(), "", &[])?;
        scheduler.becomes_ready().await?;
        worker.becomes_ready().await?;
    }
    Ok(())
}
