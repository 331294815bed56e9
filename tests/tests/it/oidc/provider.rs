//! A small identity provider: it signs tokens, rotates its keys, and misbehaves on request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use goalmill_common::clock::Clock;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A private key in PKCS#1 form that signs nothing but the tokens of these tests.
const RSA_KEY: &str = include_str!("rsa_key_of_tests.txt");

/// A key with its id.
pub struct SigningKey {
    pub id: String,
    pair: Pair,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl SigningKey {
    pub fn ecdsa(id: &str) -> Result<Self> {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).ok().context("a key")?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        Ok(Self { id: id.into(), pair: Pair::Ecdsa(pair.ok().context("it is a key")?) })
    }

    pub fn ed25519(id: &str) -> Result<Self> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok().context("a key")?;
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).ok().context("it is a key")?;
        Ok(Self { id: id.into(), pair: Pair::Ed25519(pair) })
    }

    pub fn rsa(id: &str) -> Result<Self> {
        let text: String = RSA_KEY.split_whitespace().collect();
        let pair = RsaKeyPair::from_der(&STANDARD.decode(text)?).ok().context("it is a key")?;
        Ok(Self { id: id.into(), pair: Pair::Rsa(Box::new(pair)) })
    }

    /// The usual algorithm of the key.
    pub fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Ecdsa(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// The public part, as JWK.
    pub fn public(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Ecdsa(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": base64url(&point[1..33]), "y": base64url(&point[33..])})
            }
            Pair::Ed25519(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64url(pair.public_key())}),
            Pair::Rsa(pair) => {
                let public: PublicKeyComponents<Vec<u8>> = pair.public().into();
                json!({"kty": "RSA", "n": base64url(public.n), "e": base64url(public.e)})
            }
        };
        (key["kid"], key["use"]) = (self.id.as_str().into(), "sig".into());
        key
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        self.sign_with(&json!({"alg": self.algorithm(), "typ": "at+jwt", "kid": self.id}), claims)
    }

    /// The same with another header.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> Result<String> {
        let signed = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
        let (message, random) = (signed.as_bytes(), SystemRandom::new());
        let signature = match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&random, message).ok().context("it signs")?.as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &'static dyn ring::signature::RsaEncoding =
                    if header["alg"] == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &random, message, &mut signature).ok().context("it signs")?;
                signature
            }
        };
        Ok(format!("{signed}.{}", base64url(signature)))
    }
}

/// A token that is signed with a secret.
pub fn sign_with_secret(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let signed = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", base64url(tag))
}

/// How the provider answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// With an error.
    Down,
    /// Not before this time.
    Slow(Duration),
    /// With this text instead of its keys.
    Keys(String),
    /// With these fields in its description.
    Described(Value),
    /// With a redirect instead of its keys.
    Elsewhere(String),
}

pub struct Provider {
    pub issuer: String,
    pub shared: Arc<Shared>,
}

/// What the provider changes in the ID tokens that it gives.
pub enum TokenChange {
    Claim(&'static str, Value),
    Signer(Box<SigningKey>),
    /// The whole answer.
    Answer(String),
}

/// A sign-in that waits for its code to be exchanged.
struct Pending {
    challenge: String,
    nonce: String,
    redirect_uri: String,
}

/// Whoever signs in.
struct Person {
    key: SigningKey,
    claims: Value,
}

pub struct Shared {
    person: Mutex<Option<Person>>,
    change: Mutex<Option<TokenChange>>,
    pending: Mutex<BTreeMap<String, Pending>>,
    issuer: String,
    keys: Mutex<Vec<Value>>,
    mood: Mutex<Mood>,
    key_reads: AtomicUsize,
}

impl Provider {
    pub async fn start(keys: &[&SigningKey]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let issuer = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            person: Mutex::default(),
            change: Mutex::default(),
            pending: Mutex::default(),
            issuer: issuer.clone(),
            keys: Mutex::new(keys.iter().map(|key| key.public()).collect()),
            mood: Mutex::new(Mood::Well),
            key_reads: AtomicUsize::new(0),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/keys", get(serve_keys))
            .route("/authorize", get(authorize))
            .route("/token", post(exchange))
            .with_state(shared.clone());
        #[expect(clippy::disallowed_methods, reason = "it serves until the test's runtime ends")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { issuer, shared })
    }

    pub fn set_keys(&self, keys: &[&SigningKey]) {
        *self.shared.keys.lock().expect("nobody panicked") = keys.iter().map(|key| key.public()).collect();
    }

    pub fn set_mood(&self, mood: Mood) {
        *self.shared.mood.lock().expect("nobody panicked") = mood;
    }

