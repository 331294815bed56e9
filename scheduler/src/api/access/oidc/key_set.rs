//! The public keys of an issuer (JWKS, RFC 7517).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use goalmill_common::config::SignatureAlgorithm;
use serde_json::Value;

use super::signed_token::{KeyMaterial, SignedToken};

/// Keys of an issuer at most.
const KEYS_MAX: usize = 100;
/// Keys that are tried for one token.
const TRIED_MAX: usize = 4;

/// The keys that can check signatures.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<IssuerKey>);

#[derive(Debug)]
struct IssuerKey {
    id: Option<String>,
    /// The only algorithm that the key is for.
    algorithm: Option<SignatureAlgorithm>,
    material: KeyMaterial,
}

impl KeySet {
    /// Reads a key set. Keys that are not understood, or not for signatures, are skipped.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("the key set is no JSON: {error}"))?;
        let keys = document["keys"].as_array().ok_or("the key set has no list `keys`")?;
        if keys.len() > KEYS_MAX {
            return Err(format!("the key set has more than {KEYS_MAX} keys"));
        }
        let usable: Vec<IssuerKey> = keys.iter().filter_map(IssuerKey::parse).collect();
        if usable.is_empty() { Err("the key set has no public key for signatures".into()) } else { Ok(Self(usable)) }
    }

    /// The keys that may have signed a token: those with its key id, or, without one, of its kind.
    pub(super) fn candidates<'a>(&'a self, token: &SignedToken<'_>) -> impl Iterator<Item = &'a KeyMaterial> {
        let (id, algorithm) = (token.key_id.clone(), token.algorithm);
        let may = move |key: &&IssuerKey| {
            (id.is_none() || key.id == id)
                && key.material.fits(algorithm)
                && key.algorithm.is_none_or(|only| only == algorithm)
        };
        self.0.iter().filter(may).map(|key| &key.material).take(TRIED_MAX)
    }
}

impl IssuerKey {
    fn parse(key: &Value) -> Option<Self> {
        let text = |name: &str| key[name].as_str();
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let is_for_signatures = text("use").is_none_or(|purpose| purpose == "sig")
            && key["key_ops"].as_array().is_none_or(|all| all.iter().any(|one| one == "verify"));
        if !is_for_signatures {
            return None;
        }
        let named = &key["alg"];
        let algorithm = if named.is_null() { None } else { Some(serde_json::from_value(named.clone()).ok()?) };
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == length && y.len() == length).then(|| [vec![4], x, y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyMaterial::Rsa { modulus: unsigned(bytes("n")?), exponent: unsigned(bytes("e")?) },
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes("x").filter(|key| key.len() == 32)?),
            _ => return None,
        };
        Some(Self { id: text("kid").map(str::to_owned), algorithm, material })
    }
}

/// A number without leading zeros.
fn unsigned(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(header: &Value) -> String {
        format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(header.to_string()))
    }

    #[test]
    fn keys_are_chosen_by_id_kind_and_algorithm() {
        let x = URL_SAFE_NO_PAD.encode([1; 32]);
        let set = json!({"keys": [
            {"kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"},
            {"kty": "RSA", "kid": "r384", "alg": "RS384", "n": "AQAB", "e": "AQAB"},
            {"kty": "EC", "kid": "e", "crv": "P-256", "x": x, "y": x},
            {"kty": "RSA", "kid": "enc", "use": "enc", "n": "AQAB", "e": "AQAB"},
            {"kty": "RSA", "kid": "wrap", "key_ops": ["wrapKey"], "n": "AQAB", "e": "AQAB"},
            {"kty": "RSA", "kid": "hs", "alg": "HS256", "n": "AQAB", "e": "AQAB"},
            {"kty": "oct", "kid": "o", "k": "AAAA"},
            {"kty": "EC", "kid": "short", "crv": "P-256", "x": "AAAA", "y": x},
            {"kty": "EC", "kid": "odd", "crv": "secp256k1", "x": x, "y": x},
            7,
        ]});
        let set = KeySet::parse(&set.to_string()).expect("some can be used");
        let found =
            |header: Value| set.candidates(&SignedToken::parse(&token(&header)).expect("it is a token")).count();
        assert_eq!(found(json!({"alg": "RS256", "kid": "r"})), 1);
        assert_eq!(found(json!({"alg": "RS256"})), 1, "the other one is for RS384 only");
        assert_eq!(found(json!({"alg": "RS384"})), 2);
        assert_eq!(found(json!({"alg": "ES256", "kid": "e"})), 1);
        assert_eq!(found(json!({"alg": "ES256", "kid": "r"})), 0, "another kind of key");
        for id in ["enc", "wrap", "hs", "o", "short", "odd", "unknown"] {
            for algorithm in ["RS256", "ES256"] {
                assert_eq!(found(json!({"alg": algorithm, "kid": id})), 0, "{id}");
            }
        }
    }

    #[test]
    fn key_sets_without_use_or_bounds_are_refused() {
        let many: Vec<Value> = (0..=KEYS_MAX).map(|_| json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"})).collect();
        for (text, said) in [
            ("<html>".to_owned(), "no JSON"),
            ("{}".into(), "no list"),
            (json!({"keys": []}).to_string(), "no public key"),
            (json!({"keys": [{"kty": "oct", "k": "AAAA"}]}).to_string(), "no public key"),
            (json!({"keys": many}).to_string(), "more than 100"),
        ] {
            let why = KeySet::parse(&text).expect_err(said);
            assert!(why.contains(said), "{why}");
        }
    }
}
