//! A strict reader of Python literals, to hold the tolerant one against: it refuses whatever `ast.literal_eval` does.
//!
//! Written apart from the reader, and recursive, which is fine for rows of a data set.

use serde_json::{Map, Value};

/// The value of a literal of lists, tables, tuples, strings, numbers and constants.
pub fn read(text: &str) -> Option<Value> {
    let mut at = At { rest: text };
    let value = at.value()?;
    at.rest.trim_start().is_empty().then_some(value)
}

struct At<'a> {
    rest: &'a str,
}

impl At<'_> {
    fn value(&mut self) -> Option<Value> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '[' => self.items(']').map(|(items, _)| Value::Array(items)),
            '(' => {
                self.items(')').map(
                    |(mut items, commas)| {
                        if items.len() == 1 && commas == 0 { items.remove(0) } else { Value::Array(items) }
                    },
                )
            }
            '{' => self.table(),
            '\'' | '"' => self.strings(),
            _ => self.word(),
        }
    }

    fn items(&mut self, close: char) -> Option<(Vec<Value>, usize)> {
        self.rest = &self.rest[1..];
        let (mut items, mut commas) = (Vec::new(), 0);
        loop {
            if self.take(close) {
                return Some((items, commas));
            }
            items.push(self.value()?);
            if self.take(',') {
                commas += 1;
            } else {
                return self.take(close).then_some((items, commas));
            }
        }
    }

    fn table(&mut self) -> Option<Value> {
        self.rest = &self.rest[1..];
        let mut table = Map::new();
        loop {
            if self.take('}') {
                return Some(Value::Object(table));
            }
            let Value::String(key) = self.value()? else { return None };
            if !self.take(':') {
                return None;
            }
            table.insert(key, self.value()?);
            if !self.take(',') {
                return self.take('}').then_some(Value::Object(table));
            }
        }
    }

    fn strings(&mut self) -> Option<Value> {
        let mut all = String::new();
        while let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            if self.rest[1..].starts_with(quote) && self.rest[2..].starts_with(quote) {
                return None;
            }
            let mut chars = self.rest[1..].char_indices();
            loop {
                let (n, c) = chars.next()?;
                match c {
                    '\n' => return None,
                    '\\' => match chars.next()?.1 {
                        'n' => all.push('\n'),
                        't' => all.push('\t'),
                        'r' => all.push('\r'),
                        c @ ('\\' | '\'' | '"') => all.push(c),
                        'x' | 'u' | 'U' | 'N' | '0'..='7' | 'a' | 'b' | 'f' | 'v' | '\n' => return None,
                        c => {
                            all.push('\\');
                            all.push(c);
                        }
                    },
                    c if c == quote => {
                        self.rest = self.rest[n + 2..].trim_start();
                        break;
                    }
                    c => all.push(c),
                }
            }
        }
        Some(Value::String(all))
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find([',', ']', '}', ')', ':', ' ', '\n']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ => serde_json::from_str(word).ok().filter(Value::is_number),
        }
    }

    fn take(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        let taken = self.rest.starts_with(c);
        if taken {
            self.rest = &self.rest[c.len_utf8()..];
        }
        taken
    }
}
