//! One operation of the API: what the table says of it, and its part of the OpenAPI document.

use std::collections::BTreeMap;

use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
use goalmill_common::access::Role::{self, Approver, Operator, Submitter, Viewer};
use goalmill_common::problem::ErrorCode::{
    self, BodyTooLarge, DataLost, Forbidden, ForeignOrigin, Internal, InvalidRequest, IssuerUnavailable,
    MemoryPressure, MisdirectedRequest, NotReady, RequestTimeout, StoreRefused, StoreUnavailable, TooManyFailures,
    Unauthenticated, UnsafeStore, UnsupportedMediaType,
};
use goalmill_common::problem::Problem;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::RouteAccess;
use crate::api::Api;
use crate::api::query_parameters::Parameters;
use crate::api::response::PROBLEM;
pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
pub(super) const TEXT: &str = "text/plain";
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// What any request may be refused for.
const ANY: [ErrorCode; 12] = [
    InvalidRequest, MisdirectedRequest, ForeignOrigin, RequestTimeout, UnsupportedMediaType, Internal,
    StoreUnavailable, StoreRefused, MemoryPressure, UnsafeStore, DataLost, NotReady,
];
/// What a request that needs credentials may be refused for.
const ACCESS: [ErrorCode; 4] = [Unauthenticated, Forbidden, TooManyFailures, IssuerUnavailable];
/// What a request with a body may be refused for.
const BODY: [ErrorCode; 1] = [BodyTooLarge];

/// Who may read: people who may change something may also see it.
pub(in crate::api) const READERS: &[Role] = &[Viewer, Submitter, Approver, Operator];

/// Names a type's schema, and puts it among the components where it has a name.
type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What one method does at one address.
pub(super) struct Operation {
    /// Lower case.
    pub(super) method: &'static str,
    /// With the verb, where there is one: `/v1/plans/{id}:pause`.
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) handler: MethodRouter<Api>,
    pub(super) query: Option<SchemaOf>,
    /// The names of its parameters, as requests are held to them.
    pub(super) names: &'static [&'static str],
    pub(super) headers: &'static [&'static str],
    pub(super) body: Option<(&'static [&'static str], SchemaOf)>,
    pub(super) status: u16,
    pub(super) access: RouteAccess,
    pub(super) answer: Vec<(&'static str, SchemaOf)>,
    /// Besides those that any address may give.
    pub(super) problems: &'static [ErrorCode],
}

pub(super) fn get<H: Handler<T, Api>, T: 'static>(
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
        access: RouteAccess::Roles(READERS),
        answer: Vec::new(),
        problems: &[],
    }
}

/// Only for `admin`, unless it says otherwise.
pub(super) fn post<H: Handler<T, Api>, T: 'static>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    let access = RouteAccess::Roles(&[Role::Admin]);
    Operation { method: "post", access, handler: routing::post(handler.clone()), ..get(path, id, summary, handler) }
}

/// Only for `admin`, unless it says otherwise.
pub(super) fn delete<H: Handler<T, Api>, T: 'static>(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    handler: H,
) -> Operation {
    Operation { method: "delete", handler: routing::delete(handler.clone()), ..post(path, id, summary, handler) }
}

impl Operation {
    /// Its parameters are the fields of `T`.
    pub(super) fn query<T: JsonSchema + Parameters>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self.names = T::NAMES;
        self
    }

    pub(super) fn headers(mut self, names: &'static [&'static str]) -> Self {
        self.headers = names;
        self
    }

    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        self.takes_as::<T>(&[JSON])
    }

    pub(super) fn takes_as<T: JsonSchema>(mut self, media: &'static [&'static str]) -> Self {
        self.body = Some((media, SchemaGenerator::subschema_for::<T>));
        self
    }

    pub(super) fn gives<T: JsonSchema>(self) -> Self {
        self.gives_as::<T>(JSON)
    }

    pub(super) fn gives_as<T: JsonSchema>(mut self, media: &'static str) -> Self {
        self.answer.push((media, SchemaGenerator::subschema_for::<T>));
        self
    }

    pub(super) fn access(mut self, access: RouteAccess) -> Self {
        self.access = access;
        self
    }

    pub(super) fn roles(self, roles: &'static [Role]) -> Self {
        self.access(RouteAccess::Roles(roles))
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(super) fn refuses(mut self, problems: &'static [ErrorCode]) -> Self {
        self.problems = problems;
        self
    }

    pub(super) fn describe(&self, schemas: &mut SchemaGenerator) -> Value {
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

    pub(super) fn responses(&self, schemas: &mut SchemaGenerator) -> Value {
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
            let tag = json!({"ETag": {"description": "Names this state of the plan, or of the list", "schema": {"type": "string"}}});
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

    pub(super) fn codes(&self) -> impl Iterator<Item = ErrorCode> {
        let body: &[ErrorCode] = if self.body.is_some() { &BODY } else { &[] };
        let access: &[ErrorCode] = match self.access {
            RouteAccess::Public => &[],
            RouteAccess::SignedIn | RouteAccess::Roles(_) => &ACCESS,
        };
        self.problems.iter().chain(ANY.iter()).chain(body).chain(access).copied()
    }
}

pub(super) fn path_parameters(path: &'static str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let one = |(name, _): (&str, _)| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": path_parameter(name),
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
pub(super) fn query_parameters(schema: Schema) -> Vec<Value> {
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
pub(super) fn without_null(mut field: Value) -> Value {
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

/// `/v1/plans/{id}:pause` belongs to `plans`.
fn tag(path: &str) -> &str {
    let Some(rest) = path.strip_prefix("/v1/") else { return "service" };
    rest.split(['/', ':']).next().unwrap_or(rest)
}

/// What a part of an address means; empty for one that is not known.
fn path_parameter(name: &str) -> &'static str {
    match name {
        "id" => "Of the plan, of the worker, or of the token",
        "step" => "Of the step",
        "attempt" => "Of the task, counted from 1",
        "question" => "Of the question: a step's, or its own",
        "agent_type" => "A name such as `hotel_agent`",
        "entry" => "Of the dead letter",
        "stored" => "A name such as `trip`, or a name and a version such as `trip@3`",
        "name" => "`goal`, `plan`, `task`, `report`, `agent`, `problem`, `proposal`, `settings`",
        _ => "",
    }
}
