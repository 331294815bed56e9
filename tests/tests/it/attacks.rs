//! Attacks on an API that requires authentication, one row each: what is sent, and the answer that docs/access.md names.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_broker::{DeadLetter, embedded};
use goalmill_common::access::Role;
use goalmill_common::clock::Clock;
use goalmill_common::config::Authentication;
use goalmill_common::id::PlanId;
use goalmill_tests::installation::{Installation, one_step_plan, settings};
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::docs::read;
use crate::oidc::provider::{Provider, SigningKey, sign_with_secret};

/// One attack.
struct Attack {
    name: &'static str,
    /// The request as it is sent, line by line; words in braces are those of [`Target::words`]. A blank line stands before
    /// the body. `Host` and the length of the body are added where they are missing.
    request: &'static str,
    status: u16,
    /// The code of the problem; empty where there is none.
    code: &'static str,
    /// Parts that the head of the answer has.
    head: &'static [&'static str],
}

const fn attack(name: &'static str, request: &'static str, status: u16, code: &'static str) -> Attack {
    Attack { name, request, status, code, head: &[] }
}

const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
const FORBIDDEN: &str = "FORBIDDEN";
const PLAN_NOT_FOUND: &str = "PLAN_NOT_FOUND";
const FOREIGN_ORIGIN: &str = "FOREIGN_ORIGIN";
const MISDIRECTED: &str = "MISDIRECTED_REQUEST";
const INVALID: &str = "INVALID_REQUEST";

/// Credentials that are forged, old, or in the wrong place.
const CREDENTIALS: [Attack; 13] = [
    attack("no credentials", "GET /v1/plans", 401, UNAUTHENTICATED),
    attack("a token with a changed secret", "GET /v1/plans\nAuthorization: Bearer {forged}", 401, UNAUTHENTICATED),
    attack(
        "the id of one token with the secret of another",
        "GET /v1/plans\nAuthorization: Bearer {mixed}",
        401,
        UNAUTHENTICATED,
    ),
    attack("a token of an unknown id", "GET /v1/plans\nAuthorization: Bearer {unknown}", 401, UNAUTHENTICATED),
    attack("an expired token", "GET /v1/plans\nAuthorization: Bearer {expired}", 401, UNAUTHENTICATED),
    attack("a revoked token", "GET /v1/plans\nAuthorization: Bearer {revoked}", 401, UNAUTHENTICATED),
    attack("a token in the address", "GET /v1/plans?access_token={blue}", 401, UNAUTHENTICATED),
    attack("a token as a password", "GET /v1/plans\nAuthorization: Basic {blue}", 401, UNAUTHENTICATED),
    attack("a token as a cookie", "GET /v1/plans\nCookie: __Host-goalmill={blue}", 401, UNAUTHENTICATED),
    attack(
        "two `Authorization` headers",
        "GET /v1/plans\nAuthorization: Bearer x\nAuthorization: Bearer {blue}",
        401,
        UNAUTHENTICATED,
    ),
    attack("a token of 5,000 characters", "GET /v1/plans\nAuthorization: Bearer {long}", 401, UNAUTHENTICATED),
    attack("a head of 1,000,000 bytes", "GET /v1/plans\nX-Long: {huge}", 431, ""),
    attack(
        "the token of the autoscaler for something else",
        "GET /v1/plans\nAuthorization: Bearer {scaler}",
        403,
        FORBIDDEN,
    ),
];

