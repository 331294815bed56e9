//! Signing in at the provider with a browser: the whole way, and what an attacker may try on it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use goalmill_common::config::Settings;
use goalmill_tests::installation::Installation;
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode, Url, redirect};
use serde_json::{Value, json};

use super::provider::{Mood, Provider, SigningKey, TokenChange};
use super::{settings_for, start};

const PUBLIC: &str = "https://goalmill.example";

/// `PATH` is set everywhere; a secret must be there before the process starts.
fn settings_with_sign_in(provider: &Provider) -> Settings {
    let mut settings = settings_for(provider);
    let oidc = &mut settings.api.oidc;
    (oidc.client_id, oidc.public_url, oidc.provider_name) = ("page".into(), PUBLIC.into(), "Example".into());
    settings
}

/// A browser that follows no redirect by itself.
fn browser() -> Result<Client> {
    goalmill_http::install_tls();
    Ok(Client::builder().redirect(redirect::Policy::none()).build()?)
}

struct Begun {
    /// `name=value` of the cookie.
    cookie: String,
    /// The address at the provider.
    url: Url,
}

async fn begin(it: &Installation) -> Result<Begun> {
    let answer = browser()?.get(it.url("/v1/session/oidc/start")).send().await?;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
    let set = answer.headers()["set-cookie"].to_str()?.to_owned();
    for attribute in
        ["__Host-goalmill-sign-in=", "; Path=/;", "; Secure", "; HttpOnly", "; SameSite=Lax", "; Max-Age=600"]
    {
        assert!(set.contains(attribute), "{set}");
    }
    let cookie = set.split(';').next().context("it has a value")?.to_owned();
    Ok(Begun { cookie, url: answer.headers()["location"].to_str()?.parse()? })
}

/// What the provider sends back: the path and the parameters of the callback.
async fn at_provider(begun: &Begun) -> Result<String> {
    let answer = browser()?.get(begun.url.clone()).send().await?;
    let location = answer.headers()["location"].to_str()?.to_owned();
    location.strip_prefix(PUBLIC).map(str::to_owned).with_context(|| format!("{location} is elsewhere"))
}

/// Status, headers and the place that the callback sends to.
async fn call_back(it: &Installation, path: &str, cookie: &str) -> Result<(HeaderMap, String)> {
    let answer = browser()?.get(it.url(path)).header("cookie", cookie).send().await?;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{path}");
    let location = answer.headers()["location"].to_str()?.to_owned();
    assert!(location.starts_with(&format!("{PUBLIC}/")), "{location}");
    Ok((answer.headers().clone(), location))
}

