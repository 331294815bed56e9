//! The filters and tests of expressions: a closed list, and none can make much out of little.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::OnceLock;

use goalmill_common::json::Json;
use goalmill_common::json_limits;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, ValueKind, ValueOrKwargs, from_args};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, filters as builtin,
};

use crate::meter;
use crate::order;
use crate::rewrite::{PATH, TRUTH};
use crate::signatures::FILTER_NAMES;
use crate::times;

/// Most that the filters of one expression may read and write, in bytes and items.
const WORK_MAX: usize = 4 << 20;

/// Work of a filter for each value that it reads: sorting takes the most.
const VALUE_WORK: u64 = 8;
/// Bytes that a filter reads or writes with one unit of work.
const BYTES_A_UNIT: u64 = 8;

/// Nesting of the JSON that `fromjson` reads.
const NESTING_MAX: usize = 64;

/// The environment all expressions run in; callers clone it and set the fuel.
pub(crate) fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(build)
}

fn build() -> Environment<'static> {
    let mut environment = Environment::empty();
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    environment.set_syntax(syntax.expect("the usual delimiters are valid"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_debug(false);
    environment.set_formatter(write);
    for name in FILTER_NAMES {
        let filter = filter(name);
        environment.add_filter(*name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            if order::is_strict(state)
                && !matches!(*name, "default" | "d")
                && args.first().is_some_and(Value::is_undefined)
            {
                // A missing value stays missing: only `default` may take its place.
                return Ok(Value::UNDEFINED);
            }
            charge(state, name, &args)?;
            check_values(name, &args).and_then(|()| filter.call(state, &args)).map_err(|error| named(name, error))
        });
    }
    environment.add_filter(PATH, |value: Value, parts: Rest<Value>| order::follow(&value, &parts));
    environment.add_filter(TRUTH, order::truth);
    add_tests(&mut environment);
    environment
}

/// Checks values that a filter would take without a word.
fn check_values(name: &str, args: &[Value]) -> Result<(), Error> {
    let (Some(value), given) = (args.first(), args.get(1..).unwrap_or_default()) else { return Ok(()) };
    let (plain, named): (&[Value], Kwargs) = from_args(given)?;
    let attribute = named.peek::<Option<String>>("attribute").ok().flatten();
    match name {
        "sort" | "min" | "max" => order::check_orderable(value, attribute.as_deref(), false),
        "groupby" => {
            let attribute = attribute.or_else(|| plain.first().and_then(|name| name.as_str().map(str::to_owned)));
            order::check_orderable(value, attribute.as_deref(), named.has("default"))
        }
        "dictsort" if named.peek::<Option<String>>("by").ok().flatten().as_deref() == Some("value") => {
            let items = value.try_iter()?.map(|key| value.get_item(&key)).collect::<Result<Vec<Value>, Error>>()?;
            order::check_orderable(&Value::from(items), None, false)
        }
        "int" | "float" if plain.is_empty() && !named.has("default") && !named.has("base") => {
            order::check_number(value)
        }
        _ => Ok(()),
    }
}

/// Names the filter in an error of its own.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
fn named(name: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::OutOfFuel | ErrorKind::WriteFailure | ErrorKind::UndefinedError => error,
        kind => {
            let why = error.detail().map_or_else(|| kind.to_string(), str::to_owned);
            order::failed(format!("filter `{name}`: {why}"))
        }
    }
}

/// The filter `default`, whose arguments may be given by name.
fn default(value: Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (plain, named): (&[Value], Kwargs) = from_args(&args)?;
    let pick = |at: usize, name: &str| plain.get(at).cloned().or_else(|| named.get::<Value>(name).ok());
    let other = pick(0, "default_value").unwrap_or_else(|| Value::from(""));
    let is_lax = pick(1, "boolean").is_some_and(|lax| lax.is_true());
    named.assert_all_used()?;
    Ok(if value.is_undefined() || is_lax && !value.is_true() { other } else { value })
}

/// Texts may have spaces around the number.
fn trimmed(value: Value) -> Value {
    match value.as_str() {
        Some(text) if text.trim().len() < text.len() => Value::from(text.trim()),
        _ => value,
    }
}

fn to_int(
    state: &State,
    value: Value,
    default: Option<Value>,
    base: Option<u32>,
    named: Kwargs,
) -> Result<Value, Error> {
    builtin::int(state, &trimmed(value), default, base, named)
}