/// Access tokens of the identity provider.
const SIGNED: [Attack; 14] = [
    attack("JWT: `alg` is `none`", "GET /v1/plans\nAuthorization: Bearer {alg-none}", 401, UNAUTHENTICATED),
    attack("JWT: signature removed", "GET /v1/plans\nAuthorization: Bearer {unsigned}", 401, UNAUTHENTICATED),
    attack(
        "JWT: `HS256` with the public key as secret",
        "GET /v1/plans\nAuthorization: Bearer {hs256}",
        401,
        UNAUTHENTICATED,
    ),
    attack(
        "JWT: another algorithm than that of the key",
        "GET /v1/plans\nAuthorization: Bearer {other-algorithm}",
        401,
        UNAUTHENTICATED,
    ),
    attack("JWT: wrong audience", "GET /v1/plans\nAuthorization: Bearer {audience}", 401, UNAUTHENTICATED),
    attack("JWT: wrong issuer", "GET /v1/plans\nAuthorization: Bearer {issuer}", 401, UNAUTHENTICATED),
    attack("JWT: expired", "GET /v1/plans\nAuthorization: Bearer {jwt-expired}", 401, UNAUTHENTICATED),
    attack("JWT: not valid yet", "GET /v1/plans\nAuthorization: Bearer {jwt-early}", 401, UNAUTHENTICATED),
    attack("JWT: without an end", "GET /v1/plans\nAuthorization: Bearer {jwt-endless}", 401, UNAUTHENTICATED),
    attack(
        "JWT: signed by a foreign key under the same key id",
        "GET /v1/plans\nAuthorization: Bearer {swapped}",
        401,
        UNAUTHENTICATED,
    ),
    attack("JWT: key set of the attacker in `jku`", "GET /v1/plans\nAuthorization: Bearer {jku}", 401, UNAUTHENTICATED),
    attack("JWT: key of the attacker in `jwk`", "GET /v1/plans\nAuthorization: Bearer {jwk}", 401, UNAUTHENTICATED),
    attack("JWT: unknown critical field", "GET /v1/plans\nAuthorization: Bearer {crit}", 401, UNAUTHENTICATED),
    attack(
        "JWT: a group named `admin` that no setting lists",
        "GET /v1/plans\nAuthorization: Bearer {group}",
        403,
        FORBIDDEN,
    ),
];

/// The browser of somebody who is signed in.
const BROWSER: [Attack; 13] = [
    attack(
        "CSRF: a write without the token of the session",
        "POST /v1/plans/{blue-plan}:cancel\nCookie: {session}",
        403,
        FORBIDDEN,
    ),
    attack(
        "CSRF: the token of another session",
        "POST /v1/plans/{blue-plan}:cancel\nCookie: {session}\nX-CSRF-Token: {other-csrf}",
        403,
        FORBIDDEN,
    ),
    attack(
        "CSRF: a form of another page",
        "POST /v1/plans\nCookie: {session}\nX-CSRF-Token: {csrf}\nOrigin: https://evil.example\nContent-Type: text/plain\n\n{plan}",
        403,
        FOREIGN_ORIGIN,
    ),
    attack(
        "CSRF: an opaque origin",
        "POST /v1/plans\nCookie: {session}\nX-CSRF-Token: {csrf}\nOrigin: null\n\n{plan}",
        403,
        FOREIGN_ORIGIN,
    ),
    attack(
        "CSRF: signing somebody else in",
        "POST /v1/session\nOrigin: https://evil.example\n\n{sign-in}",
        403,
        FOREIGN_ORIGIN,
    ),
    Attack {
        name: "cookie theft: over plain HTTP, by a script, by another page",
        request: "POST /v1/session\n\n{sign-in}",
        status: 200,
        code: "",
        head: &["__Host-goalmill=", "; Secure", "; HttpOnly", "; SameSite=Strict", "cache-control: no-store"],
    },
    attack(
        "session fixation: a session that the attacker chose",
        "GET /v1/plans\nCookie: __Host-goalmill=chosen0chosen0chosen0chosen0",
        401,
        UNAUTHENTICATED,
    ),
    attack("a session after its sign-out", "GET /v1/plans\nCookie: {closed-session}", 401, UNAUTHENTICATED),
    attack("a session whose token was revoked", "GET /v1/plans\nCookie: {revoked-session}", 401, UNAUTHENTICATED),
    attack(
        "reading from another page (CORS)",
        "GET /v1/plans\nCookie: {session}\nOrigin: https://evil.example",
        403,
        FOREIGN_ORIGIN,
    ),
    attack(
        "a preflight of another page",
        "OPTIONS /v1/plans\nOrigin: https://evil.example\nAccess-Control-Request-Method: POST",
        403,
        FOREIGN_ORIGIN,
    ),
    Attack {
        name: "the page in a frame (clickjacking), with foreign scripts",
        request: "GET /",
        status: 200,
        code: "",
        head: &["frame-ancestors 'none'", "x-content-type-options: nosniff", "script-src 'self'"],
    },
    Attack {
        name: "a cache that answers the next caller",
        request: "GET /v1/plans\nCookie: {session}",
        status: 200,
        code: "",
        head: &["cache-control: private, no-cache", "x-content-type-options: nosniff"],
    },
];

