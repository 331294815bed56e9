//! The filters and tests of expressions: a closed list, and none can make much out of little.

use std::fmt::Write as _;
use std::sync::OnceLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, filters as builtin,
};

/// Most that the filters of one expression may read and write, in bytes and items.
const WORK_MAX: usize = 4 << 20;

const FILTERS: &[&str] = &[
    "abs", "bool", "capitalize", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items",
    "join", "last", "length", "lines", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace",
    "reverse", "round", "select", "selectattr", "sort", "split", "string", "sum", "title", "tojson", "trim", "unique",
    "upper", "urlencode", "zip",
];

/// Filters that give numbers for numbers.
pub(crate) const ARITHMETIC: &[&str] =
    &["abs", "count", "d", "default", "first", "float", "int", "last", "length", "max", "min", "round", "sum"];

const TESTS: &[&str] = &[
    "boolean", "defined", "divisibleby", "endingwith", "eq", "equalto", "even", "false", "float", "ge", "gt", "in",
    "int", "integer", "iterable", "le", "lessthan", "greaterthan", "lower", "lt", "mapping", "ne", "none", "number",
    "odd", "sameas", "sequence", "startingwith", "string", "true", "undefined", "upper",
];

pub(crate) fn check_filter(name: &str) -> Result<(), String> {
    known("filter", name, FILTERS)
}

pub(crate) fn check_test(name: &str) -> Result<(), String> {
    known("test", name, TESTS)
}

fn known(what: &str, name: &str, names: &[&str]) -> Result<(), String> {
    if names.contains(&name) {
        return Ok(());
    }
    match goalmill_common::suggest::nearest(name, names.iter().copied()) {
        Some(near) => Err(format!("there is no {what} `{name}`; did you mean `{near}`?")),
        None => Err(format!("there is no {what} `{name}`; there are {}", names.join(", "))),
    }
}

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
    for name in FILTERS {
        let filter = filter(name);
        environment.add_filter(*name, move |state: &mut State, args: Rest<Value>| {
            charge(state, name, &args)?;
            filter.call(state, &args)
        });
    }
    add_tests(&mut environment);
    environment
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
        "bool" => Value::from_function(builtin::bool),
        "capitalize" => Value::from_function(builtin::capitalize),
        "count" | "length" => Value::from_function(builtin::length),
        "d" | "default" => Value::from_function(builtin::default),
        "dictsort" => Value::from_function(builtin::dictsort),
        "first" => Value::from_function(builtin::first),
        "float" => Value::from_function(builtin::float),
        "groupby" => Value::from_function(builtin::groupby),
        "int" => Value::from_function(builtin::int),
        "items" => Value::from_function(builtin::items),
        "join" => Value::from_function(builtin::join),
        "last" => Value::from_function(builtin::last),
        "lines" => Value::from_function(builtin::lines),
        "list" => Value::from_function(builtin::list),
        "lower" => Value::from_function(builtin::lower),
        "map" => Value::from_function(builtin::map),
        "max" => Value::from_function(builtin::max),
        "min" => Value::from_function(builtin::min),
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
    for name in ["lt", "lessthan", "<"] {
        environment.add_test(name, t::is_lt);
    }
    for name in ["gt", "greaterthan", ">"] {
        environment.add_test(name, t::is_gt);
    }
    for name in ["le", "<="] {
        environment.add_test(name, t::is_le);
    }
    for name in ["ge", ">="] {
        environment.add_test(name, t::is_ge);
    }
}

/// Takes what a filter is about to read and write off the expression's allowance.
fn charge(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<(), Error> {
    const KEY: &str = "work";
    let spent = state.get_temp(KEY).and_then(|v| v.as_usize()).unwrap_or(0);
    let mut left = WORK_MAX.saturating_sub(spent);
    let mut enough = args.iter().all(|arg| weigh(arg, &mut left, 0));
    let grown = match (name, args) {
        ("replace", [text, old, new, ..]) => {
            let length = |v: &Value| v.as_str().map_or(64, str::len);
            (length(text) / length(old).max(1) + 1).saturating_mul(length(new))
        }
        ("join", [list, joiner, ..]) => {
            let longest = joiner.as_str().map_or(1 << 10, str::len);
            list.len().unwrap_or(0).saturating_mul(longest)
        }
        _ => 0,
    };
    enough &= grown <= left;
    left = left.saturating_sub(grown);
    state.set_temp(KEY, Value::from(WORK_MAX - left));
    if enough { Ok(()) } else { Err(Error::from(ErrorKind::OutOfFuel)) }
}

/// Takes the size of a value off `left`; false when it does not fit.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
fn weigh(value: &Value, left: &mut usize, depth: usize) -> bool {
    let own = value.as_str().map_or(1, |s| s.len() + 1);
    if own > *left || depth > 128 {
        return false;
    }
    *left -= own;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().map_or(true, |mut items| items.all(|item| weigh(&item, left, depth + 1)))
        }
        ValueKind::Map => value.try_iter().map_or(true, |mut keys| {
            keys.all(|key| {
                weigh(&key, left, depth + 1) && value.get_item(&key).map_or(true, |item| weigh(&item, left, depth + 1))
            })
        }),
        _ => true,
    }
}
