//! JSON Schemas, compiled only when the work that they can make is bounded.
//!
//! A schema of a few hundred bytes can ask for 2^60 evaluations: each of its levels applies the next one twice. So its
//! cost is computed on the graph of its definitions first, and again for each value before that is evaluated. Its
//! compiled size is estimated as well, since patterns of a few bytes compile to megabytes.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use cost::Cost;
use graph::{Graph, Unreadable};

mod cache;
mod cost;
mod graph;
mod size;
#[cfg(test)]
mod tests;

/// Values in the text of a schema.
const VALUES_MAX: usize = 10_000;
/// Nesting of a schema's text.
const DEPTH_MAX: usize = 64;
/// Subschemas that are evaluated for one value, after every `$ref` is replaced by what it names.
const WIDTH_MAX: u64 = 4_096;
/// Subschemas one inside the other at the same value.
const HEIGHT_MAX: u64 = 64;
/// Levels of a value times subschemas one inside the other: an evaluation recurses so deep.
const NESTED_MAX: u64 = 1_024;
/// Units of work for one value.
const WORK_MAX: u64 = 2_000_000;
/// Bytes of one compiled `pattern`.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Bytes of the cache of one matcher of a `pattern`.
const MATCHER_BYTES_MAX: usize = 64 << 10;
/// Estimated bytes of one compiled schema.
pub const SCHEMA_BYTES_MAX: usize = 16 << 20;

/// A schema that may be evaluated.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    cost: Cost,
    /// Estimated.
    bytes: usize,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// `INVALID_SCHEMA`, `SCHEMA_REMOTE_REF` or `SCHEMA_TOO_COMPLEX`.
    pub code: &'static str,
    /// What is wrong.
    pub detail: String,
    /// How to correct it.
    pub hint: &'static str,
}

/// The work of a value is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuchWork;

impl std::fmt::Display for TooMuchWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "checking it against the schema takes more than {WORK_MAX} steps")
    }
}

impl Schema {
    /// Compiles a schema for what steps give.
    pub fn of_outputs(schema: &Value) -> Result<Self, Unusable> {
        Self::compile(schema, false)
    }

    /// Compiles a schema for what actions take: `format` is checked as well.
    pub fn of_inputs(schema: &Value) -> Result<Self, Unusable> {
        Self::compile(schema, true)
    }

    fn compile(schema: &Value, checks_formats: bool) -> Result<Self, Unusable> {
        let bytes = compiled_bytes(schema)?;
        let cost = bounded(schema)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(MATCHER_BYTES_MAX);
        let options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(checks_formats);
        let validator = options.build(schema).map_err(|e| Unusable {
            code: "INVALID_SCHEMA",
            detail: format!("this is not a JSON Schema: {}", crate::document::shorten(&e.to_string())),
            hint: "correct it; `json-schema.org` has the rules, and a `pattern` takes no look-around or back-reference",
        })?;
        Ok(Self { validator, cost, bytes })
    }

    /// Estimated bytes of the compiled schema.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The check, for a value that takes no more work than is allowed.
    pub fn for_value(&self, value: &Value) -> Result<&Validator, TooMuchWork> {
        if self.cost.is_within(value, WORK_MAX) { Ok(&self.validator) } else { Err(TooMuchWork) }
    }
}

/// Says why a schema of an agent's card cannot be used; `None` when it can.
pub fn unusable(schema: &Value) -> Option<Unusable> {
    Schema::of_inputs(schema).err()
}

/// Estimates how many bytes a schema will have when it is compiled; one with too many is refused.
pub fn compiled_bytes(schema: &Value) -> Result<usize, Unusable> {
    let mut values = 0;
    if !is_small(schema, DEPTH_MAX, &mut values) {
        let detail = format!("the schema has more than {VALUES_MAX} values, or more than {DEPTH_MAX} levels");
        return Err(too_complex(detail));
    }
    size::estimate(schema, SCHEMA_BYTES_MAX).ok_or_else(|| {
        let most = SCHEMA_BYTES_MAX >> 20;
        let detail = format!("compiled, the schema would take more than {most} MiB");
        let hint = "use fewer patterns, fewer repetitions in them such as `{300}`, and fewer classes such as `\\p{L}`";
        Unusable { code: "SCHEMA_TOO_COMPLEX", detail, hint }
    })
}

fn bounded(schema: &Value) -> Result<Cost, Unusable> {
    let graph = Graph::from_schema(schema).map_err(|unreadable| match unreadable {
        Unreadable::Remote(target) => Unusable {
            code: "SCHEMA_REMOTE_REF",
            detail: format!("`{}` lies outside of the schema; nothing is fetched", crate::document::shorten(&target)),
            hint: "copy the target into `$defs` and refer to it by `#/$defs/…`",
        },
        Unreadable::TooManyUses => too_complex("its references and anchors lead to too many places".into()),
    })?;
    let cost = Cost::from_graph(graph)
        .ok_or_else(|| too_complex("a `$ref` leads back to itself without a step into the value".into()))?;
    if cost.height > HEIGHT_MAX {
        let detail =
            format!("{} subschemas apply to one value one inside the other, at most {HEIGHT_MAX} may", cost.height);
        return Err(too_complex(detail));
    }
    if cost.width > WIDTH_MAX {
        let detail = format!(
            "{} subschemas apply to one value once every `$ref` is followed, at most {WIDTH_MAX} may",
            if cost.width == u64::MAX { "endlessly many".to_owned() } else { cost.width.to_string() }
        );
        return Err(too_complex(detail));
    }
    Ok(cost)
}

fn too_complex(detail: String) -> Unusable {
    let hint = "use fewer alternatives and references; check the rest in a step of its own";
    Unusable { code: "SCHEMA_TOO_COMPLEX", detail, hint }
}

fn is_small(value: &Value, levels: usize, values: &mut usize) -> bool {
    *values += 1;
    if levels == 0 || *values > VALUES_MAX {
        return false;
    }
    match value {
        Value::Object(map) => map.values().all(|inner| is_small(inner, levels - 1, values)),
        Value::Array(items) => items.iter().all(|inner| is_small(inner, levels - 1, values)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