fn to_float(state: &State, value: Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    builtin::float(state, &trimmed(value), default, named)
}

/// Writes texts and numbers as they are and everything else as JSON: `true`, `null`, `[1,2]`.
fn write(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let kind = value.kind();
    let is_plain = matches!(kind, ValueKind::Bool | ValueKind::None);
    if is_plain || matches!(kind, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        out.write_str(&to_json_text(value.clone())?).map_err(|_| Error::from(ErrorKind::WriteFailure))
    } else {
        minijinja::escape_formatter(out, state, value)
    }
}

fn filter(name: &str) -> Value {
    match name {
        "abs" => Value::from_function(builtin::abs),
        "add_duration" => Value::from_function(times::add_duration),
        "bool" => Value::from_function(|value: Value| order::to_bool(&value)),
        "capitalize" => Value::from_function(builtin::capitalize),
        "count" | "length" => Value::from_function(builtin::length),
        "d" | "default" => Value::from_function(default),
        "dictsort" => Value::from_function(builtin::dictsort),
        "first" => Value::from_function(builtin::first),
        "float" => Value::from_function(to_float),
        "format_time" => Value::from_function(times::format_time),
        "fromjson" => Value::from_function(from_json),
        "groupby" => Value::from_function(builtin::groupby),
        "int" => Value::from_function(to_int),
        "items" => Value::from_function(builtin::items),
        "join" => Value::from_function(builtin::join),
        "last" => Value::from_function(builtin::last),
        "lines" => Value::from_function(builtin::lines),
        "list" => Value::from_function(builtin::list),
        "lower" => Value::from_function(builtin::lower),
        "map" => Value::from_function(builtin::map),
        "matches" => Value::from_function(|value: Value, pattern: &str| times::matches(&value, pattern)),
        "max" => Value::from_function(builtin::max),
        "min" => Value::from_function(builtin::min),
        "parse_time" => Value::from_function(times::parse_time),
        "reject" => Value::from_function(builtin::reject),
        "rejectattr" => Value::from_function(builtin::rejectattr),
        "replace" => Value::from_function(builtin::replace),
        "reverse" => Value::from_function(builtin::reverse),
        "round" => Value::from_function(builtin::round),
        "select" => Value::from_function(builtin::select),
        "selectattr" => Value::from_function(builtin::selectattr),
        "sort" => Value::from_function(builtin::sort),
        "split" => Value::from_function(builtin::split),
        "sum" => Value::from_function(builtin::sum),
        "title" => Value::from_function(builtin::title),
        "tojson" => Value::from_function(to_json_text),
        "trim" => Value::from_function(builtin::trim),
        "unique" => Value::from_function(builtin::unique),
        "upper" => Value::from_function(builtin::upper),
        "urlencode" => Value::from_function(url_encode),
        "zip" => Value::from_function(builtin::zip),
        _ => Value::from_function(builtin::string),
    }
}

/// JSON as other programs write it, so that a rendered text reads back as the same value.
fn to_json_text(value: Value) -> Result<String, Error> {
    let mut left = WORK_MAX;
    let value = crate::value::to_json(&value, &mut left).map_err(|e| {
        let kind = match e.code {
            "OUTPUT_TOO_LARGE" => ErrorKind::WriteFailure,
            "REF_UNRESOLVED" => ErrorKind::UndefinedError,
            _ => ErrorKind::InvalidOperation,
        };
        Error::new(kind, e.message)
    })?;
    Ok(value.to_string())
}

/// The value of a text of JSON.
fn from_json(value: Value) -> Result<Value, Error> {
    let text = value.as_str().ok_or_else(|| order::failed(format!("{} is no text", order::described(&value))))?;
    let read =
        Json::from_text(text.to_owned()).map_err(|error| order::failed(format!("the text is not JSON: {error}")))?;
    json_limits::check_json(&read, NESTING_MAX)
        .map_err(|wrong| order::failed(format!("the JSON is refused: {wrong}")))?;
    Ok(Value::from(Serde(read.value())))
}

/// Percent-encoding of everything but unreserved characters (RFC 3986, 2.3).
fn url_encode(value: Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    out
}