/// Names of other namespaces, of shared things, and of what the role does not have.
const FOREIGN: [Attack; 17] = [
    attack("IDOR: a plan", "GET /v1/plans/{red-plan}\nAuthorization: Bearer {blue}", 404, PLAN_NOT_FOUND),
    attack(
        "IDOR: its results, whole",
        "GET /v1/plans/{red-plan}/results?whole=true\nAuthorization: Bearer {blue}",
        404,
        PLAN_NOT_FOUND,
    ),
    attack("IDOR: its step", "GET /v1/plans/{red-plan}/steps/a\nAuthorization: Bearer {blue}", 404, PLAN_NOT_FOUND),
    attack(
        "IDOR: its events as a stream",
        "GET /v1/plans/{red-plan}/events\nAccept: text/event-stream\nAuthorization: Bearer {blue}",
        404,
        PLAN_NOT_FOUND,
    ),
    attack(
        "IDOR: its events in the log of all",
        "GET /v1/logs?plan={red-plan}\nAuthorization: Bearer {blue}",
        404,
        PLAN_NOT_FOUND,
    ),
    attack(
        "IDOR: whether the copy is the newest one",
        "GET /v1/plans/{red-plan}\nIf-None-Match: *\nAuthorization: Bearer {blue}",
        404,
        PLAN_NOT_FOUND,
    ),
    attack("IDOR: cancelling", "POST /v1/plans/{red-plan}:cancel\nAuthorization: Bearer {blue}", 404, PLAN_NOT_FOUND),
    attack(
        "IDOR: answering its question",
        "POST /v1/plans/{red-plan}/questions/a:answer\nAuthorization: Bearer {blue}\n\n{}",
        404,
        PLAN_NOT_FOUND,
    ),
    attack("IDOR: forking", "POST /v1/plans/{red-plan}:fork\nAuthorization: Bearer {blue}\n\n{}", 404, PLAN_NOT_FOUND),
    attack(
        "IDOR: naming it in a body",
        "POST /v1/actions/status\nAuthorization: Bearer {blue}\n\n{named}",
        404,
        PLAN_NOT_FOUND,
    ),
    attack(
        "IDOR: a dead letter",
        "POST /v1/dead-letters/nobody/{letter}:retry\nAuthorization: Bearer {blue}",
        404,
        "DEAD_LETTER_NOT_FOUND",
    ),
    attack("IDOR: a token", "DELETE /v1/tokens/{red-token-id}\nAuthorization: Bearer {blue}", 403, FORBIDDEN),
    attack(
        "choosing another namespace",
        "GET /v1/plans\nGoalmill-Namespace: red\nAuthorization: Bearer {blue}",
        403,
        FORBIDDEN,
    ),
    attack(
        "submitting into another namespace",
        "POST /v1/goals\nAuthorization: Bearer {blue}\n\n{red-goal}",
        403,
        FORBIDDEN,
    ),
    attack("pausing a queue of all", "POST /v1/queues/echo:pause\nAuthorization: Bearer {blue}", 403, FORBIDDEN),
    attack("a viewer who writes", "POST /v1/plans\nAuthorization: Bearer {viewer}\n\n{plan}", 403, FORBIDDEN),
    attack(
        "a viewer who makes a token",
        "POST /v1/tokens\nAuthorization: Bearer {viewer}\n\n{new-token}",
        403,
        FORBIDDEN,
    ),
];

