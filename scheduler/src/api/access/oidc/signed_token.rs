//! Signed tokens (JWT in the compact form of RFC 7515): their parts and their signatures.
//!
//! Only what is needed is understood: a header with `alg`, `kid` and `typ`. Keys come from the issuer's key set alone, so
//! `jku`, `jwk` and `x5u` have no effect, and a header with `crit` is refused.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use goalmill_common::config::SignatureAlgorithm::{
    self, EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512,
};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::Value;

/// What the header may call the token.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// A token whose signature has not been checked.
pub(super) struct SignedToken<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    pub(super) key_id: Option<String>,
    /// What the signature covers.
    signed: &'a str,
    signature: Vec<u8>,
    payload: Vec<u8>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: SignatureAlgorithm,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

impl<'a> SignedToken<'a> {
    /// The parts of a token; `None` if it is none, or one that is not understood.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: TokenHeader = serde_json::from_slice(&decode(header)?).ok()?;
        let is_known = header.typ.is_none_or(|name| TYPES.contains(&name.to_ascii_lowercase().as_str()));
        if !is_known || header.crit.is_some() {
            return None;
        }
        let (signature, payload) = (decode(signature)?, decode(payload)?);
        Some(Self { algorithm: header.alg, key_id: header.kid, signed, signature, payload })
    }

    /// The claims, if the token is signed with one of these keys.
    pub(super) fn verify<'k>(&self, keys: impl IntoIterator<Item = &'k KeyMaterial>) -> Option<Value> {
        let message = self.signed.as_bytes();
        keys.into_iter().find(|key| key.verifies(self.algorithm, message, &self.signature))?;
        serde_json::from_slice(&self.payload).ok()
    }
}

/// A public key.
#[derive(Clone, Debug)]
pub(super) enum KeyMaterial {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeyMaterial {
    /// Whether signatures of this algorithm are made with keys of this kind.
    pub(super) fn fits(&self, algorithm: SignatureAlgorithm) -> bool {
        match self {
            Self::Rsa { .. } => rsa(algorithm).is_some(),
            Self::P256(_) => algorithm == Es256,
            Self::P384(_) => algorithm == Es384,
            Self::Ed25519(_) => algorithm == EdDsa,
        }
    }

    fn verifies(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        let plain = |kind: &'static dyn VerificationAlgorithm, key: &Vec<u8>| {
            UnparsedPublicKey::new(kind, key).verify(message, signature).is_ok()
        };
        match self {
            Self::Rsa { modulus, exponent } => rsa(algorithm).is_some_and(|kind| {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(kind, message, signature).is_ok()
            }),
            Self::P256(key) => plain(&signature::ECDSA_P256_SHA256_FIXED, key),
            Self::P384(key) => plain(&signature::ECDSA_P384_SHA384_FIXED, key),
            Self::Ed25519(key) => plain(&signature::ED25519, key),
        }
    }
}

fn rsa(algorithm: SignatureAlgorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        Es256 | Es384 | EdDsa => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7515, appendix A.3: a token signed with ES256, and its key.
    const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

    fn key() -> KeyMaterial {
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("it is base64");
        KeyMaterial::P256([vec![4], decode(X), decode(Y)].concat())
    }

    fn header(text: &str) -> String {
        format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(text))
    }

    #[test]
    fn the_token_of_the_standard_is_valid_with_its_key_only() {
        let token = SignedToken::parse(TOKEN).expect("it is a token");
        let claims = token.verify([&key()]).expect("it is signed");
        assert_eq!(claims["iss"], "joe");
        let KeyMaterial::P256(mut other) = key() else { panic!("it is of this kind") };
        other[20] ^= 1;
        assert!(token.verify([&KeyMaterial::P256(other)]).is_none());
        assert!(token.verify([]).is_none());
        let changed = TOKEN.replacen(".eyJpc3MiOiJqb2Ui", ".eyJpc3MiOiJqb2Uj", 1);
        assert!(SignedToken::parse(&changed).is_none_or(|token| token.verify([&key()]).is_none()));
    }

    #[test]
    fn headers_that_are_not_understood_are_refused() {
        assert!(
            SignedToken::parse(&header(r#"{"alg":"RS256","typ":"at+JWT","kid":"a","jku":"https://evil"}"#)).is_some()
        );
        for text in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"None"}"#,
            r#"{"alg":"HS256"}"#,
            r#"{"alg":""}"#,
            "{}",
            r#"{"alg":"RS256","alg":"none"}"#,
            r#"{"alg":"RS256","crit":["b64"],"b64":false}"#,
            r#"{"alg":"RS256","typ":"dpop+jwt"}"#,
            r#"{"alg":"RS256","kid":1}"#,
            "[]",
            "",
        ] {
            assert!(SignedToken::parse(&header(text)).is_none(), "{text}");
        }
        for text in [
            "",
            ".",
            "..",
            "a.b",
            "a.b.c",
            "a.b.c.d",
            &TOKEN.replace('.', ":"),
            &format!("{TOKEN}="),
            &format!("{TOKEN}."),
        ] {
            assert!(SignedToken::parse(text).is_none(), "{text}");
        }
    }
}