fn add_tests(environment: &mut Environment<'static>) {
    use minijinja::tests as t;
    environment.add_test("boolean", t::is_boolean);
    environment.add_test("defined", t::is_defined);
    environment.add_test("undefined", t::is_undefined);
    environment.add_test("divisibleby", t::is_divisibleby);
    environment.add_test("endingwith", t::is_endingwith);
    environment.add_test("startingwith", t::is_startingwith);
    environment.add_test("even", t::is_even);
    environment.add_test("odd", t::is_odd);
    environment.add_test("true", t::is_true);
    environment.add_test("false", t::is_false);
    environment.add_test("none", t::is_none);
    environment.add_test("number", t::is_number);
    environment.add_test("integer", t::is_integer);
    environment.add_test("int", t::is_integer);
    environment.add_test("float", t::is_float);
    environment.add_test("string", t::is_string);
    environment.add_test("sequence", t::is_sequence);
    environment.add_test("iterable", t::is_iterable);
    environment.add_test("mapping", t::is_mapping);
    environment.add_test("matches", |state: &mut State, value: &Value, pattern: &str| {
        charge(state, "matches", &[value.clone(), Value::from(pattern)])?;
        times::matches(value, pattern).map_err(|error| named("matches", error))
    });
    environment.add_test("lower", t::is_lower);
    environment.add_test("upper", t::is_upper);
    environment.add_test("sameas", t::is_sameas);
    environment.add_test("in", t::is_in);
    for name in ["eq", "equalto", "=="] {
        environment.add_test(name, t::is_eq);
    }
    for name in ["ne", "!="] {
        environment.add_test(name, t::is_ne);
    }
    let mut add = |names: &[&'static str], holds: fn(Ordering) -> bool| {
        for name in names {
            let test = move |state: &State, a: &Value, b: &Value| order::compare(state, a, b, holds);
            environment.add_test(*name, test);
        }
    };
    add(&["lt", "lessthan", "<"], Ordering::is_lt);
    add(&["gt", "greaterthan", ">"], Ordering::is_gt);
    add(&["le", "<="], Ordering::is_le);
    add(&["ge", ">="], Ordering::is_ge);
}

/// Takes what a filter is about to read and write off the expression's allowance.
fn charge(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<(), Error> {
    const KEY: &str = "work";
    let spent = state.get_temp(KEY).and_then(|v| v.as_usize()).unwrap_or(0);
    let before = WORK_MAX.saturating_sub(spent);
    let (mut left, mut values) = (before, 0_u64);
    let mut enough = args.iter().all(|arg| weigh(arg, &mut left, &mut values, 0));
    let grown = match (name, args) {
        ("replace", [text, old, new, ..]) => {
            let length = |v: &Value| v.as_str().map_or(64, str::len);
            (length(text) / length(old).max(1) + 1).saturating_mul(length(new))
        }
        ("join", [list, joiner, ..]) => {
            let longest = joiner.as_str().map_or(1 << 10, str::len);
            list.len().unwrap_or(0).saturating_mul(longest)
        }
        ("matches", _) => times::PATTERN_WORK,
        // A value takes more room than its text.
        ("fromjson", [text, ..]) => text.as_str().map_or(0, str::len).saturating_mul(4),
        _ => 0,
    };
    enough &= grown <= left;
    left = left.saturating_sub(grown);
    enough &= meter::spend_on_filter(values.saturating_mul(VALUE_WORK) + (before - left) as u64 / BYTES_A_UNIT);
    state.set_temp(KEY, Value::from(WORK_MAX - left));
    if enough { Ok(()) } else { Err(Error::from(ErrorKind::OutOfFuel)) }
}

/// Takes the size of a value off `left`; false when it does not fit.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
///
/// - `values`: counts it, and those in it.
fn weigh(value: &Value, left: &mut usize, values: &mut u64, depth: usize) -> bool {
    *values += 1;
    let own = value.as_str().map_or(1, |s| s.len() + 1);
    if own > *left || depth > 128 {
        return false;
    }
    *left -= own;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().map_or(true, |mut items| items.all(|item| weigh(&item, left, values, depth + 1)))
        }
        ValueKind::Map => value.try_iter().map_or(true, |mut keys| {
            keys.all(|key| {
                weigh(&key, left, values, depth + 1)
                    && value.get_item(&key).map_or(true, |item| weigh(&item, left, values, depth + 1))
            })
        }),
        _ => true,
    }
}