/// Hosts, paths and methods.
const ADDRESSES: [Attack; 20] = [
    attack(
        "DNS rebinding: a foreign host",
        "GET /v1/plans\nHost: evil.example\nAuthorization: Bearer {blue}",
        421,
        MISDIRECTED,
    ),
    attack(
        "a foreign host in the request line",
        "GET http://evil.example/v1/plans\nAuthorization: Bearer {blue}",
        421,
        MISDIRECTED,
    ),
    attack(
        "two hosts",
        "GET /v1/plans\nHost: localhost\nHost: evil.example\nAuthorization: Bearer {blue}",
        400,
        INVALID,
    ),
    attack(
        "a host that a proxy would name",
        "GET /v1/session\nX-Forwarded-Host: evil.example\nX-Forwarded-For: 127.0.0.1",
        401,
        UNAUTHENTICATED,
    ),
    attack("a path with two slashes", "GET //v1/tokens\nAuthorization: Bearer {viewer}", 404, "NOT_FOUND"),
    attack("a path with dots", "GET /v1/plans/../tokens\nAuthorization: Bearer {viewer}", 404, "NOT_FOUND"),
    attack(
        "a path with encoded dots and slashes",
        "GET /v1/plans/%2e%2e%2ftokens\nAuthorization: Bearer {viewer}",
        404,
        PLAN_NOT_FOUND,
    ),
    attack("files of the machine", "GET /../../../../etc/passwd\nAuthorization: Bearer {viewer}", 404, "NOT_FOUND"),
    attack("a path in capitals", "GET /V1/TOKENS\nAuthorization: Bearer {viewer}", 404, "NOT_FOUND"),
    attack(
        "a path with a parameter behind `;`",
        "GET /v1/tokens;x=.js\nAuthorization: Bearer {viewer}",
        404,
        "NOT_FOUND",
    ),
    attack("an encoded NUL", "GET /v1/plans/{blue-plan}%00\nAuthorization: Bearer {viewer}", 404, PLAN_NOT_FOUND),
    attack("an encoded verb", "POST /v1/plans/{blue-plan}%3acancel\nAuthorization: Bearer {viewer}", 403, FORBIDDEN),
    attack("a verb in capitals", "POST /v1/plans/{blue-plan}:CANCEL\nAuthorization: Bearer {viewer}", 403, FORBIDDEN),
    attack(
        "a method that a header names",
        "POST /v1/plans/{blue-plan}\nX-HTTP-Method-Override: GET\nAuthorization: Bearer {viewer}",
        403,
        FORBIDDEN,
    ),
    attack("a method that echoes the request", "TRACE /v1/plans\nAuthorization: Bearer {viewer}", 403, FORBIDDEN),
    attack(
        "two lengths (request smuggling)",
        "POST /v1/plans\nContent-Length: 3\nContent-Length: 30\nAuthorization: Bearer {blue}\n\n{}",
        400,
        "",
    ),
    attack(
        "a length that is no number",
        "POST /v1/plans\nContent-Length: +3\nAuthorization: Bearer {blue}\n\n{}",
        400,
        "",
    ),
    attack(
        "a coding of the body that is not known",
        "POST /v1/plans\nTransfer-Encoding: chunked, identity\nAuthorization: Bearer {blue}\n\n{}",
        400,
        "",
    ),
    attack(
        "a compressed body",
        "POST /v1/plans\nContent-Encoding: gzip\nAuthorization: Bearer {blue}\n\n{}",
        415,
        "UNSUPPORTED_MEDIA_TYPE",
    ),
    attack(
        "a line break in a header",
        "GET /v1/plans\nX-Plan: a\rSet-Cookie: b=c\nAuthorization: Bearer {blue}",
        400,
        "",
    ),
];

