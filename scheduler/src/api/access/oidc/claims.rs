//! Reads the claims of a token: validity, name and roles of the caller.

use std::collections::BTreeSet;

use goalmill_common::access::Role;
use goalmill_common::clock::TIME_MS_MAX;
use goalmill_common::config::OidcSettings;
use goalmill_common::id::{Namespace, is_id};
use goalmill_common::number::whole_u64;
use serde_json::Value;

use crate::api::access::identity::OidcIdentity;
use crate::api::access::secret_digest::SecretDigest;

/// Characters of a name in logs, without its digest.
const NAME_CHARS_MAX: usize = 64;
/// Characters of the digest behind a name that had to be changed.
const DIGEST_CHARS: usize = 8;

/// The caller, if the token is of the issuer, meant for one of `audiences`, and valid at `now_ms`.
pub(super) fn identity(
    claims: &Value,
    settings: &OidcSettings,
    audiences: &[String],
    now_ms: u64,
) -> Option<OidcIdentity> {
    let (skew_ms, seconds) = (settings.clock_skew_ms, |name: &str| claims[name].as_f64());
    let expires_ms = milliseconds(seconds("exp")?)?;
    let is_begun = claims["nbf"].is_null() || milliseconds(seconds("nbf")?)? <= now_ms.saturating_add(skew_ms);
    let is_meant = texts(&claims["aud"]).iter().any(|named| audiences.iter().any(|audience| audience == named));
    let is_valid = claims["iss"] == settings.issuer.as_str()
        && is_meant
        && is_begun
        && now_ms < expires_ms.saturating_add(skew_ms);
    if !is_valid {
        return None;
    }
    let name = find(claims, &settings.actor_claim)?.as_str().filter(|name| !name.is_empty())?;
    let (roles, namespace) = match namespace(claims, settings) {
        Some(namespace) => (roles(claims, settings), namespace),
        None => (BTreeSet::new(), Namespace::default().to_string()),
    };
    Some(OidcIdentity { actor: actor(name), roles, namespace, expires_ms })
}

/// Seconds since 1970 as milliseconds.
fn milliseconds(seconds: f64) -> Option<u64> {
    (seconds >= 0.0).then(|| whole_u64(seconds * 1_000.0)).filter(|time_ms| *time_ms <= TIME_MS_MAX)
}

/// A text, or a list of texts; anything else is nothing.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// The claim with this name, or at this JSON Pointer.
fn find<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) }
}

/// The values of a claim.
fn held<'a>(claims: &'a Value, name: &str) -> BTreeSet<&'a str> {
    let claim = find(claims, name).unwrap_or(&Value::Null);
    // A text may be several words, as in `scope`.
    texts(claim).into_iter().chain(claim.as_str().into_iter().flat_map(str::split_whitespace)).collect()
}

fn roles(claims: &Value, settings: &OidcSettings) -> BTreeSet<Role> {
    let held = held(claims, &settings.roles_claim);
    let gives = |values: &Vec<String>| values.iter().any(|value| held.contains(value.as_str()));
    settings.roles.iter().filter(|(_, values)| gives(values)).map(|(role, _)| *role).collect()
}

/// The namespace of the caller, or `*`; `None` if the settings give namespaces, and none to this caller.
fn namespace(claims: &Value, settings: &OidcSettings) -> Option<String> {
    if settings.namespaces.is_empty() {
        return Some(Namespace::default().to_string());
    }
    let name = Some(&settings.namespaces_claim).filter(|name| !name.is_empty()).unwrap_or(&settings.roles_claim);
    let held = held(claims, name);
    // `*` is before every name.
    let gives = |values: &Vec<String>| values.iter().any(|value| held.contains(value.as_str()));
    settings.namespaces.iter().find(|(_, values)| gives(values)).map(|(namespace, _)| namespace.clone())
}

