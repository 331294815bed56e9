//! The routes that [`table`] declares: as a router, and as an OpenAPI 3.1 document with schemas made from the types.

mod operation;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use axum::http::Method;
use axum::{Json, Router};
use goalmill_common::access::Role;
use goalmill_common::problem::Problem;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::Api;
use super::response::PROBLEM;
use super::sign_in_paths::COOKIE;
use operation::Operation;

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

/// `GET /openapi.json`.
pub(super) async fn serve() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

/// Who may send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteAccess {
    /// Everyone.
    Public,
    /// Everyone with valid credentials.
    SignedIn,
    /// Callers with one of these roles.
    Roles(&'static [Role]),
}

/// Every address with its handlers. Operations that differ only in their verb have one handler.
pub(super) fn router() -> Router<Api> {
    let mut known = BTreeSet::new();
    table::operations().into_iter().fold(Router::new(), |router, operation| {
        let (address, _) = split_verb(operation.path);
        if known.insert((address, operation.method)) { router.route(address, operation.handler) } else { router }
    })
}

/// The access of every operation, by method, path of the router, and verb.
static ACCESS: LazyLock<BTreeMap<(&'static str, &'static str, &'static str), RouteAccess>> = LazyLock::new(|| {
    let place = |operation: &Operation| {
        let (path, verb) = split_verb(operation.path);
        ((operation.method, path, verb), operation.access)
    };
    table::operations().iter().map(place).collect()
});

/// Who may send a request; `None` if the table has no such operation.
///
/// - `method`: upper case.
/// - `path`: as the router has it.
/// - `verb`: what follows the last `:` of the last parameter; empty without one.
pub(super) fn route_access(method: &str, path: &str, verb: &str) -> Option<RouteAccess> {
    ACCESS.get(&(method.to_ascii_lowercase().as_str(), path, verb)).copied()
}

/// Whether something has this method at a path.
///
/// - `path`: as the router has it.
pub(super) fn is_served(method: &Method, path: &str) -> bool {
    let method = if method == Method::HEAD { Method::GET } else { method.clone() };
    let mut places = ACCESS.keys().filter(|(_, known, _)| *known == path);
    places.any(|(known, ..)| known.eq_ignore_ascii_case(method.as_str()))
}

/// Paths of the router whose `GET` has parameters.
static WITH_PARAMETERS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    table::operations()
        .into_iter()
        .filter(|operation| operation.query.is_some())
        .map(|operation| operation.path)
        .collect()
});

/// Whether the `GET` of a path has parameters.
///
/// - `path`: as the router has it.
pub(super) fn has_parameters(path: &str) -> bool {
    WITH_PARAMETERS.contains(path)
}

/// The verbs by path of the router, in the order of the table.
static VERBS: LazyLock<BTreeMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let mut verbs = BTreeMap::<_, Vec<_>>::new();
    let places = table::operations().into_iter().map(|operation| split_verb(operation.path));
    for (path, verb) in places.filter(|(_, verb)| !verb.is_empty()) {
        verbs.entry(path).or_default().push(verb);
    }
    verbs
});

/// The verbs of a path.
///
/// - `path`: as the router has it.
pub(super) fn verbs_of(path: &str) -> &'static [&'static str] {
    VERBS.get(path).map_or(&[], Vec::as_slice)
}