/// Bodies and parameters.
const BODIES: [Attack; 7] = [
    attack("JSON nested 100,000 deep", "POST /v1/plans\nAuthorization: Bearer {blue}\n\n{deep}", 422, "INVALID_PLAN"),
    attack(
        "YAML that grows by its aliases",
        "POST /v1/plans\nContent-Type: application/yaml\nAuthorization: Bearer {blue}\n\n{laughs}",
        422,
        "INVALID_PLAN",
    ),
    attack(
        "a body over the limit",
        "POST /v1/plans\nContent-Length: 99999999999\nAuthorization: Bearer {blue}",
        413,
        "BODY_TOO_LARGE",
    ),
    attack(
        "one name twice in a document",
        "POST /v1/plans\nAuthorization: Bearer {blue}\n\n{twice}",
        422,
        "INVALID_PLAN",
    ),
    attack(
        "an expression that runs for ever",
        "POST /v1/plans\nAuthorization: Bearer {blue}\n\n{endless}",
        422,
        "INVALID_PLAN",
    ),
    attack(
        "an actor of the attacker's choice",
        "POST /v1/plans/{blue-plan}:pause\nAuthorization: Bearer {blue}\n\n{actor}",
        200,
        "",
    ),
    attack(
        "parameters that the address does not have",
        "GET /v1/session?admin=true\nAuthorization: Bearer {blue}",
        400,
        INVALID,
    ),
];

fn attacks() -> impl Iterator<Item = &'static Attack> {
    let (first, second) = (CREDENTIALS.iter().chain(&SIGNED).chain(&BROWSER), FOREIGN.iter().chain(&ADDRESSES));
    first.chain(second).chain(&BODIES)
}

/// The installation, and what attackers know.
struct Target {
    it: Installation,
    words: BTreeMap<&'static str, String>,
    blue_plan: PlanId,
    evil: Provider,
}

impl Target {
    async fn start() -> Result<Self> {
        let key = SigningKey::rsa("r")?;
        let foreign = SigningKey::ecdsa("e")?;
        let (own, evil) =
            (Provider::start(&[&key, &SigningKey::ecdsa("e")?]).await?, Provider::start(&[&foreign]).await?);
        let mut it = Installation::start(embedded::open(None, Clock::system())?, settings()).await?;
        let mut words = BTreeMap::new();
        let admin = |namespace: &str| json!({"actor": "ann", "roles": ["admin"], "namespace": namespace});
        let mut ids = BTreeMap::new();
        for (name, new) in [
            ("blue", admin("blue")),
            ("red", admin("red")),
            ("all", admin("*")),
            ("viewer", json!({"actor": "vic", "roles": ["viewer"], "namespace": "blue"})),
            ("scaler", json!({"actor": "keda", "roles": ["scaler"]})),
            ("expired", json!({"actor": "old", "roles": ["admin"], "ttl_ms": 1})),
            ("revoked", admin("blue")),
        ] {
            let (status, made) = it.post("/v1/tokens", &new).await?;
            assert_eq!(status, 201, "{made:#}");
            words.insert(name, text(&made, "token")?);
            ids.insert(name, text(&made, "id")?);
        }
        let open = it.schedulers.remove(0);
        it.settings.api.authentication = Authentication::Required;
        it.settings.api.failures_per_minute = 100_000;
        let oidc = &mut it.settings.api.oidc;
        oidc.issuer.clone_from(&own.issuer);
        (oidc.audiences, oidc.roles_claim) = (vec!["goalmill".into()], "groups".into());
        oidc.roles = [(Role::Admin, vec!["owners".into()])].into();
        it.add_scheduler().await?;
        open.stop().await;
        let mut target = Self { it, words, blue_plan: PlanId::from(""), evil };
        target.add_plans().await?;
        target.add_sessions(&ids).await?;
        target.add_tokens(&own, &key, &foreign)?;
        target.add_bodies(&ids);
        Ok(target)
    }

