//! Signatures of webhook calls by Standard Webhooks: HMAC-SHA256 over id, time and body.
//!
//! Source: "Standard Webhooks", specification 1.0, 2023.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// Prefix of secrets in base64.
const ENCODED: &str = "whsec_";

/// The key that signs calls. Its `Debug` output is hidden.
#[derive(Clone)]
pub(super) struct Signer(hmac::Key);

impl Signer {
    /// `secret` as it is, or in base64 after `whsec_`; `None` when that cannot be read.
    pub(super) fn new(secret: &str) -> Option<Self> {
        let bytes = match secret.trim().strip_prefix(ENCODED) {
            Some(encoded) => STANDARD.decode(encoded).ok()?,
            None => secret.trim().as_bytes().to_vec(),
        };
        (!bytes.is_empty()).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// `v1,` and the signature in base64.
    ///
    /// - `seconds`: Unix time of the call, as its header says.
    pub(super) fn sign(&self, id: &str, seconds: u64, body: &str) -> String {
        let signed = hmac::sign(&self.0, format!("{id}.{seconds}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(signed.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_of_the_specification() {
        // The example of the specification's libraries.
        let signer = Signer::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("it is base64");
        let signed = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_is_none_is_refused() {
        assert!(Signer::new("whsec_*").is_none());
        assert!(Signer::new(" ").is_none());
        assert!(Signer::new("plain").is_some());
    }
}
