//! The routes that [`table`] declares: as a router, and as an OpenAPI 3.1 document with schemas made from the types.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{self, MethodRouter};
use axum::{Json, Router};
use goalmill_common::access::Role;
use goalmill_common::problem::{ErrorCode, Problem};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::Api;
use super::access::COOKIE;
use super::query_parameters::Parameters;
use super::response::PROBLEM;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const TEXT: &str = "text/plain";
const EVENT_STREAM: &str = "text/event-stream";

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

/// `GET /openapi.json`.
pub(super) async fn serve() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

/// Names a type's schema, and puts it among the components where it has a name.
type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

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

/// What one method does at one address.
struct Operation {
    /// Lower case.
    method: &'static str,
    /// With the verb, where there is one: `/v1/plans/{id}:pause`.
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: MethodRouter<Api>,
    query: Option<SchemaOf>,
    /// The names of its parameters, as requests are held to them.
    names: &'static [&'static str],
    headers: &'static [&'static str],
    body: Option<(&'static [&'static str], SchemaOf)>,
    status: u16,
    access: RouteAccess,
    answer: Vec<(&'static str, SchemaOf)>,
    /// Besides those that any address may give.
    problems: &'static [ErrorCode],
}

fn get<H: Handler<T, Api>, T: 'static>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    Operation {
        method: "get",
        path,
        id,
        summary,
        handler: routing::get(handler),
        query: None,
        names: &[],
        headers: &[],
        body: None,
        status: 200,
        access: RouteAccess::Roles(table::READERS),
        answer: Vec::new(),
        problems: &[],
    }
}

/// Only for `admin`, unless it says otherwise.
fn post<H: Handler<T, Api>, T: 'static>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    let access = RouteAccess::Roles(&[Role::Admin]);
    Operation { method: "post", access, handler: routing::post(handler.clone()), ..get(path, id, summary, handler) }
}

/// Only for `admin`, unless it says otherwise.
fn delete<H: Handler<T, Api>, T: 'static>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    Operation { method: "delete", handler: routing::delete(handler.clone()), ..post(path, id, summary, handler) }
}

impl Operation {
    /// Its parameters are the fields of `T`.
    fn query<T: JsonSchema + Parameters>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self.names = T::NAMES;
        self
    }

    fn headers(mut self, names: &'static [&'static str]) -> Self {
        self.headers = names;
        self
    }

    fn takes<T: JsonSchema>(self) -> Self {
        self.takes_as::<T>(&[JSON])
    }

    fn takes_as<T: JsonSchema>(mut self, media: &'static [&'static str]) -> Self {
        self.body = Some((media, SchemaGenerator::subschema_for::<T>));
        self
    }

    fn gives<T: JsonSchema>(self) -> Self {
        self.gives_as::<T>(JSON)
    }

    fn gives_as<T: JsonSchema>(mut self, media: &'static str) -> Self {
        self.answer.push((media, SchemaGenerator::subschema_for::<T>));
        self
    }

    fn access(mut self, access: RouteAccess) -> Self {
        self.access = access;
        self
    }

    fn roles(self, roles: &'static [Role]) -> Self {
        self.access(RouteAccess::Roles(roles))
    }

    fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    fn refuses(mut self, problems: &'static [ErrorCode]) -> Self {
        self.problems = problems;
        self
    }

    fn describe(&self, schemas: &mut SchemaGenerator) -> Value {
        let mut parameters: Vec<Value> = path_parameters(self.path);
        parameters.extend(self.query.iter().flat_map(|schema| query_parameters(schema(schemas))));
        let selects = (self.access != RouteAccess::Public).then_some("Goalmill-Namespace");
        parameters.extend(
            self.headers
                .iter()
                .copied()
                .chain(selects)
                .map(|name| json!({"$ref": format!("#/components/parameters/{name}")})),
        );
        let mut described = json!({
            "operationId": self.id,
            "summary": self.summary,
            "tags": [tag(self.path)],
            "parameters": parameters,
            "responses": self.responses(schemas),
            "security": match self.access {
                RouteAccess::Public => json!([]),
                RouteAccess::SignedIn | RouteAccess::Roles(_) => json!([{"token": []}, {"session": []}]),
            },
            "x-roles": match self.access {
                RouteAccess::Public => json!(null),
                RouteAccess::SignedIn => json!(Role::ALL),
                RouteAccess::Roles(roles) => json!(roles),
            },
        });
        if let Some((media, schema)) = self.body {
            let schema = schema(schemas);
            let content: Map<String, Value> =
                media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect();
            let is_required = requires_fields(&schema, schemas);
            described["requestBody"] = json!({"required": is_required, "content": content});
        }
        described
    }

    fn responses(&self, schemas: &mut SchemaGenerator) -> Value {
        let content: Map<String, Value> = self
            .answer
            .iter()
            .map(|(media, schema)| ((*media).to_owned(), json!({"schema": schema(schemas)})))
            .collect();
        let mut responses =
            Map::from_iter([(self.status.to_string(), json!({"description": "Done", "content": content}))]);
        if self.status == 202 {
            responses["202"]["headers"] = json!({"Location": {
                "description": "Where the plan is",
                "schema": {"type": "string"},
            }});
        }
        if self.path.contains("{id}") && self.answer.iter().any(|(media, _)| *media == EVENT_STREAM) {
            responses.insert("204".into(), json!({"description": "The plan has ended, and there is no event left"}));
        }
        if self.headers.contains(&"Prefer") {
            let applied = json!({"Preference-Applied": {"description": "The wait", "schema": {"type": "string"}}});
            responses["202"]["headers"]["Preference-Applied"] = applied["Preference-Applied"].clone();
            let done = json!({"description": "The plan has ended", "headers": applied, "content": responses["202"]["content"]});
            responses.insert("200".into(), done);
        }
        if self.headers.contains(&"If-None-Match") {
            let tag = json!({"ETag": {"description": "Names this state of the plan", "schema": {"type": "string"}}});
            responses["200"]["headers"] = tag.clone();
            let same = json!({"description": "The client has the newest state", "headers": tag});
            responses.insert("304".into(), same);
        }
        for (status, codes) in by_status(self.codes()) {
            responses.insert(status.to_string(), refusal(&codes));
        }
        // An error of JSON-RPC says itself what is wrong.
        if self.path == "/mcp"
            && let Some(content) = responses.get_mut("400").and_then(|refusal| refusal["content"].as_object_mut())
        {
            content.insert("application/json".into(), json!({"schema": {"type": "object"}}));
        }
        Value::Object(responses)
    }

    fn codes(&self) -> impl Iterator<Item = ErrorCode> {
        let body: &[ErrorCode] = if self.body.is_some() { &table::BODY } else { &[] };
        let access: &[ErrorCode] = match self.access {
            RouteAccess::Public => &[],
            RouteAccess::SignedIn | RouteAccess::Roles(_) => &table::ACCESS,
        };
        self.problems.iter().chain(table::ANY.iter()).chain(body).chain(access).copied()
    }
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