    fn request(&self, token: &str, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("it is a method");
        self.it.http.request(method, self.it.url(path)).bearer_auth(&self.words[token])
    }

    async fn add_plans(&mut self) -> Result<()> {
        for (token, name) in [("red", "red-plan"), ("blue", "blue-plan")] {
            let request = self.request(token, "POST", "/v1/plans").json(&one_step_plan("nobody"));
            let accepted: Value = request.send().await?.json().await?;
            self.words.insert(name, text(&accepted, "plan_id")?);
        }
        self.blue_plan = PlanId::from(self.words["blue-plan"].as_str());
        let plan = PlanId::from(self.words["red-plan"].as_str());
        let letter = DeadLetter {
            agent_type: "nobody".into(),
            plan,
            step: "a".into(),
            attempt: 1,
            code: "STEP_POISONED".into(),
            reason: "it was lost too often".into(),
            task: "{}".into(),
        };
        self.it.broker.add_dead_letter(&letter).await?;
        let letters = self.it.broker.dead_letters(&"nobody".into(), 1).await?;
        self.words.insert("letter", letters.first().context("there is a letter")?.0.to_string());
        Ok(())
    }

    /// Opens sessions, closes one, and revokes the token of another.
    async fn add_sessions(&mut self, ids: &BTreeMap<&str, String>) -> Result<()> {
        let mut csrf = Vec::new();
        for (token, name) in
            [("blue", "session"), ("blue", "other"), ("blue", "closed-session"), ("revoked", "revoked-session")]
        {
            let request = self.it.http.post(self.it.url("/v1/session")).json(&json!({"token": self.words[token]}));
            let answer = request.send().await?;
            let set = answer.headers()["set-cookie"].to_str()?.to_owned();
            self.words.insert(name, set.split(';').next().context("it has a value")?.to_owned());
            csrf.push(text(&answer.json().await?, "csrf")?);
        }
        let close = self.it.http.delete(self.it.url("/v1/session")).header("cookie", &self.words["closed-session"]);
        assert_eq!(close.header("x-csrf-token", &csrf[2]).send().await?.status(), 204);
        self.words.extend([("csrf", csrf[0].clone()), ("other-csrf", csrf[1].clone())]);
        let revoke = self.request("all", "DELETE", &format!("/v1/tokens/{}", ids["revoked"]));
        assert_eq!(revoke.send().await?.status(), 200);
        let expired = async || {
            self.request("expired", "GET", "/v1/plans").send().await.is_ok_and(|answer| answer.status() == 401)
        };
        until(SOON, expired).await;
        Ok(())
    }

