//! The JSON Schema of an answer, in one form for each way in which servers take schemas.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// The JSON Schema of an answer (an object).
///
/// A form is built when it is first used, because a server gets one of them and those of a large catalogue take long.
#[derive(Clone)]
pub struct AnswerSchema(Arc<SchemaForms>);

struct SchemaForms {
    build: Box<dyn Fn(SchemaForm) -> Value + Send + Sync>,
    /// By the order of [`SchemaForm`].
    built: [OnceLock<Value>; 3],
}

/// How a server takes a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaForm {
    /// For servers that turn a schema into a grammar: llama.cpp, Ollama, vLLM, SGLang.
    Grammar,
    /// Within the subset that hosted services document for `strict`: closed objects, all properties required, no
    /// `prefixItems`, no `pattern`.
    Strict,
    /// For the parameters of a tool and for prompts. No server enforces this form, and each token of it is paid for, so
    /// it is short.
    Prompt,
}

impl SchemaForm {
    /// The word used on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grammar => "grammar",
            Self::Strict => "strict",
            Self::Prompt => "prompt",
        }
    }
}

impl From<Value> for AnswerSchema {
    /// The same schema in each form.
    fn from(schema: Value) -> Self {
        Self::new(move |_| schema.clone())
    }
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerSchema").field(&self.0.built).finish()
    }
}

impl PartialEq for AnswerSchema {
    fn eq(&self, other: &Self) -> bool {
        let forms = [SchemaForm::Grammar, SchemaForm::Strict, SchemaForm::Prompt];
        Arc::ptr_eq(&self.0, &other.0) || forms.iter().all(|form| self.form(*form) == other.form(*form))
    }
}

impl AnswerSchema {
    /// - `build`: the schema in one form; called once for each form at most.
    pub fn new(build: impl Fn(SchemaForm) -> Value + Send + Sync + 'static) -> Self {
        Self(Arc::new(SchemaForms { build: Box::new(build), built: Default::default() }))
    }

    /// The schema in one form.
    pub fn form(&self, form: SchemaForm) -> &Value {
        self.0.built[form as usize].get_or_init(|| (self.0.build)(form))
    }

    /// The form for prompts and for the parameters of tools.
    pub fn prompt(&self) -> &Value {
        self.form(SchemaForm::Prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_built_once_and_only_when_it_is_used() {
        let built = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = built.clone();
        let schema = AnswerSchema::new(move |form| {
            seen.lock().expect("no test panics with it").push(form);
            Value::from(form as u8)
        });
        let same = schema.clone();
        assert_eq!((schema.prompt(), same.prompt()), (&Value::from(2), &Value::from(2)));
        assert_eq!(same.form(SchemaForm::Grammar), &Value::from(0));
        assert_eq!(schema, same);
        assert_eq!(*built.lock().expect("no test panics with it"), [SchemaForm::Prompt, SchemaForm::Grammar]);
    }
}