    /// Everyone who signs in is this person, whose tokens are signed with this key.
    pub fn sign_in_as(&self, key: SigningKey, name: &str, groups: &[&str]) {
        let claims = self.claims(name, groups);
        *self.shared.person.lock().expect("nobody panicked") = Some(Person { key, claims });
    }

    pub fn set_change(&self, change: Option<TokenChange>) {
        *self.shared.change.lock().expect("nobody panicked") = change;
    }

    /// How often the keys were read.
    pub fn key_reads(&self) -> usize {
        self.shared.key_reads.load(Ordering::SeqCst)
    }

    /// Claims of a caller in these groups, valid for ten minutes.
    pub fn claims(&self, name: &str, groups: &[&str]) -> Value {
        let now = Clock::system().now_ms() / 1_000;
        json!({"iss": self.issuer, "aud": "goalmill", "sub": name, "iat": now, "nbf": now, "exp": now + 600, "groups": groups})
    }
}

impl Shared {
    fn mood(&self) -> Mood {
        self.mood.lock().expect("nobody panicked").clone()
    }
}

async fn describe(State(shared): State<Arc<Shared>>) -> Response {
    let mut described = json!({
        "issuer": shared.issuer,
        "jwks_uri": format!("{}/keys", shared.issuer),
        "authorization_endpoint": format!("{}/authorize", shared.issuer),
        "token_endpoint": format!("{}/token", shared.issuer),
    });
    match shared.mood() {
        Mood::Down => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Mood::Described(fields) => {
            for (name, value) in fields.as_object().expect("it has fields") {
                described[name] = value.clone();
            }
        }
        Mood::Well | Mood::Slow(_) | Mood::Keys(_) | Mood::Elsewhere(_) => {}
    }
    Json(described).into_response()
}

async fn serve_keys(State(shared): State<Arc<Shared>>) -> Response {
    shared.key_reads.fetch_add(1, Ordering::SeqCst);
    match shared.mood() {
        Mood::Slow(time) => tokio::time::sleep(time).await,
        Mood::Keys(text) => return text.into_response(),
        Mood::Elsewhere(url) => return Redirect::temporary(&url).into_response(),
        Mood::Well | Mood::Down | Mood::Described(_) => {}
    }
    Json(json!({"keys": shared.keys.lock().expect("nobody panicked").clone()})).into_response()
}

/// Where the browser signs in: it comes back with a code at once.
async fn authorize(State(shared): State<Arc<Shared>>, Query(asked): Query<BTreeMap<String, String>>) -> Response {
    let code = format!("code-{}", Clock::system().now_ms()) + &asked["state"][..8];
    let pending = Pending {
        challenge: asked["code_challenge"].clone(),
        nonce: asked["nonce"].clone(),
        redirect_uri: asked["redirect_uri"].clone(),
    };
    shared.pending.lock().expect("nobody panicked").insert(code.clone(), pending);
    Redirect::to(&format!("{}?state={}&session_state=s&code={code}", asked["redirect_uri"], asked["state"]))
        .into_response()
}

/// Exchanges a code once, for whoever has its verifier.
async fn exchange(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Form(asked): Form<BTreeMap<String, String>>,
) -> Response {
    let refused = |why: &str| (StatusCode::BAD_REQUEST, Json(json!({"error": why}))).into_response();
    let Some(pending) = shared.pending.lock().expect("nobody panicked").remove(&asked["code"]) else {
        return refused("invalid_grant");
    };
    let challenge = base64url(ring::digest::digest(&ring::digest::SHA256, asked["code_verifier"].as_bytes()));
    let is_asked = asked["grant_type"] == "authorization_code"
        && asked["client_id"] == "page"
        && asked["redirect_uri"] == pending.redirect_uri
        && challenge == pending.challenge
        && !headers.contains_key("authorization");
    if !is_asked {
        return refused("invalid_request");
    }
    let person = shared.person.lock().expect("nobody panicked");
    let Some(Person { key, claims }) = person.as_ref() else { return refused("access_denied") };
    let mut claims = claims.clone();
    (claims["aud"], claims["nonce"]) = ("page".into(), pending.nonce.into());
    let header = |key: &SigningKey| json!({"alg": key.algorithm(), "typ": "JWT", "kid": key.id});
    let change = shared.change.lock().expect("nobody panicked");
    let token = match change.as_ref() {
        Some(TokenChange::Answer(text)) => return text.clone().into_response(),
        Some(TokenChange::Signer(other)) => other.sign_with(&header(other), &claims),
        Some(TokenChange::Claim(name, value)) => {
            claims[*name] = value.clone();
            key.sign_with(&header(key), &claims)
        }
        None => key.sign_with(&header(key), &claims),
    };
    let token = token.expect("it signs");
    Json(json!({"token_type": "Bearer", "expires_in": 300, "id_token": token, "access_token": "opaque"}))
        .into_response()
}