    fn add_tokens(&mut self, own: &Provider, key: &SigningKey, foreign: &SigningKey) -> Result<()> {
        let claims = own.claims("ann", &["owners"]);
        let now = claims["nbf"].as_u64().context("it has a time")?;
        let with = |name: &str, value: Value| {
            let mut changed = claims.clone();
            changed[name] = value;
            key.sign(&changed)
        };
        let rsa = |algorithm: &str| json!({"alg": algorithm, "kid": "r"});
        let public = serde_json::to_vec(&key.public())?;
        let valid = key.sign(&claims)?;
        let unsigned = |token: &str| token.rsplit_once('.').map(|(head, _)| format!("{head}.")).unwrap_or_default();
        let jku = json!({"alg": "ES256", "kid": "e", "jku": format!("{}/keys", self.evil.issuer)});
        self.words.extend([
            ("alg-none", unsigned(&sign_with_secret(&rsa("none"), &claims, b""))),
            ("unsigned", unsigned(&valid)),
            ("hs256", sign_with_secret(&rsa("HS256"), &claims, &public)),
            ("other-algorithm", key.sign_with(&rsa("PS384"), &claims)?),
            ("audience", with("aud", json!("other"))?),
            ("issuer", with("iss", json!(self.evil.issuer))?),
            ("jwt-expired", with("exp", json!(now - 120))?),
            ("jwt-early", with("nbf", json!(now + 120))?),
            ("jwt-endless", with("exp", Value::Null)?),
            ("swapped", foreign.sign(&claims)?),
            ("jku", foreign.sign_with(&jku, &claims)?),
            ("jwk", foreign.sign_with(&json!({"alg": "ES256", "jwk": foreign.public()}), &claims)?),
            ("crit", key.sign_with(&json!({"alg": "RS256", "kid": "r", "crit": ["exp"]}), &claims)?),
            ("group", key.sign(&own.claims("eve", &["admin"]))?),
            ("jwt", valid),
        ]);
        Ok(())
    }

    fn add_bodies(&mut self, ids: &BTreeMap<&str, String>) {
        let parts: Vec<String> = self.words["blue"].split('_').map(str::to_owned).collect();
        let changed = if parts[2].ends_with('0') { "1" } else { "0" };
        let forged = format!("gm_{}_{}{changed}", parts[1], &parts[2][..parts[2].len() - 1]);
        let aliases = (1..20).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
        let endless = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}";
        let step = |inputs: Value| json!({"steps": [{"id": "a", "agent_type": "nobody", "inputs": inputs}]});
        self.words.extend([
            ("forged", forged),
            ("mixed", format!("gm_{}_{}", ids["all"], parts[2])),
            ("unknown", format!("gm_0000000000_{}", parts[2])),
            ("long", format!("gm_{}_{}", parts[1], "0".repeat(5_000))),
            ("huge", "x".repeat(1_000_000)),
            ("red-token-id", ids["red"].clone()),
            ("plan", one_step_plan("nobody").to_string()),
            ("sign-in", json!({"token": self.words["blue"]}).to_string()),
            ("named", json!({"plan": self.words["red-plan"]}).to_string()),
            ("red-goal", json!({"description": "Plan a trip to Paris", "namespace": "red"}).to_string()),
            ("new-token", json!({"actor": "eve", "roles": ["admin"]}).to_string()),
            ("deep", "[".repeat(100_000)),
            ("laughs", format!("a0: &a0 [lol]\n{}steps: *a19\n", aliases.collect::<String>())),
            ("twice", r#"{"steps": [{"id": "a", "agent_type": "echo", "agent_type": "nobody"}]}"#.into()),
            ("endless", step(json!({"x": endless})).to_string()),
            ("actor", json!({"actor": "root", "reason": "lunch"}).to_string()),
        ]);
    }

    /// Sends the request of an attack: status, code, and the whole answer.
    async fn send(&self, request: &str) -> Result<(u16, String, String)> {
        let api = self.it.schedulers[0].api().context("the settings name an address")?;
        let mut filled = request.to_owned();
        for (name, word) in &self.words {
            filled = filled.replace(&format!("{{{name}}}"), word);
        }
        let (head, body) = filled.split_once("\n\n").unwrap_or((&filled, ""));
        let mut lines: Vec<String> = head.split('\n').map(str::to_owned).collect();
        lines[0] += " HTTP/1.1";
        let has = |name: &str| head.to_ascii_lowercase().contains(&format!("\n{name}:"));
        if !has("host") {
            lines.push(format!("Host: {api}"));
        }
        if !has("content-length") && !has("transfer-encoding") {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        lines.push("Connection: close".into());
        let mut stream = TcpStream::connect(api).await?;
        // A server that refuses a head or a length need not read the rest.
        drop(stream.write_all(format!("{}\r\n\r\n{body}", lines.join("\r\n")).as_bytes()).await);
        let mut answer = Vec::new();
        drop(timeout(SOON, stream.read_to_end(&mut answer)).await?);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("no answer to {request}: {answer}"))?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let problem: Value = body.find('{').and_then(|at| serde_json::from_str(&body[at..]).ok()).unwrap_or_default();
        Ok((status, problem["code"].as_str().unwrap_or_default().to_owned(), answer))
    }
}

