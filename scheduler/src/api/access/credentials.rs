//! Credentials of a request. Nothing is read from the address of a request: addresses are logged.

use axum::http::{HeaderMap, header};

use crate::api::sign_in_paths::COOKIE;

/// Characters of credentials at most: tokens of identity providers may list many groups.
const CHARS_MAX: usize = 16_384;

/// The credentials of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    None,
    /// The text of a token. It goes before a cookie.
    Bearer(String),
    /// The word in the cookie of a session.
    Session(String),
    /// Credentials that cannot be valid: of another scheme, or more than one.
    Invalid,
}

impl Credentials {
    pub(super) fn parse(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        if let Some(value) = values.next() {
            let token = value.to_str().ok().and_then(bearer).filter(|_| values.next().is_none());
            return token.map_or(Self::Invalid, |token| Self::Bearer(token.to_owned()));
        }
        match cookie_values(headers, COOKIE)[..] {
            [] => Self::None,
            [word] if !word.is_empty() && word.len() <= CHARS_MAX => Self::Session(word.to_owned()),
            _ => Self::Invalid,
        }
    }
}

/// The values of a cookie.
fn cookie_values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(other, _)| *other == name).map(|(_, word)| word).collect()
}

/// The value of a cookie that is there once.
pub(crate) fn cookie_value(headers: &HeaderMap, name: &str) -> Option<String> {
    match cookie_values(headers, name)[..] {
        [word] if !word.is_empty() && word.len() <= CHARS_MAX => Some(word.to_owned()),
        _ => None,
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let is_token = !token.is_empty() && token.len() <= CHARS_MAX && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(headers: &[(&'static str, &str)]) -> Credentials {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("it is a value"));
        }
        Credentials::parse(&map)
    }

    #[test]
    fn a_request_shows_one_token_or_one_cookie() {
        assert_eq!(parse(&[]), Credentials::None);
        assert_eq!(parse(&[("cookie", "theme=dark")]), Credentials::None);
        assert_eq!(parse(&[("authorization", "Bearer abc")]), Credentials::Bearer("abc".into()));
        assert_eq!(
            parse(&[("authorization", "bearer abc"), ("cookie", "__Host-goalmill=w")]),
            Credentials::Bearer("abc".into())
        );
        assert_eq!(parse(&[("cookie", "a=b; __Host-goalmill=w; c=d")]), Credentials::Session("w".into()));
        for invalid in [
            &[("authorization", "Basic YTpi")][..],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer  abc")],
            &[("authorization", "Bearer a b")],
            &[("authorization", "abc")],
            &[("authorization", "Bearer a"), ("authorization", "Bearer a")],
            &[("authorization", "Basic x"), ("cookie", "__Host-goalmill=w")],
            &[("cookie", "__Host-goalmill=v; __Host-goalmill=w")],
            &[("cookie", "__Host-goalmill=")],
        ] {
            assert_eq!(parse(invalid), Credentials::Invalid, "{invalid:?}");
        }
        assert_eq!(parse(&[("cookie", "__host-goalmill=w; goalmill=w; Secure-goalmill=w")]), Credentials::None);
    }
}