fn session_cookie(headers: &HeaderMap) -> Option<String> {
    let set = headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
    set.filter(|text| text.starts_with("__Host-goalmill=")).map(str::to_owned).next()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_a_role_gets_no_session() -> Result<()> {
    let key = SigningKey::rsa("r")?;
    let provider = Provider::start(&[&key]).await?;
    provider.sign_in_as(key, "eve", &["nobody"]);
    let it = start(settings_with_sign_in(&provider)).await?;
    let begun = begin(&it).await?;
    let path = at_provider(&begun).await?;
    let (headers, location) = call_back(&it, &path, &begun.cookie).await?;
    assert_eq!(location, format!("{PUBLIC}/#/sign-in?failure=no_role"));
    assert_eq!(session_cookie(&headers), None);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_at_the_provider_and_gets_a_session() -> Result<()> {
    let key = SigningKey::rsa("r")?;
    let provider = Provider::start(&[&key]).await?;
    provider.sign_in_as(key, "ann", &["team"]);
    let it = start(settings_with_sign_in(&provider)).await?;
    let methods: Value = it.http.get(it.url("/v1/session/methods")).send().await?.json().await?;
    assert_eq!(methods["provider"], json!({"name": "Example", "start": "/v1/session/oidc/start"}));
    let begun = begin(&it).await?;
    let asked: BTreeMap<String, String> = begun.url.query_pairs().into_owned().collect();
    assert!(begun.url.as_str().starts_with(&format!("{}/authorize?", provider.issuer)), "{}", begun.url);
    assert_eq!(asked["response_type"], "code");
    assert_eq!(asked["client_id"], "page");
    assert_eq!(asked["redirect_uri"], format!("{PUBLIC}/v1/session/oidc/callback"));
    assert_eq!(asked["scope"], "openid profile");
    assert_eq!(asked["code_challenge_method"], "S256");
    let word = begun.cookie.split_once('=').context("it has a value")?.1;
    assert!(!begun.url.as_str().contains(word), "the word stays in the browser");
    let path = at_provider(&begun).await?;
    let (headers, location) = call_back(&it, &path, &begun.cookie).await?;
    assert_eq!(location, format!("{PUBLIC}/"));
    let set = session_cookie(&headers).context("there is a session")?;
    for attribute in ["; Path=/;", "; Secure", "; HttpOnly", "; SameSite=Strict", "; Max-Age="] {
        assert!(set.contains(attribute), "{set}");
    }
    let ended = headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
    assert_eq!(
        ended.filter(|text| text.starts_with("__Host-goalmill-sign-in=; ") && text.contains("Max-Age=0")).count(),
        1
    );
    let cookie = set.split(';').next().context("it has a value")?.to_owned();
    let view: Value = it.http.get(it.url("/v1/session")).header("cookie", &cookie).send().await?.json().await?;
    assert_eq!(
        (&view["actor"], &view["roles"], &view["authentication"]),
        (&json!("oidc:ann"), &json!(["viewer"]), &json!("session"))
    );
    let csrf = view["csrf"].as_str().context("it has a CSRF token")?;
    let plans = it.http.get(it.url("/v1/plans")).header("cookie", &cookie).send().await?;
    assert_eq!(plans.status(), StatusCode::OK);
    let write = || it.http.post(it.url("/v1/queues/echo:pause")).header("cookie", &cookie);
    assert_eq!(write().send().await?.status(), StatusCode::FORBIDDEN, "without its CSRF token");
    assert_eq!(write().header("x-csrf-token", csrf).send().await?.status(), StatusCode::FORBIDDEN, "a viewer");
    // The code is used up.
    let (headers, location) = call_back(&it, &path, &begun.cookie).await?;
    assert!(session_cookie(&headers).is_none() && location.ends_with("failure=invalid"), "{location}");
    let out =
        it.http.delete(it.url("/v1/session")).header("cookie", &cookie).header("x-csrf-token", csrf).send().await?;
    assert_eq!(out.status(), StatusCode::NO_CONTENT);
    let gone = it.http.get(it.url("/v1/session")).header("cookie", &cookie).send().await?;
    assert_eq!(gone.status(), StatusCode::UNAUTHORIZED);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_counts_only_in_the_browser_that_began() -> Result<()> {
    let key = SigningKey::ecdsa("e")?;
    let provider = Provider::start(&[&key]).await?;
    provider.sign_in_as(key, "ann", &["owners"]);
    let it = start(settings_with_sign_in(&provider)).await?;
    let (victim, attacker) = (begin(&it).await?, begin(&it).await?);
    assert_ne!(victim.cookie, attacker.cookie);
    let path = at_provider(&attacker).await?;
    let (plain, parameters) = path.split_once('?').context("it has parameters")?;
    let code = parameters.split('&').find(|pair| pair.starts_with("code=")).context("it has a code")?;
    let state = parameters.split('&').find(|pair| pair.starts_with("state=")).context("it has a state")?;
    for (what, path, cookie, failure) in [
        ("the state of another browser", path.clone(), victim.cookie.as_str(), "expired"),
        ("no cookie", path.clone(), "a=b", "expired"),
        ("an empty cookie", path.clone(), "__Host-goalmill-sign-in=", "expired"),
        ("two cookies", path.clone(), "__Host-goalmill-sign-in=a; __Host-goalmill-sign-in=b", "expired"),
        ("no state", format!("{plain}?{code}"), &attacker.cookie, "expired"),
        ("two states", format!("{path}&state=x"), &attacker.cookie, "expired"),
        ("no code", format!("{plain}?{state}"), &attacker.cookie, "denied"),
        ("refused by the provider", format!("{plain}?{state}&error=access_denied"), &attacker.cookie, "denied"),
        ("another code", format!("{plain}?{state}&code=guess"), &attacker.cookie, "invalid"),
        ("a long code", format!("{plain}?{state}&code={}", "x".repeat(5_000)), &attacker.cookie, "denied"),
    ] {
        let (headers, location) = call_back(&it, &path, cookie).await?;
        assert!(session_cookie(&headers).is_none(), "{what}");
        assert_eq!(location, format!("{PUBLIC}/#/sign-in?failure={failure}"), "{what}");
    }
    // Nobody chooses where the way ends.
    let (headers, location) = call_back(
        &it,
        &format!("{path}&return=https://evil.example&redirect_uri=https://evil.example"),
        &attacker.cookie,
    )
    .await?;
    assert!(session_cookie(&headers).is_some());
    assert_eq!(location, format!("{PUBLIC}/"));
    let start = browser()?.get(it.url("/v1/session/oidc/start?redirect_uri=https://evil.example")).send().await?;
    assert!(!start.headers().get("location").is_some_and(|to| to.to_str().is_ok_and(|to| to.contains("evil"))));
    let host = browser()?.get(it.url("/v1/session/oidc/start")).header("host", "evil.example").send().await?;
    assert_eq!(host.status(), StatusCode::MISDIRECTED_REQUEST);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_token_that_is_not_the_answer_opens_no_session() -> Result<()> {
    let (key, foreign) = (SigningKey::ecdsa("e")?, SigningKey::ecdsa("e")?);
    let provider = Provider::start(&[&key]).await?;
    provider.sign_in_as(key, "ann", &["owners"]);
    let mut settings = settings_with_sign_in(&provider);
    settings.api.oidc.timeout_ms = 500;
    let it = start(settings).await?;
    let changes = [
        ("another nonce", TokenChange::Claim("nonce", json!("x"))),
        ("no nonce", TokenChange::Claim("nonce", Value::Null)),
        ("for another client", TokenChange::Claim("aud", json!("other"))),
        ("for the API, not the page", TokenChange::Claim("aud", json!("goalmill"))),
        ("for more than one", TokenChange::Claim("aud", json!(["page", "other"]))),
        ("made for another", TokenChange::Claim("azp", json!("other"))),
        ("of another issuer", TokenChange::Claim("iss", json!("https://other.example"))),
        ("expired", TokenChange::Claim("exp", json!(1))),
        ("signed by another", TokenChange::Signer(Box::new(foreign))),
        ("no token at all", TokenChange::Answer("{}".into())),
        ("no JSON", TokenChange::Answer("<html>".into())),
        ("far too long", TokenChange::Answer("x".repeat(1 << 20))),
    ];
    for (what, change) in changes {
        provider.set_change(Some(change));
        let begun = begin(&it).await?;
        let path = at_provider(&begun).await?;
        let (headers, location) = call_back(&it, &path, &begun.cookie).await?;
        assert!(session_cookie(&headers).is_none(), "{what}");
        assert_eq!(location, format!("{PUBLIC}/#/sign-in?failure=invalid"), "{what}");
    }
    provider.set_change(None);
    let begun = begin(&it).await?;
    let path = at_provider(&begun).await?;
    assert!(session_cookie(&call_back(&it, &path, &begun.cookie).await?.0).is_some());
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sign_ins_are_limited_and_a_provider_that_is_down_is_named() -> Result<()> {
    let key = SigningKey::ecdsa("e")?;
    let provider = Provider::start(&[&key]).await?;
    let mut settings = settings_with_sign_in(&provider);
    settings.api.failures_per_minute = 3;
    let it = start(settings).await?;
    provider.set_mood(Mood::Down);
    let answer = browser()?.get(it.url("/v1/session/oidc/start")).send().await?;
    assert_eq!(answer.headers()["location"], format!("{PUBLIC}/#/sign-in?failure=unavailable"));
    let mut failures = Vec::new();
    for _ in 0..5 {
        let (_, location) =
            call_back(&it, "/v1/session/oidc/callback?code=a&state=b", "__Host-goalmill-sign-in=x").await?;
        failures.push(location.rsplit_once('=').context("it says why")?.1.to_owned());
    }
    assert_eq!(failures, ["expired", "expired", "expired", "limited", "limited"]);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_client_there_is_no_such_way() -> Result<()> {
    let key = SigningKey::ecdsa("e")?;
    let provider = Provider::start(&[&key]).await?;
    let it = start(settings_for(&provider)).await?;
    let methods: Value = it.http.get(it.url("/v1/session/methods")).send().await?.json().await?;
    assert_eq!(methods, json!({}));
    for path in ["/v1/session/oidc/start", "/v1/session/oidc/callback?code=a&state=b"] {
        assert_eq!(it.http.get(it.url(path)).send().await?.status(), StatusCode::NOT_FOUND);
    }
    it.stop().await;
    Ok(())
}