fn text(value: &Value, name: &str) -> Result<String> {
    value[name].as_str().map(str::to_owned).with_context(|| format!("no `{name}` in {value:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attack_has_its_documented_answer() -> Result<()> {
    let target = Target::start().await?;
    let mut wrong = Vec::new();
    for Attack { name, request, status, code, head } in attacks() {
        let (given, why, answer) = target.send(request).await?;
        let is_told = head.iter().all(|part| answer.to_ascii_lowercase().contains(&part.to_ascii_lowercase()));
        if (given, why.as_str()) != (*status, *code) || !is_told {
            wrong.push(format!("{name}: {given} {why} and not {status} {code}\n{answer:.600}"));
        }
        // What an attacker sends is not given to others, and no secret is repeated.
        for secret in ["red", "blue", "all", "viewer", "csrf", "jwt"] {
            let is_own = status == &200 && answer.contains("\"csrf\"");
            assert!(is_own || !answer.contains(&target.words[secret]), "{name} shows `{secret}`: {answer}");
        }
        assert!(!answer.to_ascii_lowercase().contains("access-control-allow"), "{name}: {answer}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(target.evil.key_reads(), 0, "nobody reads keys that a token names");
    let log = format!("{:?}", target.it.log(&target.blue_plan).await?);
    assert!(log.contains("ann") && !log.contains("root"), "the actor is the caller: {log}");
    let red = target.request("red", "GET", &format!("/v1/plans/{}", target.words["red-plan"])).send().await?;
    assert_eq!(text(&red.json().await?, "status")?, "running", "nothing has happened to it");
    target.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_refusal_does_not_tell_whether_a_token_exists() -> Result<()> {
    let target = Target::start().await?;
    let mut times: [Vec<Duration>; 2] = Default::default();
    let mut answers = Vec::new();
    for n in 0..400 {
        let name = ["unknown", "forged"][n % 2];
        let begun = Instant::now();
        let answer = target.request(name, "GET", "/v1/plans").send().await?;
        times[n % 2].push(begun.elapsed());
        assert_eq!(answer.status(), 401);
        answers.push(answer.text().await?);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "the answers are the same");
    let [unknown, forged] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    // Comparing the first byte only, or a slow digest for known tokens, would show here.
    assert!(unknown < forged * 3 && forged < unknown * 3, "{unknown:?} and {forged:?}");
    target.it.stop().await;
    Ok(())
}

#[test]
fn the_page_about_access_lists_every_attack() {
    let page = read("docs/access.md");
    let (_, rest) = page.split_once("<!-- attacks -->\n").expect("the page has a place for the table");
    let (table, _) = rest.split_once("<!-- attacks end -->").expect("the place has an end");
    let mut answers: Vec<(String, Vec<&str>)> = Vec::new();
    for Attack { name, status, code, .. } in attacks() {
        let answer = if code.is_empty() { status.to_string() } else { format!("{status} `{code}`") };
        match answers.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, names)) => names.push(name),
            None => answers.push((answer, vec![name])),
        }
    }
    let row = |(answer, names): &(String, Vec<&str>)| format!("| {answer} | {} |\n", names.join("; "));
    let expected = format!("| answer | attacks |\n|---|---|\n{}", answers.iter().map(row).collect::<String>());
    assert_eq!(table.trim(), expected.trim(), "put this into docs/access.md:\n{expected}");
    assert!(attacks().count() >= 30);
}
