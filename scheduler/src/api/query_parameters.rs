//! Query parameters: each must be known, occur once, and have a valid value.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goalmill_common::problem::{ErrorCode, Issue};
use goalmill_common::text::pointer_part;

use super::openapi::{has_parameters, is_served};
use super::response::{ApiError, shown};
use super::sign_in_paths::is_sign_in;
use crate::submission::issues_problem;

/// Replaces bytes that are not UTF-8.
const REPLACED: char = '\u{fffd}';

/// The parameters of one address.
pub(super) trait Parameters: Sized {
    /// The names of the parameters.
    const NAMES: &'static [&'static str];

    /// Parses the values; issues are collected in `given`.
    fn parse(given: &mut RawParameters) -> Self;
}

/// The valid parameters of a request; all issues are reported together.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: Parameters> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut given = RawParameters::new(&parts.uri, T::NAMES);
        let parameters = T::parse(&mut given);
        given.finish().map(|()| Self(parameters))
    }
}

/// Rejects parameters at addresses without parameters.
pub(super) async fn refuse_parameters(request: Request, next: Next) -> Response {
    match takes_parameters(&request) {
        true => next.run(request).await,
        false => match RawParameters::new(request.uri(), &[]).finish() {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        },
    }
}

/// Whether the address has parameters, or is none that takes the method, which is refused elsewhere.
fn takes_parameters(request: &Request) -> bool {
    let method = request.method();
    let Some(path) = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str) else { return false };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && (has_parameters(path) || is_sign_in(path))
        || path.starts_with("/v1/") && !is_sign_in(path) && !is_served(method, path)
}

/// The given parameters, and their issues.
#[derive(Default)]
pub(super) struct RawParameters {
    values: BTreeMap<String, String>,
    issues: Vec<Issue>,
}

impl RawParameters {
    fn new(uri: &Uri, names: &[&str]) -> Self {
        let mut given = Self::default();
        let pairs = match axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri) {
            Ok(axum::extract::Query(pairs)) => pairs,
            Err(error) => {
                given.note("INVALID_ENCODING", "", error.body_text(), "write `name=value`, joined by `&`");
                Vec::new()
            }
        };
        for (name, value) in pairs {
            given.add_parameter(name, value, names);
        }
        given
    }

    fn add_parameter(&mut self, name: String, value: String, names: &[&str]) {
        let is_new = !self.values.contains_key(&name);
        if !names.contains(&name.as_str()) {
            let hint = match names {
                [] => "leave it out: this address takes no parameters".to_owned(),
                _ => format!("there are `{}`", names.join("`, `")),
            };
            self.note("UNKNOWN_PARAMETER", &name, format!("there is no parameter `{}`", shown(&name)), hint);
        } else if value.contains(REPLACED) {
            self.note("INVALID_ENCODING", &name, format!("the value of `{name}` is not UTF-8"), "encode it as UTF-8");
        } else if is_new {
            self.values.insert(name, value);
        } else {
            self.note("DUPLICATE_KEY", &name, format!("the parameter `{name}` stands twice"), "keep one of them");
        }
    }

    fn note(&mut self, code: &str, name: &str, detail: impl Into<String>, hint: impl Into<String>) {
        let pointer = if name.is_empty() { String::new() } else { format!("/{}", pointer_part(&shown(name))) };
        self.issues.push(Issue { code: code.into(), pointer, detail: detail.into(), hint: hint.into() });
    }

    /// An integer in a range.
    pub(super) fn number<N>(&mut self, name: &str, range: RangeInclusive<N>) -> Option<N>
    where
        N: FromStr + PartialOrd + Display,
    {
        let text = self.values.remove(name)?;
        let number = text.parse::<N>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            let detail = format!("`{name}` is `{}`", shown(&text));
            self.note("OUT_OF_RANGE", name, detail, format!("give a whole number from {least} to {most}"));
        }
        number
    }

    /// A value that `read` parses.
    ///
    /// - `read`: returns reason and hint of an invalid value.
    pub(super) fn value<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, (String, String)>) -> Option<T> {
        let text = self.values.remove(name)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err((detail, hint)) => {
                self.note("INVALID_VALUE", name, detail, hint);
                None
            }
        }
    }

    /// One of a list of statuses.
    pub(super) fn status<S: Copy + Display>(&mut self, name: &str, all: &[S]) -> Option<S> {
        self.value(name, |text| {
            all.iter().copied().find(|status| status.to_string() == text).ok_or_else(|| {
                let known: Vec<String> = all.iter().map(ToString::to_string).collect();
                (format!("there is no status `{}`", shown(text)), format!("there are `{}`", known.join("`, `")))
            })
        })
    }

    /// `true` or `false`; `false` without the parameter.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let read = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err((format!("`{}` is neither `true` nor `false`", shown(other)), "give `true`".to_owned())),
        };
        self.value(name, read).unwrap_or(false)
    }

    fn finish(self) -> Result<(), ApiError> {
        if self.issues.is_empty() {
            Ok(())
        } else {
            Err(ApiError(issues_problem(ErrorCode::InvalidRequest, self.issues)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str) -> Vec<(String, String)> {
        let uri = format!("/v1/plans?{query}").parse().expect("it is an address");
        let mut given = RawParameters::new(&uri, &["limit", "after", "word"]);
        given.number("limit", 1..=500_u16);
        given.number("after", 0..=u64::MAX);
        given.value("word", |text| if text == "good" { Ok(()) } else { Err((format!("`{text}`"), "good".into())) });
        let issues = given.finish().err().map(|ApiError(problem)| problem.errors).unwrap_or_default();
        assert!(issues.iter().all(|issue| !issue.detail.is_empty() && !issue.hint.is_empty()), "{issues:?}");
        issues.into_iter().map(|issue| (issue.code, issue.pointer)).collect()
    }

    #[test]
    fn every_parameter_that_is_unknown_or_invalid_is_named_at_once() {
        for good in ["", "limit=1", "limit=500&after=0", "word=good", &format!("after={}", u64::MAX)] {
            assert_eq!(found(good), [], "{good}");
        }
        for (bad, code, pointer) in [
            ("limit=0", "OUT_OF_RANGE", "/limit"),
            ("limit=501", "OUT_OF_RANGE", "/limit"),
            ("limit=many", "OUT_OF_RANGE", "/limit"),
            ("limit=", "OUT_OF_RANGE", "/limit"),
            ("after=-1", "OUT_OF_RANGE", "/after"),
            ("after=18446744073709551616", "OUT_OF_RANGE", "/after"),
            ("limit=1&limit=1", "DUPLICATE_KEY", "/limit"),
            ("word=bad", "INVALID_VALUE", "/word"),
            ("word=%ff", "INVALID_ENCODING", "/word"),
            ("a%2Fb=1", "UNKNOWN_PARAMETER", "/a~1b"),
            ("Limit=1", "UNKNOWN_PARAMETER", "/Limit"),
            ("x", "UNKNOWN_PARAMETER", "/x"),
        ] {
            assert_eq!(found(bad), [(code.to_owned(), pointer.to_owned())], "{bad}");
        }
        assert_eq!(found("x=1&limit=0&word=bad").len(), 3);
    }
}
