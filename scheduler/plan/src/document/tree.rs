//! Builds the tree of a document and keeps an eye on where it is, for JSON and YAML alike.

use std::cell::{Cell, RefCell};
use std::fmt;

use goalmill_common::limits::Limits;
use goalmill_common::problem::{ERRORS_MAX, Issue};
use goalmill_common::text::{pointer_part, shorten};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{issue, too_large};

/// What is known while a document is read.
pub(super) struct TreeReading<'l> {
    limits: &'l Limits,
    /// Whether `<<` merges, as it does in YAML.
    merges: bool,
    issues: RefCell<Vec<Issue>>,
    /// JSON Pointer to the innermost value being read; after a failure, to where it happened.
    path: RefCell<String>,
    /// Bytes the document may still take with its aliases written out.
    left: Cell<usize>,
    /// Whether reading was stopped here, and not by the parser.
    stopped: Cell<bool>,
}

/// What the parser itself found wrong.
pub(super) struct ParseFailure {
    code: &'static str,
    detail: String,
    hint: &'static str,
}

impl<'l> TreeReading<'l> {
    pub(super) fn new(limits: &'l Limits, merges: bool) -> Self {
        Self {
            limits,
            merges,
            issues: RefCell::default(),
            path: RefCell::default(),
            left: Cell::new(limits.plan_bytes_max),
            stopped: Cell::new(false),
        }
    }

    pub(super) fn finish(self, failure: Option<ParseFailure>) -> Vec<Issue> {
        let mut issues = self.issues.into_inner();
        if let Some(failure) = failure
            && !self.stopped.get()
        {
            issues.push(issue(failure.code, &self.path.borrow(), failure.detail, failure.hint));
        }
        issues
    }

    fn note(&self, code: &str, detail: String, hint: &str) {
        let mut issues = self.issues.borrow_mut();
        if issues.len() < ERRORS_MAX {
            issues.push(issue(code, &self.path.borrow(), detail, hint));
        }
    }

    /// Ends reading: what follows would do harm.
    fn stop<E: serde::de::Error>(&self, issue: Issue) -> E {
        self.stopped.set(true);
        self.issues.borrow_mut().push(issue);
        E::custom("stopped")
    }

    fn spend<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(self.stop(too_large(self.limits))),
        }
    }

    fn enter(&self, key: &str) -> usize {
        let mut path = self.path.borrow_mut();
        let before = path.len();
        path.push('/');
        path.push_str(&pointer_part(key));
        before
    }

    fn enter_item(&self, index: usize) -> usize {
        let mut path = self.path.borrow_mut();
        let before = path.len();
        fmt::Write::write_fmt(&mut *path, format_args!("/{index}")).expect("writing to a string cannot fail");
        before
    }

    fn leave(&self, before: usize) {
        self.path.borrow_mut().truncate(before);
    }
}

/// Reads one value.
#[derive(Clone, Copy)]
pub(super) struct Tree<'r, 'l> {
    reading: &'r TreeReading<'l>,
    depth: usize,
}

