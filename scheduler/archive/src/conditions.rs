//! Conditions on the data of events: `$.outputs.city == "Zürich" && $.outputs.price < 200`.
//!
//! Paths are written as in JSONPath (RFC 9535): names, numbers of items, and `[*]`. A condition holds if one of the values
//! at its path fits.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::words::query_words;

/// Longest text of conditions, in bytes.
const TEXT_BYTES_MAX: usize = 512;
/// Conditions of one text.
const CONDITIONS_MAX: usize = 8;
/// Below this size, whole numbers are written with all of their digits.
const PLAIN_MAX: u64 = 1_000_000_000_000_000;
/// Names and numbers of one path.
const PATH_MAX: usize = 16;

/// Conditions that must all hold; none hold for everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataConditions(Vec<DataCondition>);

#[derive(Clone, Debug, PartialEq)]
struct DataCondition {
    path: Vec<PathPart>,
    /// Without one, the path must lead somewhere.
    test: Option<(Comparison, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathPart {
    Field(String),
    Item(usize),
    AnyItem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Longer signs first.
    const SIGNS: [(&'static str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::LessOrEqual),
        (">=", Self::GreaterOrEqual),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    fn holds(self, value: &Value, literal: &Value) -> bool {
        let order = compare(value, literal);
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// Numbers by size, texts by their characters; other values are equal or not comparable.
fn compare(value: &Value, literal: &Value) -> Option<Ordering> {
    match (value, literal) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) => (a == b).then_some(Ordering::Equal),
    }
}

impl DataConditions {
    /// Reads conditions joined by `&&`; the error says what is expected where.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it has more than {TEXT_BYTES_MAX} bytes"));
        }
        let mut rest = UnreadConditions { text, at: 0 };
        let mut all = Vec::new();
        loop {
            all.push(rest.condition()?);
            if all.len() > CONDITIONS_MAX {
                return Err(format!("it has more than {CONDITIONS_MAX} conditions"));
            }
            if rest.is_end() {
                return Ok(Self(all));
            }
            if !rest.take_sign("&&") {
                return Err(rest.expected("`&&` or the end"));
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all hold for an event.
    ///
    /// - `line`: the event as a line of an exported log.
    pub fn hold_for(&self, line: &str) -> bool {
        // Events that no reader takes have no data that could be looked at.
        self.is_empty() || serde_json::from_str(line).is_ok_and(|event: Value| self.hold(&event["data"]))
    }

    /// Whether all hold for a value.
    pub fn hold(&self, data: &Value) -> bool {
        self.0.iter().all(|DataCondition { path, test }| {
            any_at(data, path, &|value| test.as_ref().is_none_or(|(sign, literal)| sign.holds(value, literal)))
        })
    }

    /// JSON that data must contain, as PostgreSQL compares it; the conditions may ask for more.
    pub fn contained(&self) -> Vec<Value> {
        let equal = self.0.iter().filter_map(|DataCondition { path, test }| match test {
            Some((Comparison::Equal, literal)) => Some((path, literal)),
            Some(_) | None => None,
        });
        let wrap = |inner: Value, part: &PathPart| match part {
            PathPart::Field(name) => Value::Object(Map::from_iter([(name.clone(), inner)])),
            PathPart::Item(_) | PathPart::AnyItem => Value::Array(vec![inner]),
        };
        equal.map(|(path, literal)| path.iter().rev().fold(literal.clone(), wrap)).collect()
    }

    /// Words that an event must have, if all of its words are indexed.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for DataCondition { test, .. } in &self.0 {
            match test {
                Some((Comparison::Equal, Value::String(text))) => words.extend(query_words(text)),
                // 120, 120.0 and 1.2e2 are equal, and have this word. Larger ones may be written with an exponent.
                Some((Comparison::Equal, Value::Number(number))) => {
                    let size = number.as_i64().map(i64::unsigned_abs).filter(|size| *size < PLAIN_MAX);
                    words.extend(size.map(|size| size.to_string()));
                }
                Some(_) | None => {}
            }
        }
        words.sort();
        words.dedup();
        words
    }
}

/// Whether one of the values at the path fits.
fn any_at(value: &Value, path: &[PathPart], fits: &impl Fn(&Value) -> bool) -> bool {
    let Some((first, rest)) = path.split_first() else { return fits(value) };
    match first {
        PathPart::Field(name) => {
            value.as_object().and_then(|fields| fields.get(name)).is_some_and(|at| any_at(at, rest, fits))
        }
        PathPart::Item(n) => value.as_array().and_then(|items| items.get(*n)).is_some_and(|at| any_at(at, rest, fits)),
        PathPart::AnyItem => value.as_array().is_some_and(|items| items.iter().any(|at| any_at(at, rest, fits))),
    }
}

/// What is not read yet.
struct UnreadConditions<'a> {
    text: &'a str,
    at: usize,
}

impl UnreadConditions<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn is_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        self.skip_space();
        self.take_here(sign)
    }

