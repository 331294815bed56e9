//! The filters and tests that there are, and the arguments that they take: what is wrong with a text is found before it
//! runs.

use crate::hints::instead_of;
use crate::tokens::{Token, Tokens};
use crate::{ExpressionError, invalid, rewrite};

/// What a filter takes besides the value before it.
struct Signature {
    name: &'static str,
    /// Arguments at least, and those without a name at most.
    min: usize,
    max: usize,
    /// Arguments that may be given by name.
    named: &'static [&'static str],
    example: &'static str,
}

const ANY: usize = usize::MAX;

macro_rules! filters {
    ($($name:literal $min:literal $max:tt [$($named:literal)*] $example:literal,)+) => {
        const FILTERS: &[Signature] = &[
            $(Signature { name: $name, min: $min, max: $max, named: &[$($named),*], example: $example },)+
        ];
        /// The names of the filters.
        pub(crate) const FILTER_NAMES: &[&str] = &[$($name),+];
    };
}

filters! {
    "abs" 0 0 [] "x | abs",
    "add_duration" 1 1 [] "x | add_duration('3d')",
    "bool" 0 0 [] "x | bool",
    "capitalize" 0 0 [] "x | capitalize",
    "count" 0 0 [] "x | count",
    "d" 0 2 ["default_value" "boolean"] "x | d(1)",
    "default" 0 2 ["default_value" "boolean"] "x | default(1)",
    "dictsort" 0 0 ["by" "case_sensitive" "reverse"] "x | dictsort(by='value')",
    "first" 0 0 [] "x | first",
    "float" 0 1 ["default"] "x | float",
    "format_time" 0 1 ["tz"] "x | format_time('%Y-%m-%d')",
    "fromjson" 0 0 [] "x | fromjson",
    "groupby" 1 1 ["attribute" "default" "case_sensitive"] "x | groupby('name')",
    "int" 0 2 ["default" "base"] "x | int",
    "items" 0 0 [] "x | items",
    "join" 0 2 ["d" "attribute"] "x | join(', ')",
    "last" 0 0 [] "x | last",
    "length" 0 0 [] "x | length",
    "lines" 0 0 [] "x | lines",
    "list" 0 0 [] "x | list",
    "lower" 0 0 [] "x | lower",
    "map" 1 ANY ["attribute" "default"] "x | map(attribute='name')",
    "matches" 1 1 [] "x | matches('^[A-Z]{3}$')",
    "max" 0 0 ["attribute" "case_sensitive"] "x | max(attribute='name')",
    "min" 0 0 ["attribute" "case_sensitive"] "x | min(attribute='name')",
    "parse_time" 0 1 ["tz"] "x | parse_time",
    "reject" 0 ANY [] "x | reject('none')",
    "rejectattr" 1 ANY [] "x | rejectattr('name', 'none')",
    "replace" 2 2 [] "x | replace('a', 'b')",
    "reverse" 0 0 [] "x | reverse",
    "round" 0 2 ["precision" "method"] "x | round(2)",
    "select" 0 ANY [] "x | select('gt', 1)",
    "selectattr" 1 ANY [] "x | selectattr('name', 'gt', 1)",
    "sort" 0 0 ["attribute" "case_sensitive" "reverse"] "x | sort(attribute='name', reverse=true)",
    "split" 0 2 [] "x | split(',')",
    "string" 0 0 [] "x | string",
    "sum" 0 2 ["attribute" "start"] "x | sum(attribute='name')",
    "title" 0 0 [] "x | title",
    "tojson" 0 0 [] "x | tojson",
    "trim" 0 1 [] "x | trim",
    "unique" 0 0 ["attribute" "case_sensitive"] "x | unique(attribute='name')",
    "upper" 0 0 [] "x | upper",
    "urlencode" 0 0 [] "x | urlencode",
    "zip" 1 ANY [] "x | zip(y)",
}

/// Filters that give numbers for numbers.
pub(crate) const ARITHMETIC: &[&str] = &[
    "abs", "count", "d", "default", "first", "float", "int", "last", "length", "max", "min", "parse_time", "round",
    "sum",
];

/// The tests, and whether they compare with another value.
const TESTS: &[(&str, bool)] = &[
    ("boolean", false),
    ("defined", false),
    ("divisibleby", true),
    ("endingwith", true),
    ("eq", true),
    ("equalto", true),
    ("even", false),
    ("false", false),
    ("float", false),
    ("ge", true),
    ("gt", true),
    ("in", true),
    ("int", false),
    ("integer", false),
    ("iterable", false),
    ("le", true),
    ("lessthan", true),
    ("greaterthan", true),
    ("lower", false),
    ("lt", true),
    ("mapping", false),
    ("matches", true),
    ("ne", true),
    ("none", false),
    ("number", false),
    ("odd", false),
    ("sameas", true),
    ("sequence", false),
    ("startingwith", true),
    ("string", false),
    ("true", false),
    ("undefined", false),
    ("upper", false),
];

/// Tests that are written as signs in `select('>', 1)`.
const SIGNS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];

fn unknown(what: &str, name: &str, names: &[&str]) -> ExpressionError {
    let instead = instead_of(name).map(|write| format!("write `{write}`"));
    let near = || {
        let near = goalmill_common::suggest::nearest(name, names.iter().copied());
        near.map(|near| format!("did you mean `{near}`?"))
    };
    let hint = instead.or_else(near).unwrap_or_else(|| format!("there are {}", names.join(", ")));
    invalid(format!("there is no {what} `{name}`; {hint}"))
}

/// The filters, without those that are another one under a second name.
fn filters_by_one_name() -> String {
    let names = FILTER_NAMES.iter().copied().filter(|name| !matches!(*name, "d" | "count"));
    names.collect::<Vec<_>>().join(", ")
}

