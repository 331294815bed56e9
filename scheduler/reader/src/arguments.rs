//! Assigns the arguments of a call to the parameters of its action.

use serde_json::{Map, Value};

use crate::catalogue::{ActionParameter, CatalogueAction, ParameterKind};
use crate::edit::{EditKind, Edits};
use crate::number;
use crate::span::TextSpan;

/// Arguments as written.
pub(crate) struct CallArguments {
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Map<String, Value>,
}

/// Arguments of a call whose action is not known.
pub(crate) fn unnamed(written: CallArguments) -> Map<String, Value> {
    let mut arguments = match <[Value; 1]>::try_from(written.positional) {
        Ok([Value::Object(table)]) => table,
        Ok([value]) => Map::from_iter([("0".to_owned(), value)]),
        Err(values) => values.into_iter().enumerate().map(|(n, v)| (n.to_string(), v)).collect(),
    };
    arguments.extend(written.named);
    arguments
}

/// Arguments by the names of the schema, and how well they fit: 6 when all required ones are there and nothing else.
pub(crate) fn named(
    action: &CatalogueAction,
    written: CallArguments,
    at: TextSpan,
    edits: &mut Edits,
) -> (Map<String, Value>, i64) {
    let mut arguments = Map::new();
    let mut strangers = 0;
    let positional = match <[Value; 1]>::try_from(written.positional) {
        Ok([Value::Object(table)]) if is_table_of_arguments(action, &table) => {
            edits.respelled(EditKind::Named, at, "", "");
            for (key, value) in table {
                insert(action, &mut arguments, key, value, at, edits);
            }
            Vec::new()
        }
        Ok([value]) => vec![value],
        Err(values) => values,
    };
    let mut free = action.parameters.iter().filter(|p| !written.named.contains_key(&p.name));
    for value in positional {
        match free.next() {
            Some(parameter) => {
                edits.respelled(EditKind::Named, at, "", &parameter.name);
                let value = typed(parameter, value, at, edits);
                arguments.insert(parameter.name.clone(), value);
            }
            None => {
                arguments.insert(arguments.len().to_string(), value);
                strangers += 1;
            }
        }
    }
    for (key, value) in written.named {
        insert(action, &mut arguments, key, value, at, edits);
    }
    if action.open {
        return (arguments, 3);
    }
    strangers += arguments.keys().filter(|k| action.parameter(k).is_none()).count();
    let missing = action.parameters.iter().filter(|p| p.required && !arguments.contains_key(&p.name)).count();
    let fit = 6 - 3 * i64::try_from(strangers + missing).unwrap_or(i64::MAX / 8);
    (arguments, fit.max(-2))
}

/// `f({"a": 1})`, where `f` takes `a` and no table.
fn is_table_of_arguments(action: &CatalogueAction, table: &Map<String, Value>) -> bool {
    let names = table.keys().filter(|k| parameter(action, k).is_some()).count();
    let first_is_table = action.parameters.first().is_some_and(|p| p.kind == ParameterKind::Table);
    action.open || names * 2 > table.len() || table.is_empty() && !first_is_table
}

fn insert(
    action: &CatalogueAction,
    to: &mut Map<String, Value>,
    key: String,
    value: Value,
    at: TextSpan,
    edits: &mut Edits,
) {
    let Some(parameter) = parameter(action, &key) else {
        to.insert(key, value);
        return;
    };
    if parameter.name != key {
        edits.guessed(EditKind::NameMatched, at, &key, &parameter.name);
    }
    let value = typed(parameter, value, at, edits);
    to.insert(parameter.name.clone(), value);
}

/// The parameter of this name; else the only one whose letters and digits are the same.
fn parameter<'a>(action: &'a CatalogueAction, name: &str) -> Option<&'a ActionParameter> {
    action.parameter(name).or_else(|| {
        let mut same = action.parameters.iter().filter(|p| letters(&p.name).eq(letters(name)));
        same.next().filter(|_| same.next().is_none())
    })
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// The value as the type its parameter declares, where it plainly is of that type.
fn typed(parameter: &ActionParameter, value: Value, at: TextSpan, edits: &mut Edits) -> Value {
    let taken = match (parameter.kind, &value) {
        (ParameterKind::Integer | ParameterKind::Number, Value::String(text)) => {
            number::parse_number(text.trim()).filter(|s| s.exact).map(|s| Value::Number(s.number))
        }
        (ParameterKind::Boolean, Value::String(text)) => match text.as_str() {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        (ParameterKind::List | ParameterKind::Table, Value::String(text)) => {
            let parsed = serde_json::from_str::<Value>(text).ok();
            parsed.filter(|v| if parameter.kind == ParameterKind::List { v.is_array() } else { v.is_object() })
        }
        _ => None,
    };
    match taken {
        Some(taken) => {
            edits.guessed(EditKind::TypeCoerced, at, &format!("`{}`: {value}", parameter.name), &taken.to_string());
            taken
        }
        None => value,
    }
}