/// The name in logs: `oidc:` and the name of the issuer. One that is no id is changed and gets a digest, so that two
/// names stay two.
fn actor(name: &str) -> String {
    let whole = format!("oidc:{name}");
    if is_id(&whole) && name.len() <= NAME_CHARS_MAX {
        return whole;
    }
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | ':' | '-') => letter,
        _ => '-',
    };
    let cut: String = name.chars().take(NAME_CHARS_MAX).map(plain).collect();
    let digest = SecretDigest::from_secret(name);
    format!("oidc:{cut}-{}", &digest.as_str()[..DIGEST_CHARS])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_MS: u64 = 1_000_000_000;

    fn settings() -> OidcSettings {
        OidcSettings {
            issuer: "https://login.example".into(),
            audiences: vec!["goalmill".into()],
            roles: [(Role::Viewer, vec!["team".into(), "all".into()]), (Role::Admin, vec!["lead".into()])].into(),
            ..OidcSettings::default()
        }
    }

    fn identity_of(change: Value) -> Option<OidcIdentity> {
        let mut claims = json!({"iss": "https://login.example", "aud": "goalmill", "sub": "ann", "exp": 1_000_100, "roles": ["team"]});
        for (name, value) in change.as_object().expect("it is an object") {
            claims[name] = value.clone();
        }
        identity(&claims, &settings(), &settings().audiences, NOW_MS)
    }

    #[test]
    fn a_token_is_of_the_issuer_for_this_audience_and_in_its_time() {
        let found = identity_of(json!({})).expect("it is valid");
        assert_eq!((found.actor.as_str(), found.expires_ms), ("oidc:ann", 1_000_100_000));
        assert_eq!(found.roles, [Role::Viewer].into());
        for valid in [
            json!({"aud": ["other", "goalmill"]}),
            json!({"exp": 999_941}),
            json!({"exp": 1_000_100.5}),
            json!({"nbf": 1_000_060}),
        ] {
            assert!(identity_of(valid.clone()).is_some(), "{valid}");
        }
        for invalid in [
            json!({"iss": "https://login.example/"}),
            json!({"iss": ["https://login.example"]}),
            json!({"iss": null}),
            json!({"aud": "other"}),
            json!({"aud": []}),
            json!({"aud": {"goalmill": true}}),
            json!({"aud": null}),
            json!({"exp": 999_940}),
            json!({"exp": null}),
            json!({"exp": "1000100"}),
            json!({"exp": -1}),
            json!({"exp": 1e300}),
            json!({"nbf": 1_000_061}),
            json!({"nbf": "0"}),
            json!({"sub": null}),
            json!({"sub": ""}),
            json!({"sub": 7}),
        ] {
            assert!(identity_of(invalid.clone()).is_none(), "{invalid}");
        }
    }

    #[test]
    fn values_of_a_claim_give_roles() {
        let held = |claim: Value| identity_of(json!({"roles": claim})).expect("it is valid").roles;
        assert_eq!(held(json!(["lead", "all", "x"])), [Role::Viewer, Role::Admin].into());
        assert_eq!(held(json!("openid lead")), [Role::Admin].into());
        for none in
            [json!(null), json!("admin"), json!(["admin", "viewer", "TEAM"]), json!({"team": true}), json!([["lead"]])]
        {
            assert_eq!(held(none.clone()), BTreeSet::new(), "{none}");
        }
        let nested = OidcSettings { roles_claim: "/realm_access/roles".into(), ..settings() };
        assert_eq!(roles(&json!({"realm_access": {"roles": ["lead"]}}), &nested), [Role::Admin].into());
        let spelled = OidcSettings { roles_claim: "https://a.example/roles".into(), ..settings() };
        assert_eq!(roles(&json!({"https://a.example/roles": ["lead"]}), &spelled), [Role::Admin].into());
    }

    #[test]
    fn values_of_a_claim_give_a_namespace() {
        let mut settings = settings();
        let claims = |groups: Value| json!({"roles": groups, "team": "blue"});
        assert_eq!(namespace(&claims(json!([])), &settings).as_deref(), Some("default"));
        let names = [("*", "lead"), ("red", "r"), ("blue", "b")];
        settings.namespaces = names.map(|(name, value)| (name.to_owned(), vec![value.to_owned()])).into();
        for (groups, found) in [
            (json!(["r"]), Some("red")),
            (json!(["r", "b"]), Some("blue")),
            (json!(["r", "lead"]), Some("*")),
            (json!(["red", "*"]), None),
            (json!([]), None),
        ] {
            assert_eq!(namespace(&claims(groups.clone()), &settings).as_deref(), found, "{groups}");
        }
        settings.namespaces_claim = "team".into();
        assert_eq!(namespace(&claims(json!(["lead"])), &settings), None);
        let mut all =
            json!({"iss": settings.issuer, "aud": "goalmill", "sub": "ann", "exp": 1_000_100, "roles": ["lead"]});
        let without = identity(&all, &settings, &settings.audiences, NOW_MS).expect("it is valid");
        assert_eq!((without.roles, without.namespace.as_str()), (BTreeSet::new(), "default"));
        all["team"] = "b".into();
        let within = identity(&all, &settings, &settings.audiences, NOW_MS).expect("it is valid");
        assert_eq!((within.roles, within.namespace.as_str()), ([Role::Admin].into(), "blue"));
    }

    #[test]
    fn two_names_stay_two_in_logs() {
        assert_eq!(actor("ann"), "oidc:ann");
        let (at, minus) = (actor("ann@example.com"), actor("ann-example.com"));
        assert!(at.starts_with("oidc:ann-example.com-") && minus == "oidc:ann-example.com", "{at} {minus}");
        assert_ne!(actor("ann example.com"), at);
        assert_ne!(actor(&"x".repeat(500)), actor(&"x".repeat(501)));
        for odd in ["ä", "a\nb", "auth0|1", &"x".repeat(500)] {
            assert!(is_id(&actor(odd)), "{odd}");
        }
    }
}