    fn take_here(&mut self, sign: &str) -> bool {
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    fn expected(&self, what: &str) -> String {
        format!("at character {}, {what} is expected", self.text[..self.at].chars().count() + 1)
    }

    fn condition(&mut self) -> Result<DataCondition, String> {
        if !self.take_sign("$") {
            return Err(self.expected("a path such as `$.outputs.city`"));
        }
        let mut path = Vec::new();
        while let Some(part) = self.path_part()? {
            path.push(part);
            if path.len() > PATH_MAX {
                return Err(format!("a path has at most {PATH_MAX} parts"));
            }
        }
        self.skip_space();
        let sign = Comparison::SIGNS.into_iter().find(|(sign, _)| self.take_here(sign));
        let test = sign.map(|(_, sign)| Ok::<_, String>((sign, self.literal()?))).transpose()?;
        Ok(DataCondition { path, test })
    }

    /// `.name`, `['name']`, `["name"]`, `[7]` or `[*]`; `None` at the end of a path.
    fn path_part(&mut self) -> Result<Option<PathPart>, String> {
        if self.take_here(".") {
            let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            let bytes = self.rest().find(|c| !is_name(c)).unwrap_or(self.rest().len());
            let name = self.rest()[..bytes].to_owned();
            self.at += bytes;
            return if name.is_empty() { Err(self.expected("a name")) } else { Ok(Some(PathPart::Field(name))) };
        }
        if !self.take_here("[") {
            return Ok(None);
        }
        let part = if self.take_sign("*") {
            PathPart::AnyItem
        } else if self.take_here("'") {
            let Some((name, _)) = self.rest().split_once('\'') else { return Err(self.expected("a name and `'`")) };
            let part = PathPart::Field(name.to_owned());
            self.at += name.len() + 1;
            part
        } else {
            let name_or_number = "a name in quotes, the number of an item, or `*`";
            let literal = self.literal().map_err(|_| self.expected(name_or_number))?;
            if let Value::String(name) = literal {
                PathPart::Field(name)
            } else {
                let number = literal.as_u64().and_then(|n| usize::try_from(n).ok());
                PathPart::Item(number.ok_or_else(|| self.expected(name_or_number))?)
            }
        };
        if self.take_sign("]") { Ok(Some(part)) } else { Err(self.expected("`]`")) }
    }

    /// A text in quotes, a number, `true`, `false` or `null`.
    fn literal(&mut self) -> Result<Value, String> {
        self.skip_space();
        let expected = self.expected("a text in quotes, a number, `true`, `false` or `null`");
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        let value = values.next().and_then(Result::ok).filter(|value| !value.is_array() && !value.is_object());
        let bytes = values.byte_offset();
        let value = value.ok_or(expected)?;
        self.at += bytes;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(text: &str) -> bool {
        let data = json!({
            "outputs": {"city": "Zürich", "price": 120, "rate": 4.5, "free": true, "none": null, "a b": {"c'd": 1},
                "rooms": [{"size": 20}, {"size": 35, "tags": ["quiet", "sunny"]}]},
            "worker": "w-1",
        });
        let conditions = DataConditions::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        conditions.hold(&data)
    }

    #[test]
    fn conditions_hold_for_one_of_the_values_at_their_path() {
        for text in [
            r#"$.outputs.city == "Zürich""#,
            r#"$.outputs.city=="Z\u00fcrich"&&$.worker=="w-1""#,
            "$.outputs.price == 120.0",
            "$.outputs.price == 1.2e2 && $.outputs.price >= 120 && $.outputs.price <= 120",
            "$.outputs.price > 119.5 && $.outputs.price < 121",
            "$.outputs.rate != 4",
            "$.outputs.city > \"A\"",
            "$.outputs.free == true && $.outputs.none == null",
            "$.outputs.none",
            "$['outputs'][\"a b\"] && $.outputs['a b'][\"c'd\"] == 1",
            "$.outputs.rooms[1].size == 35",
            "$.outputs.rooms[*].size == 20",
            "$.outputs.rooms[ * ].tags[*] == \"sunny\"",
            " $ ",
        ] {
            assert!(holds(text), "{text}");
        }
        for text in [
            "$.outputs.city == \"zürich\"",
            "$.outputs.city == 120",
            "$.outputs.price == \"120\"",
            "$.outputs.price < \"200\"",
            "$.outputs.missing",
            "$.outputs.missing != 1",
            "$.outputs.rooms[0].size == 35",
            "$.outputs.rooms[9]",
            "$.outputs.rooms.size",
            "$[0]",
            "$.outputs.price == 120 && $.outputs.rate == 5",
        ] {
            assert!(!holds(text), "{text}");
        }
        let conditions = DataConditions::parse("$.n == 1").expect("it is one");
        assert!(conditions.hold_for(r#"{"seq":1,"data":{"n":1}}"#) && !conditions.hold_for(r#"{"n":1}"#));
        assert!(!conditions.hold_for("no JSON") && DataConditions::default().hold_for("no JSON"));
    }

    #[test]
    fn what_is_no_condition_is_refused_with_its_place() {
        let many = ["$.a"; CONDITIONS_MAX + 1].join("&&");
        let (deep, long) = (format!("${}", ".a".repeat(PATH_MAX + 1)), format!("$.{}", "a".repeat(TEXT_BYTES_MAX)));
        for (text, why) in [
            ("", "at character 1, a path"),
            ("city == 1", "at character 1, a path"),
            ("$.a = 1", "at character 5, `&&` or the end"),
            ("$.a == ", "at character 8, a text in quotes"),
            ("$.a == [1]", "at character 8, a text in quotes"),
            ("$.ü == x", "at character 8, a text in quotes"),
            ("$.a == 1 && ", "at character 13, a path"),
            ("$..a", "at character 3, a name"),
            ("$[a]", "at character 3, a name in quotes"),
            ("$[-1]", "a name in quotes, the number"),
            ("$['a", "at character 4, a name and `'`"),
            ("$[0", "at character 4, `]`"),
            ("$.a || $.b", "at character 5, `&&`"),
            (&many, "more than 8 conditions"),
            (&deep, "at most 16 parts"),
            (&long, "more than 512 bytes"),
        ] {
            let refused = DataConditions::parse(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn indexes_are_asked_for_what_every_match_has() {
        let conditions =
            DataConditions::parse(r#"$.a[2].b == "Zürich (CH)" && $.c[*] == 120.0 && $.d == -7 && $.e > 5"#);
        let conditions = conditions.expect("they are conditions");
        assert_eq!(
            conditions.contained(),
            [json!({"a": [{"b": "Zürich (CH)"}]}), json!({"c": [120.0]}), json!({"d": -7})]
        );
        assert_eq!(conditions.words(), ["7", "ch", "zürich"]);
    }
}
