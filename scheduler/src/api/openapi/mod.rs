//! The API as an OpenAPI 3.1 document: what [`table`] says of each address, with schemas made from the types.

mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::Json;
use goalmill_common::problem::{ErrorCode, Problem};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

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

/// What one method does at one address.
struct Operation {
    /// Lower case.
    method: &'static str,
    /// With the verb, where there is one: `/v1/plans/{id}:pause`.
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    query: Option<SchemaOf>,
    /// The names of its parameters, as requests are held to them.
    names: &'static [&'static str],
    headers: &'static [&'static str],
    body: Option<(&'static [&'static str], SchemaOf)>,
    status: u16,
    answer: Vec<(&'static str, SchemaOf)>,
    /// Besides those that any address may give.
    problems: &'static [ErrorCode],
}

fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "get",
        path,
        id,
        summary,
        query: None,
        names: &[],
        headers: &[],
        body: None,
        status: 200,
        answer: Vec::new(),
        problems: &[],
    }
}

fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation { method: "post", ..get(path, id, summary) }
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
        parameters.extend(self.headers.iter().map(|name| json!({"$ref": format!("#/components/parameters/{name}")})));
        let mut described = json!({
            "operationId": self.id,
            "summary": self.summary,
            "tags": [tag(self.path)],
            "parameters": parameters,
            "responses": self.responses(schemas),
        });
        if let Some((media, schema)) = self.body {
            let schema = schema(schemas);
            let content: Map<String, Value> =
                media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect();
            described["requestBody"] = json!({"content": content});
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
        if self.answer.iter().any(|(media, _)| *media == EVENT_STREAM) {
            responses.insert("204".into(), json!({"description": "The plan has ended, and there is no event left"}));
        }
        for (status, codes) in by_status(self.codes()) {
            responses.insert(status.to_string(), refusal(&codes));
        }
        Value::Object(responses)
    }

    fn codes(&self) -> impl Iterator<Item = ErrorCode> {
        let body: &[ErrorCode] = if self.body.is_some() { &table::BODY } else { &[] };
        self.problems.iter().chain(table::ANY.iter()).chain(body).copied()
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

/// The fields of an object as parameters.
fn query_parameters(schema: Schema) -> Vec<Value> {
    let schema = schema.to_value();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let one = |(name, field): (&String, &Value)| {
        let mut field = field.clone();
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
    if codes.iter().any(|code| code.status() == 503) {
        let description = "Seconds after which to try again, where that may help";
        refusal["headers"] = json!({"Retry-After": {"description": description, "schema": {"type": "integer"}}});
    }
    refusal
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A verb is part of the last segment, which the router takes whole.
    fn without_verb(path: &str) -> &str {
        let last = path.rfind('/').unwrap_or(0);
        match path[last..].find("}:") {
            Some(at) => &path[..=last + at],
            None => path,
        }
    }

    #[test]
    fn every_address_is_described_and_no_other() {
        let described: BTreeSet<&str> =
            table::operations().iter().map(|operation| without_verb(operation.path)).collect();
        let served: BTreeSet<&str> = super::super::addresses().into_iter().map(|(path, _)| path).collect();
        assert_eq!(described, served);
    }

    #[test]
    fn the_parameters_that_are_described_are_those_that_are_taken() {
        let mut schemas = SchemaSettings::draft2020_12().into_generator();
        let mut with_parameters = BTreeSet::new();
        for operation in table::operations() {
            let Some(schema) = operation.query else { continue };
            with_parameters.insert(operation.path);
            let described: BTreeSet<String> = query_parameters(schema(&mut schemas))
                .iter()
                .filter_map(|parameter| parameter["name"].as_str().map(str::to_owned))
                .collect();
            let taken: BTreeSet<String> = operation.names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(described, taken, "{}", operation.path);
        }
        assert_eq!(with_parameters, BTreeSet::from(super::super::query_parameters::WITH_PARAMETERS));
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