impl<'r, 'l> Tree<'r, 'l> {
    pub(super) fn root(reading: &'r TreeReading<'l>) -> Self {
        Self { reading, depth: 0 }
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let limit = self.reading.limits.nesting_max;
        if self.depth >= limit {
            let pointer = self.reading.path.borrow().clone();
            return Err(self.reading.stop(too_deep(self.reading.limits, &pointer)));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_, '_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain data without tags")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.reading.spend(1)?;
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.reading.spend(1)?;
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.reading.spend(1)?;
        Ok(value.into())
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Value, E> {
        self.reading.note(
            "INVALID_NUMBER",
            format!("`{value}` does not fit into 64 bits"),
            "write it as text, in quotes",
        );
        Ok(Value::Null)
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Value, E> {
        self.reading.note(
            "INVALID_NUMBER",
            format!("`{value}` does not fit into 64 bits"),
            "write it as text, in quotes",
        );
        Ok(Value::Null)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.reading.spend(1)?;
        if let Some(number) = Number::from_f64(value) {
            return Ok(Value::Number(number));
        }
        self.reading.note("INVALID_NUMBER", format!("`{value}` is not a number of JSON"), NUMBER_HINT);
        Ok(Value::Null)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.reading.spend(value.len())?;
        Ok(value.into())
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.reading.spend(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.reading.spend(1)?;
        Ok(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        loop {
            self.reading.spend(1)?;
            let before = self.reading.enter_item(items.len());
            let item = access.next_element_seed(inner)?;
            self.reading.leave(before);
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        let mut merged = None;
        while let Some(key) = access.next_key_seed(Key)? {
            self.reading.spend(key.len() + 2)?;
            let before = self.reading.enter(&key);
            let value = access.next_value_seed(inner)?;
            if self.reading.merges && key == "<<" && merged.is_none() {
                merged = Some(value);
            } else if map.contains_key(&key) {
                let detail = format!("duplicate key `{}`", super::shorten(&key));
                self.reading.note("DUPLICATE_KEY", detail, "keep one of them");
            } else {
                map.insert(key, value);
            }
            self.reading.leave(before);
        }
        if let Some(merged) = merged {
            self.merge(&mut map, merged)?;
        }
        Ok(Value::Object(map))
    }
}

impl Tree<'_, '_> {
    /// Adds what YAML's `<<` names, below what the object says itself.
    fn merge<E: serde::de::Error>(self, map: &mut Map<String, Value>, merged: Value) -> Result<(), E> {
        let sources = if let Value::Array(sources) = merged { sources } else { vec![merged] };
        for source in sources {
            let Value::Object(source) = source else {
                self.reading.note("WRONG_TYPE", "`<<` needs an object to merge".into(), "name an anchor of an object");
                return Ok(());
            };
            for (key, value) in source {
                map.entry(key).or_insert(value);
            }
        }
        Ok(())
    }
}

/// Reads a key: a text, or something simple that has one.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simple key")
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }
}

pub(super) fn too_deep(limits: &Limits, pointer: &str) -> Issue {
    let detail = format!("lists and objects are nested more than {} deep", limits.nesting_max);
    issue("NESTING_TOO_DEEP", pointer, detail, "flatten the data")
}

/// About how deep the brackets of a YAML text are nested, counting only those that stand where a value begins.
///
/// The YAML scanner takes time in proportion to length times this depth, so it is looked at before.
pub(super) fn flow_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut before = b'\n';
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' if matches!(before, b'\n' | b'-' | b':' | b',' | b'?' | b'[' | b'{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !matches!(byte, b' ' | b'\t' | b'\r') {
            before = byte;
        }
    }
    deepest
}

const NUMBER_HINT: &str = "JSON has neither NaN nor infinity and no larger exponents; write `null`, or text in quotes";

pub(super) fn json_failure(text: &str, error: &serde_json::Error) -> ParseFailure {
    let detail = error.to_string();
    let at = offset(text, error.line(), error.column());
    // The parser stops at the first letter it cannot use, or behind it.
    let near =
        text[floor(text, at.saturating_sub(10))..].get(..21.min(text.len() - floor(text, at.saturating_sub(10))));
    let word = near.unwrap_or_default();
    if detail.contains("number out of range") || word.contains("NaN") || word.contains("Infinity") {
        let detail = format!("a number is not one of JSON at line {} column {}", error.line(), error.column());
        return ParseFailure { code: "INVALID_NUMBER", detail, hint: NUMBER_HINT };
    }
    if detail.starts_with("recursion limit") {
        return ParseFailure { code: "NESTING_TOO_DEEP", detail, hint: "flatten the data" };
    }
    let hint = if error.is_eof() { "the text ends too early; complete it" } else { "correct the JSON at that place" };
    ParseFailure { code: "INVALID_JSON", detail, hint }
}

/// Where a line and column are, in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    (start + column.saturating_sub(1)).min(text.len())
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

pub(super) fn yaml_failure(error: &serde_yaml_ng::Error) -> ParseFailure {
    let text = error.to_string();
    if text.contains("more than one document") {
        let detail = "there is more than one YAML document".into();
        return ParseFailure {
            code: "MULTIPLE_DOCUMENTS",
            detail,
            hint: "keep one; remove the others and their `---`",
        };
    }
    if text.contains("recursion limit") {
        return ParseFailure { code: "NESTING_TOO_DEEP", detail: text, hint: "flatten the data" };
    }
    if text.contains("repetition limit") {
        let detail = "the aliases blow the document up".into();
        return ParseFailure { code: "PLAN_TOO_LARGE", detail, hint: "write the data out instead of using aliases" };
    }
    let detail = shorten(&text, 200).into_owned();
    ParseFailure { code: "INVALID_YAML", detail, hint: "correct the YAML at that place" }
}