/// The refusal of a call, as in `len(x)` or `x.len()`.
pub(crate) fn no_function(written: &str, name: &str) -> ExpressionError {
    let hint = match instead_of(name) {
        Some(write) => format!("write `{write}`"),
        None if FILTER_NAMES.contains(&name) => format!("filters are written `x | {name}`"),
        None => format!("there are filters: {}", filters_by_one_name()),
    };
    invalid(format!("there is no function `{written}`; {hint}"))
}

/// The arguments of a call.
#[derive(Default)]
struct Arguments<'a> {
    /// The first token of each that has no name.
    plain: Vec<Token<'a>>,
    named: Vec<&'a str>,
    /// Whether a list or an object is spread into them.
    is_open: bool,
}

impl<'a> Arguments<'a> {
    /// Reads what follows a name: nothing, or arguments in brackets.
    fn parse(list: &[Token<'a>]) -> Self {
        let mut found = Self::default();
        if list.first() != Some(&Token::Sign('(')) {
            return found;
        }
        let (mut depth, mut is_start) = (0_usize, true);
        for (at, token) in list.iter().enumerate().skip(1) {
            let is_top = depth == 0;
            match token {
                Token::Sign(')') if is_top => break,
                Token::Sign(',') if is_top => {
                    is_start = true;
                    continue;
                }
                Token::Sign(_) | Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power if !is_start => {
                }
                Token::Sign(_) | Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power => {
                    is_start = false;
                    match (token, list.get(at + 1), list.get(at + 2)) {
                        (Token::Sign('*') | Token::Power, _, _) => found.is_open = true,
                        (Token::Name(name), Some(Token::Sign('=')), third) if third != Some(&Token::Sign('=')) => {
                            found.named.push(*name);
                        }
                        _ => found.plain.push(*token),
                    }
                }
            }
            match token {
                Token::Sign('(' | '[' | '{') => depth += 1,
                Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                Token::Sign(_) | Token::Name(_) | Token::Text { .. } | Token::Number(_) | Token::Power => {}
            }
        }
        found
    }

    /// A name that is given as text, such as that of a test in `select('none')`.
    fn name(&self, at: usize) -> Option<&'a str> {
        match self.plain.get(at) {
            Some(Token::Text { text, plain: true }) => Some(text),
            Some(Token::Text { .. } | Token::Name(_) | Token::Number(_) | Token::Sign(_) | Token::Power) | None => None,
        }
    }
}

/// Checks the filter whose name stands at a place.
pub(crate) fn check_filter(tokens: &Tokens<'_>, at: usize, name: &str) -> Result<(), ExpressionError> {
    let Some(signature) = FILTERS.iter().find(|known| known.name == name) else {
        return Err(unknown("filter", name, FILTER_NAMES));
    };
    let given = Arguments::parse(&tokens.list[at + 1..]);
    let wrong = |what: String| invalid(format!("filter `{name}` {what}; write it as in `{}`", signature.example));
    if let Some(other) = given.named.iter().find(|other| !signature.named.contains(other)) {
        return Err(wrong(format!("has no argument `{other}`")));
    }
    let count = given.plain.len() + given.named.len();
    if !given.is_open && count < signature.min {
        return Err(wrong(format!("needs {}", counted(signature.min))));
    }
    if given.plain.len() > signature.max {
        return Err(match signature.max {
            0 => wrong("takes no argument without a name".into()),
            most => wrong(format!("takes at most {}", counted(most))),
        });
    }
    let test = match name {
        "map" if given.named.is_empty() => {
            let inner = given.name(0).filter(|inner| !FILTER_NAMES.contains(inner));
            return inner.map_or(Ok(()), |inner| Err(unknown("filter", inner, FILTER_NAMES)));
        }
        "map" if !given.plain.is_empty() => return Err(wrong("takes either a filter or `attribute`".into())),
        "select" | "reject" => given.name(0),
        "selectattr" | "rejectattr" => given.name(1),
        _ => None,
    };
    test.filter(|test| !SIGNS.contains(test)).map_or(Ok(()), is_test)
}

fn counted(arguments: usize) -> String {
    if arguments == 1 { "one argument".into() } else { format!("{arguments} arguments") }
}

fn is_test(name: &str) -> Result<(), ExpressionError> {
    if TESTS.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let names: Vec<&str> = TESTS.iter().map(|(name, _)| *name).collect();
    Err(unknown("test", name, &names))
}

/// Checks the test whose name stands at a place.
pub(crate) fn check_test(tokens: &Tokens<'_>, at: usize, name: &str) -> Result<(), ExpressionError> {
    is_test(name)?;
    let compares = TESTS.iter().any(|(known, compares)| *known == name && *compares);
    let next = tokens.list.get(at + 1);
    let given = Arguments::parse(&tokens.list[at + 1..]);
    let ends = match next {
        None | Some(Token::Sign(')' | ']' | '}' | ',' | '|' | ':')) => true,
        Some(Token::Name(word)) => rewrite::is_joining(word),
        Some(Token::Sign('(')) => given.plain.is_empty() && !given.is_open,
        Some(Token::Sign(_) | Token::Text { .. } | Token::Number(_) | Token::Power) => false,
    };
    if compares && ends {
        return Err(invalid(format!("test `{name}` needs a value, as in `x is {name}(1)`")));
    }
    if next == Some(&Token::Sign('(')) && (!given.named.is_empty() || given.plain.len() > usize::from(compares)) {
        let most = if compares { "takes one value" } else { "takes no value" };
        return Err(invalid(format!("test `{name}` {most}")));
    }
    Ok(())
}

/// The form of each filter that its errors show.
#[cfg(test)]
pub(crate) fn examples() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|filter| filter.example)
}
