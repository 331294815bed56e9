//! The actions that a text may call, and the matching of their names.

use std::collections::BTreeMap;

use serde_json::Value;

/// The actions that were offered to a model. An empty catalogue accepts any name.
#[derive(Clone, Debug, Default)]
pub struct ToolCatalogue {
    actions: Vec<CatalogueAction>,
    exact: BTreeMap<String, usize>,
    /// Normal form to action; `None` when several share it.
    normal: BTreeMap<String, Option<usize>>,
    /// Normal form of a name without its prefix to action; `None` when several share it.
    tails: BTreeMap<String, Option<usize>>,
}

/// One action: its name, and its parameters in the order of its schema.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueAction {
    pub name: String,
    pub parameters: Vec<ActionParameter>,
    /// Whether nothing is known about its parameters.
    pub open: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ActionParameter {
    pub name: String,
    pub kind: ParameterKind,
    pub required: bool,
}

/// The type of a parameter, as far as its schema declares one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    Any,
    Text,
    Integer,
    Number,
    Boolean,
    List,
    Table,
}

impl ToolCatalogue {
    #[must_use]
    pub fn new(actions: Vec<CatalogueAction>) -> Self {
        let mut exact = BTreeMap::new();
        let mut normal: BTreeMap<String, Option<usize>> = BTreeMap::new();
        let mut tails: BTreeMap<String, Option<usize>> = BTreeMap::new();
        for (n, action) in actions.iter().enumerate() {
            exact.entry(action.name.clone()).or_insert(n);
            normal.entry(normal_form(&action.name)).and_modify(|known| *known = None).or_insert(Some(n));
            tails.entry(normal_form(tail(&action.name))).and_modify(|known| *known = None).or_insert(Some(n));
        }
        Self { actions, exact, normal, tails }
    }

    /// From names and the JSON Schemas of their inputs (`{"type": "object", "properties": …, "required": …}`).
    #[must_use]
    pub fn from_schemas<'a>(actions: impl IntoIterator<Item = (&'a str, Option<&'a Value>)>) -> Self {
        Self::new(actions.into_iter().map(|(name, schema)| CatalogueAction::from_schema(name, schema)).collect())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The action of this name: as written; else with case, `.`, `_`, `-` and a leading `functions.` set aside, when
    /// that leaves only one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&CatalogueAction> {
        let n = self.place(name)?;
        self.actions.get(n)
    }

    /// As [`Self::find`]; else the only action that has this name behind the prefix of a server or module.
    #[must_use]
    pub fn find_like(&self, name: &str) -> Option<&CatalogueAction> {
        if let Some(action) = self.find(name) {
            return Some(action);
        }
        // With a prefix of its own it is another name.
        if name.len() > NAME_MAX || tail(name) != name {
            return None;
        }
        let n = self.tails.get(&normal_form(name)).copied().flatten()?;
        self.actions.get(n)
    }

    fn place(&self, name: &str) -> Option<usize> {
        if name.len() > NAME_MAX {
            return self.exact.get(name).copied();
        }
        self.exact.get(name).copied().or_else(|| {
            self.normal.get(&normal_form(name)).copied().flatten().or_else(|| {
                // `default_api.f`, `functions.f`: a module in front of the name.
                let (_, rest) = name.split_once('.')?;
                self.exact.get(rest).copied().or_else(|| self.normal.get(&normal_form(rest)).copied().flatten())
            })
        })
    }
}

impl CatalogueAction {
    #[must_use]
    pub fn from_schema(name: &str, schema: Option<&Value>) -> Self {
        let properties = schema.and_then(|s| s.get("properties")).and_then(Value::as_object);
        let required: Vec<&str> = schema
            .and_then(|s| s.get("required"))
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let parameters = properties
            .into_iter()
            .flatten()
            .map(|(key, of)| ActionParameter {
                name: key.clone(),
                kind: ParameterKind::from_schema(of),
                required: required.contains(&key.as_str()),
            })
            .collect();
        Self { name: name.to_owned(), parameters, open: properties.is_none() }
    }

    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&ActionParameter> {
        self.parameters.iter().find(|p| p.name == name)
    }
}

impl ParameterKind {
    fn from_schema(schema: &Value) -> Self {
        match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
            "string" | "str" => Self::Text,
            "integer" | "int" | "long" => Self::Integer,
            "number" | "float" | "double" => Self::Number,
            "boolean" | "bool" => Self::Boolean,
            "array" | "list" | "tuple" => Self::List,
            "object" | "dict" => Self::Table,
            _ => Self::Any,
        }
    }
}

/// Names longer than this are taken as written. Bytes.
const NAME_MAX: usize = 100;

/// What stands behind the prefix of a name: `server__`, `module.`.
fn tail(name: &str) -> &str {
    let name = name.rsplit('.').next().unwrap_or(name);
    name.rsplit("__").next().unwrap_or(name)
}

/// Letters and digits only, lower case.
fn normal_form(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_other_spellings_unless_two_share_it() {
        let open = |name: &str| CatalogueAction::from_schema(name, None);
        let catalogue = ToolCatalogue::new(vec![open("math.gcd"), open("a_b"), open("a.b")]);
        assert_eq!(catalogue.find("math_gcd").map(|a| a.name.as_str()), Some("math.gcd"));
        assert_eq!(catalogue.find("functions.math_gcd").map(|a| a.name.as_str()), Some("math.gcd"));
        assert_eq!(catalogue.find("default_api.math.gcd").map(|a| a.name.as_str()), Some("math.gcd"));
        assert_eq!(catalogue.find("a.b").map(|a| a.name.as_str()), Some("a.b"));
        assert_eq!(catalogue.find("A-B"), None);
    }

    #[test]
    fn a_name_without_the_prefix_of_its_server_is_found_unless_two_share_it() {
        let open = |name: &str| CatalogueAction::from_schema(name, None);
        let catalogue =
            ToolCatalogue::new(vec![open("mail__send"), open("sms__send"), open("web__search"), open("math.gcd")]);
        let found = |name: &str| catalogue.find_like(name).map(|action| action.name.as_str());
        assert_eq!(
            (found("search"), found("gcd"), found("web__search")),
            (Some("web__search"), Some("math.gcd"), Some("web__search"))
        );
        // Another server, another letter, or two of one name: what is meant is ambiguous.
        for name in ["send", "other__search", "searches", "serch", "other.gcd2", "web"] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
