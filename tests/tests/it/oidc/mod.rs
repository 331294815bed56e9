//! Access tokens of an identity provider: roles by claims, attacks with their answers, keys that rotate, and a provider
//! that is slow, wrong or down.

pub(crate) mod provider;
mod sign_in;

use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_broker::embedded;
use goalmill_common::access::Role;
use goalmill_common::clock::Clock;
use goalmill_common::config::{Authentication, Settings};
use goalmill_tests::installation::{Installation, one_step_plan, settings};
use goalmill_tests::wait::{SOON, until};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use provider::{Mood, Provider, SigningKey, sign_with_secret};

/// Far longer than a test.
const HOUR_MS: u64 = 3_600_000;

fn settings_for(provider: &Provider) -> Settings {
    let mut settings = settings();
    settings.api.authentication = Authentication::Required;
    settings.api.failures_per_minute = 1_000;
    let oidc = &mut settings.api.oidc;
    oidc.issuer.clone_from(&provider.issuer);
    oidc.audiences = vec!["goalmill".into()];
    oidc.roles_claim = "groups".into();
    oidc.roles = [
        (Role::Viewer, vec!["team".into()]),
        (Role::Submitter, vec!["builders".into()]),
        (Role::Admin, vec!["owners".into()]),
    ]
    .into();
    (oidc.refresh_ms, oidc.refetch_ms, oidc.keys_ms) = (HOUR_MS, 1, HOUR_MS);
    settings
}

async fn start(settings: Settings) -> Result<Installation> {
    Installation::start(embedded::open(None, Clock::system())?, settings).await
}

/// Status and code of `GET /v1/plans` with this token.
async fn ask(it: &Installation, token: &str) -> Result<(u16, String)> {
    let answer = it.http.get(it.url("/v1/plans")).bearer_auth(token).send().await?;
    let status = answer.status().as_u16();
    let text = answer.text().await?;
    assert!(!text.contains(token), "{text}");
    let body: Value = serde_json::from_str(&text)?;
    Ok((status, body["code"].as_str().unwrap_or_default().to_owned()))
}