/// `/v1/plans/{id}:pause` belongs to `plans`.
fn tag(path: &str) -> &str {
    let Some(rest) = path.strip_prefix("/v1/") else { return "service" };
    rest.split(['/', ':']).next().unwrap_or(rest)
}

fn path_parameters(path: &'static str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let one = |(name, _): (&str, _)| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": table::path_parameter(name),
            "schema": {"type": "string"},
        })
    };
    names.map(one).collect()
}

/// Whether an object of this schema has fields that must be given.
fn requires_fields(schema: &Schema, schemas: &SchemaGenerator) -> bool {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    let found = name.and_then(|name| schemas.definitions().get(name)).unwrap_or(schema.as_value());
    found["required"].as_array().is_some_and(|required| !required.is_empty())
}

/// The fields of an object as parameters.
fn query_parameters(schema: Schema) -> Vec<Value> {
    let schema = schema.to_value();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let one = |(name, field): (&String, &Value)| {
        let mut field = without_null(field.clone());
        let description = field.as_object_mut().and_then(|field| field.remove("description")).unwrap_or_default();
        json!({
            "name": name,
            "in": "query",
            "required": required.contains(&name.as_str()),
            "description": description,
            "schema": field,
        })
    };
    fields.map(one).collect()
}

/// The schema of a field that is left out instead of being `null`.
fn without_null(mut field: Value) -> Value {
    let is_null = |kind: &Value| kind == "null" || kind["type"] == "null";
    for list in ["type", "anyOf"] {
        let Some(kinds) = field.get_mut(list).and_then(Value::as_array_mut) else { continue };
        kinds.retain(|kind| !is_null(kind));
        if let [Value::String(kind)] = kinds.as_slice() {
            field["type"] = kind.as_str().into();
        }
    }
    if let Some(field) = field.as_object_mut().filter(|field| field.get("default").is_some_and(Value::is_null)) {
        field.remove("default");
    }
    field
}

fn by_status(codes: impl Iterator<Item = ErrorCode>) -> BTreeMap<u16, Vec<ErrorCode>> {
    let mut grouped = BTreeMap::<u16, Vec<ErrorCode>>::new();
    for code in codes {
        let group = grouped.entry(code.status()).or_default();
        if !group.contains(&code) {
            group.push(code);
        }
    }
    grouped
}

fn refusal(codes: &[ErrorCode]) -> Value {
    let lines: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}", code.as_str(), Problem::new(*code, "").title)).collect();
    let mut refusal = json!({
        "description": lines.join("; "),
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    if codes.iter().any(|code| matches!(code.status(), 429 | 503)) {
        let description = "Seconds after which to try again, where that may help";
        refusal["headers"] = json!({"Retry-After": {"description": description, "schema": {"type": "integer"}}});
    }
    refusal
}

#[cfg(test)]
mod tests {
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
