//! The fields of a step that hold expressions: the one list of them.

use super::Step;
use crate::json::Json;

/// A field of a step that holds expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionField {
    /// The list of a map.
    ForEach,
    /// The inputs: texts at any depth.
    Inputs,
    /// A condition.
    When,
    /// The condition of a loop.
    Until,
    /// What a person is asked.
    Question,
    /// Until when a step waits.
    WaitUntil,
    /// The key of the event that it waits for.
    WaitKey,
    /// The key of its cache.
    CacheKey,
}

/// The text of a field, or its value with texts at any depth.
#[derive(Clone, Copy, Debug)]
pub enum ExpressionText<'s> {
    /// One text.
    Text(&'s str),
    /// A value.
    Value(&'s Json),
}

/// The same, to be changed.
#[derive(Debug)]
pub enum ExpressionTextMut<'s> {
    /// One text.
    Text(&'s mut String),
    /// A value.
    Value(&'s mut Json),
}

impl ExpressionField {
    /// Whether the text is one bare expression, without braces.
    pub fn is_condition(self) -> bool {
        matches!(self, Self::When | Self::Until)
    }

    /// What the expressions of the field see besides `goal` and `steps`.
    pub fn names(self, step: &Step) -> Vec<&str> {
        let own: &[&str] = match self {
            // The list of an undo step may be in what it undoes.
            Self::ForEach if step.undoes.is_some() => return vec!["plan", "inputs", "outputs"],
            Self::ForEach => return Vec::new(),
            Self::Until => &["outputs"],
            Self::CacheKey => &["inputs"],
            Self::Inputs | Self::When | Self::Question | Self::WaitUntil | Self::WaitKey => &[],
        };
        let mut names = step.names();
        names.extend(own);
        names
    }
}

impl Step {
    /// The fields that hold expressions, where the step has them.
    pub fn expressions(&self) -> impl Iterator<Item = (ExpressionField, ExpressionText<'_>)> {
        use ExpressionField as Field;
        let wait = self.wait.as_ref();
        let values = [
            self.for_each.as_ref().map(|map| (Field::ForEach, ExpressionText::Value(&map.items))),
            Some((Field::Inputs, ExpressionText::Value(&self.inputs))),
        ];
        let texts = [
            (Field::When, self.when.as_ref()),
            (Field::Until, self.repeat.as_ref().map(|repeat| &repeat.until)),
            (Field::Question, self.ask.as_ref().map(|ask| &ask.question)),
            (Field::WaitUntil, wait.and_then(|wait| wait.until.as_ref())),
            (Field::WaitKey, wait.and_then(|wait| wait.key.as_ref())),
            (Field::CacheKey, self.cache.as_ref().map(|cache| &cache.key)),
        ];
        let texts = texts.into_iter().filter_map(|(field, text)| Some((field, ExpressionText::Text(text?))));
        values.into_iter().flatten().chain(texts)
    }

    /// The same, to be changed.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = ExpressionTextMut<'_>> {
        let (until, key) = self.wait.as_mut().map_or((None, None), |wait| (wait.until.as_mut(), wait.key.as_mut()));
        let texts = [
            self.when.as_mut(),
            self.repeat.as_mut().map(|repeat| &mut repeat.until),
            self.ask.as_mut().map(|ask| &mut ask.question),
            until,
            key,
            self.cache.as_mut().map(|cache| &mut cache.key),
        ];
        let values = [self.for_each.as_mut().map(|map| &mut map.items), Some(&mut self.inputs)];
        let values = values.into_iter().flatten().map(ExpressionTextMut::Value);
        values.chain(texts.into_iter().flatten().map(ExpressionTextMut::Text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_is_read_is_also_changed() {
        let step: Step = serde_json::from_value(json!({
            "id": "a", "inputs": {"x": "{{ 1 }}"}, "for_each": {"items": "{{ [1] }}"}, "when": "true",
            "repeat": {"until": "false", "max": 2}, "ask": {"question": "{{ 2 }}?"},
            "wait": {"until": "{{ 3 }}", "key": "{{ 4 }}"}, "cache": {"key": "{{ 5 }}", "ttl_ms": 1}
        }))
        .expect("a step with every field");
        let seen: Vec<String> = step
            .expressions()
            .map(|(_, text)| match text {
                ExpressionText::Text(text) => text.to_owned(),
                ExpressionText::Value(value) => value.text().to_owned(),
            })
            .collect();
        let mut changed = step.clone();
        let texts: Vec<String> = changed
            .expressions_mut()
            .map(|text| match text {
                ExpressionTextMut::Text(text) => text.clone(),
                ExpressionTextMut::Value(value) => value.text().to_owned(),
            })
            .collect();
        assert_eq!((seen.len(), &seen), (8, &texts));
    }
}