/// The path of the router and the verb: `/v1/plans/{id}:pause` is `/v1/plans/{id}` and `pause`. `/v1/plans:preview` is a
/// path of its own.
fn split_verb(path: &'static str) -> (&'static str, &'static str) {
    path.rfind("}:").map_or((path, ""), |at| (&path[..=at], &path[at + 2..]))
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let problem = schemas.subschema_for::<Problem>();
    let mut paths = BTreeMap::<&str, Map<String, Value>>::new();
    for operation in table::operations() {
        let described = operation.describe(&mut schemas);
        paths.entry(operation.path).or_default().insert(operation.method.to_owned(), described);
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Goalmill",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Takes goals and plans, runs their steps on agents, and keeps going when something fails.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "parameters": table::headers(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token: `gm_<id>_<secret>`"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": "A session of the web page; requests that write repeat its `X-CSRF-Token`",
                },
            },
            "responses": {"Problem": {
                "description": "Why the request was refused (RFC 9457)",
                "content": {PROBLEM: {"schema": problem}},
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::operation::{path_parameters, query_parameters, without_null};
    use super::*;

    #[test]
    fn the_parameters_that_are_described_are_those_that_are_taken() {
        let mut schemas = SchemaSettings::draft2020_12().into_generator();
        for operation in table::operations() {
            let Some(schema) = operation.query else { continue };
            let described: BTreeSet<String> = query_parameters(schema(&mut schemas))
                .iter()
                .filter_map(|parameter| parameter["name"].as_str().map(str::to_owned))
                .collect();
            let taken: BTreeSet<String> = operation.names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(described, taken, "{}", operation.path);
        }
    }

    #[test]
    fn a_parameter_is_left_out_and_never_null() {
        for (given, described) in [
            (
                json!({"type": ["string", "null"], "default": null, "pattern": "a"}),
                json!({"type": "string", "pattern": "a"}),
            ),
            (json!({"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}), json!({"anyOf": [{"$ref": "#/x"}]})),
            (json!({"type": "integer", "default": 7}), json!({"type": "integer", "default": 7})),
            (json!({"type": ["string", "integer", "null"]}), json!({"type": ["string", "integer"]})),
        ] {
            assert_eq!(without_null(given), described);
        }
    }

    #[test]
    fn the_page_about_access_has_the_table() {
        const PAGE: &str = "../docs/access.md";
        let page = std::fs::read_to_string(PAGE).expect("the page can be read");
        let (before, rest) = page.split_once("<!-- routes -->\n").expect("the page has a place for the table");
        let (table, after) = rest.split_once("<!-- routes end -->").expect("the place has an end");
        let expected = access_table();
        if table.trim() != expected.trim() {
            let written = format!("{before}<!-- routes -->\n{expected}<!-- routes end -->{after}");
            std::fs::write(PAGE, written).expect("the page can be written");
            panic!("the table of routes in docs/access.md was old, and is written again: see the difference");
        }
    }

    /// Which roles besides `admin` may call which routes, as Markdown.
    fn access_table() -> String {
        const ROLES: [Role; 5] = [Role::Viewer, Role::Submitter, Role::Approver, Role::Operator, Role::Scaler];
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for operation in table::operations() {
            let access = match operation.access {
                RouteAccess::Public => "everyone, without credentials".to_owned(),
                RouteAccess::SignedIn => "every role".to_owned(),
                RouteAccess::Roles(roles) => {
                    let names: Vec<String> =
                        ROLES.iter().filter(|role| roles.contains(role)).map(|role| format!("`{role}`")).collect();
                    if names.is_empty() { "`admin` only".to_owned() } else { names.join(", ") }
                }
            };
            let route = format!("`{} {}`", operation.method.to_ascii_uppercase(), operation.path);
            match groups.iter_mut().find(|(known, _)| *known == access) {
                Some((_, routes)) => routes.push(route),
                None => groups.push((access, vec![route])),
            }
        }
        let rows: Vec<String> =
            groups.iter().map(|(access, routes)| format!("| {access} | {} |\n", routes.join(", "))).collect();
        format!("| may call | routes |\n|---|---|\n{}", rows.concat())
    }

    #[test]
    fn operations_that_write_are_never_for_viewers_alone() {
        // They read, although they are sent by POST, or what they do needs the role of another operation, or a secret.
        let reads = ["getActionStatus", "routeText", "signIn", "sendMcpMessage", "endMcpSession", "reportCallback"];
        for operation in table::operations().into_iter().filter(|operation| operation.method != "get") {
            let open = match operation.access {
                RouteAccess::Public => true,
                RouteAccess::SignedIn => operation.id != "signOut",
                RouteAccess::Roles(roles) => roles.contains(&Role::Viewer) || roles.contains(&Role::Scaler),
            };
            assert_eq!(open, reads.contains(&operation.id), "{}", operation.id);
        }
    }

    #[test]
    fn operations_are_told_apart() {
        let operations = table::operations();
        let ids: BTreeSet<&str> = operations.iter().map(|operation| operation.id).collect();
        assert_eq!(ids.len(), operations.len(), "ids are unique");
        let places: BTreeSet<(&str, &str)> = operations.iter().map(|o| (o.method, o.path)).collect();
        assert_eq!(places.len(), operations.len(), "no place is described twice");
    }

    #[test]
    fn every_path_parameter_and_header_is_described() {
        for operation in table::operations() {
            for parameter in path_parameters(operation.path) {
                assert_ne!(parameter["description"], "", "{}: {}", operation.path, parameter["name"]);
            }
            for name in operation.headers {
                assert!(table::headers()[name].is_object(), "{}: {name}", operation.path);
            }
        }
    }
}
