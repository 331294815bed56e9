//! The format of the logs, by which builds tell whether they can read each other's plans.

/// The format of the logs that this build writes; builds before this number have 0.
///
/// It is raised with each change of `log_format.txt`: a new type of event, field, or word. Schedulers of one format share
/// the shards; a scheduler of another format waits until they have ended.
pub const LOG_FORMAT: u32 = 6;

#[cfg(test)]
pub(super) use tests::fields;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;
    use serde::de::{Deserializer, Error, Visitor, value};
    use serde_json::Value;

    use super::*;
    use crate::event::{PlanEvent, StepEvent};
    use crate::schema::schema;

    /// What logs hold parts of.
    const STORED: &[&str] = &["goal", "plan", "proposal", "report"];

    #[test]
    fn a_change_of_what_logs_hold_raises_the_format() {
        let (kept, now) = (include_str!("log_format.txt"), description());
        assert!(
            kept == now,
            "what logs hold has changed: raise `LOG_FORMAT`, name the change in `docs/UPGRADING.md`, and make \
             `log_format.txt` this:\n{now}"
        );
    }

    /// The format, the fields of each event, and the fields and words of each type of what they hold.
    fn description() -> String {
        let mut text = format!("format {LOG_FORMAT}\n");
        for (name, fields) in PlanEvent::fields().into_iter().chain(StepEvent::fields()) {
            text += &line(name, &fields);
        }
        let mut types = BTreeSet::new();
        for name in STORED {
            let schema = schema(name).expect("it has a schema");
            types.insert(type_line(name, &schema));
            types.extend(
                schema["$defs"].as_object().into_iter().flatten().map(|(name, schema)| type_line(name, schema)),
            );
        }
        text + &types.into_iter().collect::<String>()
    }

    fn type_line(name: &str, schema: &Value) -> String {
        let mut words = BTreeSet::new();
        add_words(schema, &mut words);
        line(name, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn line(name: &str, words: &[&str]) -> String {
        [&[name], words].concat().join(" ") + "\n"
    }

    /// Adds the names of fields, and the words that a text may be, of a schema without its `$defs`.
    fn add_words(schema: &Value, words: &mut BTreeSet<String>) {
        match schema {
            Value::Object(parts) => {
                for (key, part) in parts.iter().filter(|(key, _)| *key != "$defs") {
                    match (key.as_str(), part) {
                        ("const", Value::String(word)) => drop(words.insert(word.clone())),
                        ("enum", Value::Array(all)) => {
                            words.extend(all.iter().filter_map(Value::as_str).map(str::to_owned));
                        }
                        ("properties", Value::Object(fields)) => words.extend(fields.keys().cloned()),
                        _ => {}
                    }
                    add_words(part, words);
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| add_words(part, words)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Notes the fields of the first struct that is asked for.
    struct FieldNames<'a>(&'a mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for FieldNames<'_> {
        type Error = value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(Error::custom("only names are read"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields.to_vec();
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    /// The fields of a payload, as they are stored.
    pub(in crate::event) fn fields<T: for<'de> Deserialize<'de>>() -> Vec<&'static str> {
        let mut names = Vec::new();
        let read = T::deserialize(FieldNames(&mut names));
        drop(read);
        names
    }
}