async fn status(it: &Installation, token: &str) -> Result<u16> {
    Ok(ask(it, token).await?.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_a_token_give_roles_and_its_subject_is_the_actor() -> Result<()> {
    let (elliptic, edwards, rsa) = (SigningKey::ecdsa("e")?, SigningKey::ed25519("d")?, SigningKey::rsa("r")?);
    let provider = Provider::start(&[&elliptic, &edwards, &rsa]).await?;
    let it = start(settings_for(&provider)).await?;
    for key in [&elliptic, &edwards, &rsa] {
        assert_eq!(status(&it, &key.sign(&provider.claims("ann", &["team"]))?).await?, 200, "{}", key.algorithm());
    }
    let padded = json!({"alg": "PS256", "kid": "r"});
    assert_eq!(status(&it, &rsa.sign_with(&padded, &provider.claims("ann", &["owners"]))?).await?, 200);
    // Without a key id the kind of the key decides.
    assert_eq!(status(&it, &rsa.sign_with(&json!({"alg": "RS256"}), &provider.claims("ann", &["team"]))?).await?, 200);
    let (nobody, builder) =
        (provider.claims("eve", &["others", "admin"]), provider.claims("ann@example.com", &["builders"]));
    assert_eq!(ask(&it, &rsa.sign(&nobody)?).await?, (403, "FORBIDDEN".into()));
    let token = rsa.sign(&builder)?;
    assert_eq!(ask(&it, &token).await?.0, 200, "a submitter reads");
    let accepted = it.http.post(it.url("/v1/plans")).bearer_auth(&token).json(&one_step_plan("nobody")).send().await?;
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    let accepted: Value = accepted.json().await?;
    let plan = accepted["plan_id"].as_str().context("it is accepted")?.into();
    let cancelled = it.http.post(it.url(&format!("/v1/plans/{plan}:cancel"))).bearer_auth(&token);
    assert_eq!(cancelled.json(&json!({"actor": "mallory"})).send().await?.status(), StatusCode::OK);
    let log = format!("{:?}", it.log(&plan).await?);
    assert!(log.contains("oidc:ann-example.com-") && !log.contains("mallory") && !log.contains(&token), "{log}");
    let view = it.http.get(it.url("/v1/session")).bearer_auth(&token).send().await?.json::<Value>().await?;
    assert_eq!((&view["authentication"], &view["roles"]), (&json!("token"), &json!(["submitter"])));
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_not_valid_are_refused() -> Result<()> {
    let (rsa, elliptic, foreign) = (SigningKey::rsa("r")?, SigningKey::ecdsa("e")?, SigningKey::ecdsa("e")?);
    let provider = Provider::start(&[&rsa, &elliptic]).await?;
    let evil = Provider::start(&[&foreign]).await?;
    let it = start(settings_for(&provider)).await?;
    let claims = provider.claims("ann", &["owners"]);
    let valid = rsa.sign(&claims)?;
    assert_eq!(status(&it, &valid).await?, 200);
    let with = |name: &str, value: Value| {
        let mut changed = claims.clone();
        changed[name] = value;
        rsa.sign(&changed)
    };
    let now = claims["nbf"].as_u64().context("it has a time")?;
    let (head, signature) = valid.rsplit_once('.').context("it has a signature")?;
    let public = serde_json::to_vec(&rsa.public())?;
    let unsigned = |algorithm: &str| {
        let token = sign_with_secret(&json!({"alg": algorithm, "kid": "r"}), &claims, b"");
        token.rsplit_once('.').map(|(signed, _)| format!("{signed}.")).unwrap_or_default()
    };
    let tokens = [
        ("wrong audience", with("aud", json!("other"))?),
        ("no audience", with("aud", Value::Null)?),
        ("wrong issuer", with("iss", json!(evil.issuer))?),
        ("expired", with("exp", json!(now - 61))?),
        ("without an end", with("exp", Value::Null)?),
        ("not valid yet", with("nbf", json!(now + 120))?),
        ("without a subject", with("sub", Value::Null)?),
        ("alg=none", unsigned("none")),
        ("alg=None", unsigned("None")),
        ("no signature", format!("{head}.")),
        ("another signature", format!("{head}.{}", signature.chars().rev().collect::<String>())),
        ("HS256 with the public key", sign_with_secret(&json!({"alg": "HS256", "kid": "r"}), &claims, &public)),
        ("RS256 that says HS256", rsa.sign_with(&json!({"alg": "HS256", "kid": "r"}), &claims)?),
        ("RS256 that says ES256", rsa.sign_with(&json!({"alg": "ES256", "kid": "e"}), &claims)?),
        ("an algorithm that is not allowed", rsa.sign_with(&json!({"alg": "RS512", "kid": "r"}), &claims)?),
        ("the key of another", foreign.sign(&claims)?),
        ("an unknown key", foreign.sign_with(&json!({"alg": "ES256", "kid": "x"}), &claims)?),
        (
            "a key set of its own",
            foreign.sign_with(&json!({"alg": "ES256", "kid": "e", "jku": format!("{}/keys", evil.issuer)}), &claims)?,
        ),
        ("a key of its own", foreign.sign_with(&json!({"alg": "ES256", "jwk": foreign.public()}), &claims)?),
        ("critical fields", rsa.sign_with(&json!({"alg": "RS256", "kid": "r", "crit": ["exp"]}), &claims)?),
        ("a token of another kind", rsa.sign_with(&json!({"alg": "RS256", "kid": "r", "typ": "logout+jwt"}), &claims)?),
        ("a key id that is no text", rsa.sign_with(&json!({"alg": "RS256", "kid": ["r"]}), &claims)?),
        ("no claims", rsa.sign(&json!([]))?),
        ("padding", format!("{valid}=")),
        ("more parts", format!("{valid}.{signature}")),
        ("too long", rsa.sign(&json!({"sub": "x".repeat(20_000)}))?),
    ];
    for (what, token) in tokens {
        assert_eq!(ask(&it, &token).await?, (401, "UNAUTHENTICATED".into()), "{what}");
    }
    assert_eq!(evil.key_reads(), 0, "nobody reads what a token names");
    for path in [format!("/v1/plans?access_token={valid}"), format!("/v1/plans?id_token={valid}")] {
        assert_eq!(it.http.get(it.url(&path)).send().await?.status(), StatusCode::UNAUTHORIZED);
    }
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_is_read_and_the_old_one_ends() -> Result<()> {
    let (old, new) = (SigningKey::ecdsa("old")?, SigningKey::ecdsa("new")?);
    let provider = Provider::start(&[&old]).await?;
    let it = start(settings_for(&provider)).await?;
    let claims = provider.claims("ann", &["team"]);
    let (first, second) = (old.sign(&claims)?, new.sign(&claims)?);
    for _ in 0..5 {
        assert_eq!(status(&it, &first).await?, 200);
    }
    assert_eq!(provider.key_reads(), 1, "the keys are kept");
    provider.set_keys(&[&new]);
    assert_eq!(status(&it, &second).await?, 200, "an unknown key has the keys read");
    assert_eq!(provider.key_reads(), 2);
    assert_eq!(status(&it, &first).await?, 401, "a key that the issuer took back is not valid");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_keys_have_the_keys_read_once() -> Result<()> {
    let (key, foreign) = (SigningKey::ecdsa("a")?, SigningKey::ecdsa("a")?);
    let provider = Provider::start(&[&key]).await?;
    let mut settings = settings_for(&provider);
    settings.api.oidc.refetch_ms = HOUR_MS;
    let it = start(settings).await?;
    let claims = provider.claims("ann", &["team"]);
    assert_eq!(status(&it, &key.sign(&claims)?).await?, 200);
    let asked = (0..50).map(async |i: u32| {
        let token = foreign.sign_with(&json!({"alg": "ES256", "kid": format!("k{i}")}), &claims)?;
        status(&it, &token).await
    });
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer?, 401);
    }
    assert_eq!(provider.key_reads(), 1);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_slow_or_wrong_is_named_and_ends_nothing_else() -> Result<()> {
    let key = SigningKey::ecdsa("a")?;
    let provider = Provider::start(&[&key]).await?;
    let mut settings = settings_for(&provider);
    settings.api.oidc.timeout_ms = 300;
    let it = start(settings).await?;
    let token = key.sign(&provider.claims("ann", &["team"]))?;
    let many: Vec<Value> = (0..101).map(|_| key.public()).collect();
    for mood in [
        Mood::Down,
        Mood::Slow(Duration::from_mins(10)),
        Mood::Keys("x".repeat(1 << 20)),
        Mood::Keys(json!({"keys": many}).to_string()),
        Mood::Keys("[".repeat(100_000)),
        Mood::Keys("<html>".into()),
        Mood::Keys(json!({"keys": [{"kty": "oct", "kid": "a", "k": "AAAA"}]}).to_string()),
        Mood::Described(json!({"issuer": "https://other.example"})),
        Mood::Described(json!({"jwks_uri": "http://keys.example/keys"})),
        Mood::Described(json!({"jwks_uri": null})),
        Mood::Elsewhere(format!("{}/keys", provider.issuer)),
    ] {
        provider.set_mood(mood.clone());
        let answer = ask(&it, &token).await?;
        assert_eq!(answer, (503, "ISSUER_UNAVAILABLE".into()), "{mood:?}");
        assert_eq!(status(&it, "gm_a_b").await?, 401, "other tokens are checked");
    }
    provider.set_mood(Mood::Well);
    until(SOON, async || status(&it, &token).await.is_ok_and(|status| status == 200)).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_stay_valid_without_the_issuer_until_the_keys_are_too_old() -> Result<()> {
    let key = SigningKey::ecdsa("a")?;
    let provider = Provider::start(&[&key]).await?;
    let mut settings = settings_for(&provider);
    (settings.api.oidc.refresh_ms, settings.api.oidc.keys_ms) = (1, HOUR_MS);
    let lasting = start(settings.clone()).await?;
    (settings.api.oidc.refresh_ms, settings.api.oidc.keys_ms) = (1, 300);
    let short = start(settings).await?;
    let token = key.sign(&provider.claims("ann", &["team"]))?;
    for it in [&lasting, &short] {
        assert_eq!(status(it, &token).await?, 200);
    }
    provider.set_mood(Mood::Down);
    until(SOON, async || status(&short, &token).await.is_ok_and(|status| status == 503)).await;
    assert_eq!(status(&lasting, &token).await?, 200);
    provider.set_mood(Mood::Well);
    until(SOON, async || status(&short, &token).await.is_ok_and(|status| status == 200)).await;
    lasting.stop().await;
    short.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_failures_are_limited_like_others() -> Result<()> {
    let (key, foreign) = (SigningKey::ecdsa("a")?, SigningKey::ecdsa("a")?);
    let provider = Provider::start(&[&key]).await?;
    let mut settings = settings_for(&provider);
    settings.api.failures_per_minute = 30;
    let it = start(settings).await?;
    let claims = provider.claims("ann", &["team"]);
    let (valid, forged) = (key.sign(&claims)?, foreign.sign(&claims)?);
    assert_eq!(status(&it, &valid).await?, 200);
    let begun = Instant::now();
    let mut counts = [0, 0];
    for _ in 0..1_000 {
        match status(&it, &forged).await? {
            401 => counts[0] += 1,
            429 => counts[1] += 1,
            other => panic!("{other}"),
        }
    }
    let minutes = begun.elapsed().as_secs() / 60 + 1;
    assert!((30..=30 * (minutes + 1)).contains(&counts[0]), "{counts:?} in {minutes}");
    assert_eq!(counts[0] + counts[1], 1_000);
    assert_eq!(provider.key_reads(), 1);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_token_opens_a_session_that_ends_with_it() -> Result<()> {
    let key = SigningKey::ecdsa("a")?;
    let provider = Provider::start(&[&key]).await?;
    let it = start(settings_for(&provider)).await?;
    let token = key.sign(&provider.claims("ann", &["team"]))?;
    let answer = it.http.post(it.url("/v1/session")).json(&json!({"token": token})).send().await?;
    assert_eq!(answer.status(), StatusCode::OK);
    let cookie = answer.headers()["set-cookie"].to_str()?.to_owned();
    let seconds: u64 = cookie.split("Max-Age=").nth(1).context("it ends")?.parse()?;
    assert!(seconds <= 600, "{cookie}");
    let pair = cookie.split(';').next().context("it has a value")?;
    let view: Value = it.http.get(it.url("/v1/session")).header("cookie", pair).send().await?.json().await?;
    assert_eq!((&view["actor"], &view["roles"]), (&json!("oidc:ann"), &json!(["viewer"])));
    let blobs = format!("{view}");
    assert!(!blobs.contains(&token), "{blobs}");
    let refused = it.http.post(it.url("/v1/session")).json(&json!({"token": format!("{token}x")})).send().await?;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_a_token_give_a_namespace() -> Result<()> {
    let key = SigningKey::ecdsa("a")?;
    let provider = Provider::start(&[&key]).await?;
    let mut settings = settings_for(&provider);
    let oidc = &mut settings.api.oidc;
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    oidc.roles =
        [(Role::Viewer, groups(&["red", "blue", "grey"])), (Role::Submitter, groups(&["red", "blue", "grey"]))].into();
    oidc.namespaces = [("red".to_owned(), groups(&["red"])), ("blue".to_owned(), groups(&["blue"]))].into();
    let it = start(settings).await?;
    let token = |group: &str| key.sign(&provider.claims("ann", &[group]));
    let (red, blue, grey) = (token("red")?, token("blue")?, token("grey")?);
    let submitted = it.http.post(it.url("/v1/plans")).bearer_auth(&red).json(&one_step_plan("nobody")).send().await?;
    let accepted: Value = submitted.json().await?;
    let path = format!("/v1/plans/{}", accepted["plan_id"].as_str().context("it is accepted")?);
    let seen = async |token: &str| -> Result<u16> {
        Ok(it.http.get(it.url(&path)).bearer_auth(token).send().await?.status().as_u16())
    };
    until(SOON, async || seen(&red).await.is_ok_and(|status| status == 200)).await;
    assert_eq!(seen(&blue).await?, 404);
    assert_eq!(seen(&grey).await?, 403, "no group gives a namespace");
    let session = it.http.post(it.url("/v1/session")).json(&json!({"token": red})).send().await?;
    let cookie = session.headers()["set-cookie"].to_str()?.split(';').next().context("it has a value")?.to_owned();
    let view: Value = it.http.get(it.url("/v1/session")).header("cookie", &cookie).send().await?.json().await?;
    assert_eq!(view["namespace"], "red");
    let listed: Value = it.http.get(it.url("/v1/plans")).bearer_auth(&blue).send().await?.json().await?;
    assert_eq!(listed["items"], json!([]));
    it.stop().await;
    Ok(())
}
