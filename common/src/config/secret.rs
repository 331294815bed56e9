//! Hides secrets in settings and addresses before they are printed.

use serde_json::Value;

/// What stands for a secret.
const HIDDEN: &str = "***";
/// Fields of which every value is a secret: headers of an HTTP executor, variables of a command.
const SECRET_MAPS: [&str; 2] = ["headers", "set"];
/// The command line of a command: all but the program may be secret.
const ARGUMENTS: &str = "argv";
/// Fields whose text is a secret end with one of these. Names of variables end with `_env` and are none.
const SECRET_ENDS: [&str; 6] = ["password", "secret", "token", "api_key", "apikey", "authorization"];
/// Parameters of an address that are never secrets. The values of all others are hidden.
const OPEN_PARAMETERS: [&str; 4] = ["db", "protocol", "api-version", "version"];

/// Replaces every secret in the JSON form of settings by `***`.
pub fn hide_secrets(tree: &mut Value) {
    match tree {
        Value::String(text) => *text = hide_password(text),
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| hide_field(name, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hide_field(name: &str, value: &mut Value) {
    let lower = name.to_ascii_lowercase();
    let is_secret = |text: &str| !text.is_empty() && SECRET_ENDS.iter().any(|end| lower.ends_with(end));
    if let Value::Object(fields) = value
        && SECRET_MAPS.contains(&name)
    {
        fields.iter_mut().for_each(|(_, value)| *value = HIDDEN.into());
    } else if let Value::Array(items) = value
        && name == ARGUMENTS
    {
        items.iter_mut().skip(1).for_each(|value| *value = HIDDEN.into());
    } else if value.as_str().is_some_and(is_secret) {
        *value = HIDDEN.into();
    } else {
        hide_secrets(value);
    }
}

/// Replaces what may be secret in an address by `***`: user information without its name, the values of parameters,
/// the fragment. Every address that is printed or logged goes through here.
pub fn hide_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    // The password itself may have the question mark or the hash.
    if !place.contains('@') && [query, fragment].into_iter().flatten().any(|text| text.contains('@')) {
        return format!("{scheme}://{HIDDEN}");
    }
    let mut shown = format!("{scheme}://{}", hidden_user(place));
    if let Some(query) = query {
        let pairs: Vec<String> = query.split('&').map(hidden_pair).collect();
        shown.push('?');
        shown.push_str(&pairs.join("&"));
    }
    if fragment.is_some() {
        shown.push_str(&format!("#{HIDDEN}"));
    }
    shown
}

fn hidden_user(place: &str) -> String {
    let Some((auth, host)) = place.rsplit_once('@') else { return place.into() };
    // A name without a password may be a token.
    match auth.split_once(':') {
        Some((name, _)) => format!("{name}:{HIDDEN}@{host}"),
        None => format!("{HIDDEN}@{host}"),
    }
}

fn hidden_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if OPEN_PARAMETERS.contains(&name) => pair.into(),
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None if pair.is_empty() => String::new(),
        None => HIDDEN.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passwords_are_hidden() {
        assert_eq!(hide_password("redis://ann:secret@h:1/0"), "redis://ann:***@h:1/0");
        assert_eq!(hide_password("redis://h:1"), "redis://h:1");
        let own = "redis+sentinel://:a@h:1,i/plans?db=2&sentinel_password=b";
        assert_eq!(hide_password(own), "redis+sentinel://:***@h:1,i/plans?db=2&sentinel_password=***");
        for url in [
            "redis://:se?cret@h",
            "redis://:se#cret@h",
            "redis+sentinel://h/plans?sentinel_password=se@cret",
            "https://h/v1?api_key=cret",
            "https://h/v1?cret",
            "https://h/v1?a=1&sig=cret#cret",
            "https://cret@h/v1",
        ] {
            assert!(!hide_password(url).contains("cret"), "{url}");
        }
    }

    #[test]
    fn every_field_that_can_hold_a_secret_is_hidden() {
        let mut tree = json!({
            "redis": {"url": "redis://u:cret@h/0"},
            "router": {"embed_url": "https://h/v1?api_key=cret", "embed_key_env": "OPENAI_API_KEY"},
            "models": [{"name": "m", "base_url": "https://cret@h/v1", "api_key_env": "KEY", "output_tokens_max": 7}],
            "hooks": [{"name": "n", "url": "https://n:cret@h/x?token=cret", "secret_env": "HOOK", "secret": "cret"}],
            "worker": {"agents": {
                "a": {"http": {"url": "https://h/?key=cret", "headers": {"authorization": "Bearer cret", "x": "cret"}}},
                "b": {"command": {"argv": ["run", "--key", "cret"], "set": {"KEY": "cret"}, "env": ["HOME"]}},
            }},
        });
        hide_secrets(&mut tree);
        let text = tree.to_string().replace("secret", "");
        assert!(!text.contains("cret"), "{text}");
        for kept in ["OPENAI_API_KEY", "\"KEY\"", "HOOK", "run", "HOME", "authorization", "7"] {
            assert!(text.contains(kept), "{kept} is no secret: {text}");
        }
    }
}
