//! Extracts the calls from a value, in any notation.

use serde_json::{Map, Value};

use crate::arguments::{self, CallArguments};
use crate::call_group::{CallGroup, groups};
use crate::catalogue::{CatalogueAction, ToolCatalogue};
use crate::edit::{EditKind, Edits};
use crate::limits::{CALL, INNER, MATCH, NAME, PAIR, ReaderLimits, WorkBudget};
use crate::node::{CallNode, Node, NodeKind, Text, table};
use crate::reading::ParsedCall;
use crate::shape::NAMES;
use crate::span::TextSpan;
use crate::value_search::{FoundValue, find};

/// Keys under which the arguments of a call stand.
const ARGUMENTS: [&str; 15] = [
    "arguments", "parameters", "params", "args", "param", "parameter", "kwargs", "action_input", "tool_input", "input",
    "inputs", "tool_args", "function_args", "properties", "payload",
];

/// Keys under which the name and the arguments of a call stand.
const WRAPPERS: [&str; 3] = ["function", "function_call", "tool_call"];

/// Keys that servers write beside the name and the arguments of a call.
const MARKS: [&str; 5] = ["type", "id", "index", "call_id", "tool_call_id"];

/// How often a string may hold a text that holds a string, and so on.
const NESTED_MAX: usize = 3;

pub(crate) fn gather(text: &str, found: &FoundValue, way: CallContext) -> CallGroup {
    let CallContext { catalogue, .. } = way;
    let mut gatherer = CallCollector {
        text,
        catalogue,
        way,
        group: CallGroup { span: found.node.span, edits: found.edits.clone(), ..CallGroup::default() },
    };
    gatherer.node(&found.node);
    let mut group = gatherer.group;
    group.empty = match group.calls.as_slice() {
        [call] if call.arguments.is_empty() => {
            catalogue.find(&call.name).is_some_and(|a| a.parameters.iter().any(|p| p.required))
        }
        _ => false,
    };
    group.score -= 2 * i64::try_from(group.edits.guesses).unwrap_or(i64::MAX / 4);
    group
}

/// Inputs of the extraction.
#[derive(Clone, Copy)]
pub(crate) struct CallContext<'a> {
    pub(crate) catalogue: &'a ToolCatalogue,
    pub(crate) limits: &'a ReaderLimits,
    pub(crate) budget: &'a WorkBudget,
    /// In how many strings this text stands.
    pub(crate) nested: usize,
}

struct CallCollector<'a> {
    text: &'a str,
    catalogue: &'a ToolCatalogue,
    way: CallContext<'a>,
    group: CallGroup,
}

impl<'a> CallCollector<'a> {
    /// Extracts the calls from a value. Trees are at most [`ReaderLimits::depth_max`] deep.
    fn node(&mut self, node: &Node) {
        if self.is_spent() {
            return;
        }
        match &node.kind {
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) => {}
            NodeKind::Text(text) => self.inner(text.slice(self.text), node.span),
            NodeKind::Call(call) => self.call(node, call),
            NodeKind::Map(pairs) => self.map(node, pairs),
            NodeKind::List(items) => self.list(items),
        }
        if !node.whole {
            self.group.cut = true;
        }
    }

    /// Whether the work is used up. What is left is not looked at, and the reading says so.
    fn is_spent(&mut self) -> bool {
        let spent = self.way.budget.left() == 0;
        if spent {
            self.group.cut = true;
        }
        spent
    }

    fn call(&mut self, node: &Node, call: &CallNode) {
        let name = call.name.slice(self.text);
        let action = self.catalogue.find_like(name);
        if action.is_none() && !self.catalogue.is_empty() {
            let before = self.group.calls.len();
            for value in call.positional.iter().chain(call.named.iter().map(|(_, v)| v)) {
                self.node(value);
            }
            if self.group.calls.len() > before {
                // `print(f(a=1))`
                return;
            }
        }
        if node.whole {
            let written = self.written(call);
            self.add(name.to_owned(), action, written, node.span);
        }
    }

    fn written(&mut self, call: &CallNode) -> CallArguments {
        let edits = &mut self.group.edits;
        let mut named = Map::new();
        for (key, value) in &call.named {
            named.insert(key.slice(self.text).to_owned(), argument(value, self.text, edits));
        }
        let positional = call.positional.iter().map(|v| argument(v, self.text, edits)).collect();
        CallArguments { positional, named }
    }

    fn map(&mut self, node: &Node, pairs: &[(Text, Node)]) {
        self.way.budget.spend(PAIR * pairs.len());
        if let Some((name, arguments)) = self.name_and_arguments(pairs) {
            if !node.whole {
                return;
            }
            let action = self.catalogue.find_like(&name);
            if let Some(written) = arguments {
                let before = self.group.calls.len();
                self.add(name, action, written, node.span);
                let is_alone = self.is_only_call(pairs, action);
                self.group.calls[before..].iter_mut().for_each(|call| call.is_alone = is_alone);
                return;
            }
        }
        if self.by_name(pairs) {
            return;
        }
        for (_, value) in pairs {
            if value.is_container() {
                self.node(value);
            }
        }
    }

    /// Whether an object has a name, arguments and marks of a call, and no other field.
    fn is_only_call(&self, pairs: &[(Text, Node)], action: Option<&CatalogueAction>) -> bool {
        let is_in = |key: &str, keys: &[&str]| keys.iter().any(|known| key.eq_ignore_ascii_case(known));
        let has_arguments = pairs.iter().any(|(key, _)| is_in(key.slice(self.text), &ARGUMENTS));
        let mut names = 0;
        let fields_fit = pairs.iter().all(|(key, value)| {
            let key = key.slice(self.text);
            if let Some(inner) = value.map().filter(|_| is_in(key, &WRAPPERS)) {
                names += 1;
                return self.is_only_call(inner, action);
            }
            let is_name = is_in(key, &NAMES);
            names += usize::from(is_name);
            let is_argument = !has_arguments && action.is_some_and(|action| action.parameter(key).is_some());
            is_name || is_argument || is_in(key, &ARGUMENTS) || is_in(key, &MARKS)
        });
        fields_fit && names == 1
    }

    /// `{"name": "f", "arguments": {…}}`, and its relatives; also the arguments beside the name.
    fn name_and_arguments(&mut self, pairs: &[(Text, Node)]) -> Option<(String, Option<CallArguments>)> {
        let get = |keys: &[&str]| {
            keys.iter().find_map(|key| pairs.iter().rev().find(|(k, _)| k.slice(self.text).eq_ignore_ascii_case(key)))
        };
        if let Some((_, inner)) = get(&WRAPPERS)
            && let Some(inner_pairs) = inner.map()
            && inner.whole
        {
            return self.name_and_arguments(inner_pairs);
        }
        let (name_key, name) = NAMES.iter().find_map(|key| {
            let (k, v) = get(&[key])?;
            let text = v.text(self.text)?;
            (self.catalogue.is_empty() || self.catalogue.find_like(text).is_some())
                .then(|| (k.clone(), text.to_owned()))
        })?;
        let arguments = get(&ARGUMENTS);
        let named = match arguments {
            Some((_, node)) => match &node.kind {
                NodeKind::Map(of) if node.whole => Some(table(of, self.text, &mut self.group.edits)),
                NodeKind::Text(text) if node.whole => {
                    let text = text.slice(self.text).to_owned();
                    match self.table_in_string(&text, node.span) {
                        Some(named) => Some(named),
                        None => return Some((name.clone(), self.only_argument(&name, text))),
                    }
                }
                NodeKind::Null => Some(Map::new()),
                NodeKind::List(items) if items.len() == 1 => match &items[0].kind {
                    NodeKind::Map(of) => Some(table(of, self.text, &mut self.group.edits)),
                    NodeKind::Null
                    | NodeKind::Bool(_)
                    | NodeKind::Number(_)
                    | NodeKind::Text(_)
                    | NodeKind::List(_)
                    | NodeKind::Call(_) => None,
                },
                NodeKind::List(items) if items.is_empty() => Some(Map::new()),
                NodeKind::Bool(_)
                | NodeKind::Number(_)
                | NodeKind::Text(_)
                | NodeKind::List(_)
                | NodeKind::Map(_)
                | NodeKind::Call(_) => None,
            },
            None => {
                let name_key = name_key.slice(self.text);
                let rest: Vec<_> = pairs.iter().filter(|(k, _)| k.slice(self.text) != name_key).cloned().collect();
                Some(table(&rest, self.text, &mut self.group.edits))
            }
        };
        Some((name, named.map(|named| CallArguments { positional: Vec::new(), named })))
    }

    /// A plain text in the place of the arguments: the only argument that the action can mean.
    fn only_argument(&self, name: &str, text: String) -> Option<CallArguments> {
        if text.trim_start().starts_with(['{', '[']) {
            // Arguments that cannot be read are not a text.
            return None;
        }
        let is_only = self.catalogue.find_like(name).is_none_or(|action| match action.parameters.as_slice() {
            [only] => only.kind != crate::catalogue::ParameterKind::Table,
            [first, others @ ..] => first.required && others.iter().all(|other| !other.required),
            [] => action.open,
        });
        is_only.then(|| CallArguments { positional: vec![Value::String(text)], named: Map::new() })
    }

    /// Arguments as a string that holds JSON.
    fn table_in_string(&mut self, inner: &str, span: TextSpan) -> Option<Map<String, Value>> {
        if inner.trim().is_empty() {
            return Some(Map::new());
        }
        self.way.budget.spend(INNER);
        let empty = ToolCatalogue::default();
        let finds = find(inner, &empty, self.way.limits, self.way.budget);
        let [found] = finds.values.as_slice() else { return None };
        let pairs = found.node.map()?;
        if !found.node.whole {
            self.group.cut = true;
            return None;
        }
        let mut edits = found.edits.clone();
        let named = table(pairs, inner, &mut edits);
        self.merge(edits, span, inner);
        Some(named)
    }

    fn merge(&mut self, mut edits: Edits, span: TextSpan, inner: &str) {
        edits.respelled(EditKind::Unwrapped, span, inner, "");
        for edit in &mut edits.list {
            edit.at = span;
        }
        self.group.edits.extend(edits);
    }

    /// `{"f": {…}, "g": {…}}`: every key names an action. An answer may have this form, too, so it is none to run.
    fn by_name(&mut self, pairs: &[(Text, Node)]) -> bool {
        let named = |(key, value): &(Text, Node)| {
            let table = value.is_container() || value.text(self.text).is_some_and(|t| t.trim_start().starts_with('{'));
            table && self.catalogue.find(key.slice(self.text)).is_some()
        };
        if self.catalogue.is_empty() || pairs.is_empty() || !pairs.iter().all(named) {
            return false;
        }
        let before = self.group.calls.len();
        for (key, value) in pairs {
            if self.is_spent() {
                break;
            }
            let name = key.slice(self.text).to_owned();
            let action = self.catalogue.find_like(&name);
            let tables = match &value.kind {
                NodeKind::List(items) if items.iter().any(|i| i.map().is_some()) => items.iter().collect(),
                NodeKind::Null
                | NodeKind::Bool(_)
                | NodeKind::Number(_)
                | NodeKind::Text(_)
                | NodeKind::List(_)
                | NodeKind::Map(_)
                | NodeKind::Call(_) => vec![value],
            };
            for one in tables.into_iter().filter(|t| t.whole) {
                let written = match &one.kind {
                    NodeKind::Map(of) => {
                        CallArguments { positional: Vec::new(), named: table(of, self.text, &mut self.group.edits) }
                    }
                    NodeKind::Text(text) => {
                        let text = text.slice(self.text).to_owned();
                        let Some(named) = self.table_in_string(&text, one.span) else { continue };
                        CallArguments { positional: Vec::new(), named }
                    }
                    NodeKind::List(items) => {
                        let values = items.iter().map(|i| i.value(self.text, &mut self.group.edits)).collect();
                        CallArguments { positional: values, named: Map::new() }
                    }
                    NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Call(_) => continue,
                };
                self.add(name.clone(), action, written, one.span);
            }
        }
        self.group.calls[before..].iter_mut().for_each(|call| call.is_alone = false);
        true
    }

    /// Items one by one; `"f", {…}` side by side are a call, but none to run.
    fn list(&mut self, items: &[Node]) {
        let mut n = 0;
        while let Some(item) = items.get(n) {
            n += 1;
            self.way.budget.spend(NAME);
            if self.is_spent() {
                break;
            }
            let name = item.text(self.text).filter(|t| self.catalogue.find(t).is_some());
            match (name, items.get(n)) {
                (Some(name), Some(next)) if next.map().is_some() && next.whole => {
                    let pairs = next.map().unwrap_or_default();
                    let named = table(pairs, self.text, &mut self.group.edits);
                    let action = self.catalogue.find_like(name);
                    let span = TextSpan::new(item.span.start, next.span.end);
                    self.group.edits.respelled(EditKind::CallRead, span, span.slice(self.text), "");
                    let before = self.group.calls.len();
                    self.add(name.to_owned(), action, CallArguments { positional: Vec::new(), named }, span);
                    self.group.calls[before..].iter_mut().for_each(|call| call.is_alone = false);
                    n += 1;
                }
                _ => self.node(item),
            }
        }
    }

    /// A string that holds a call, or JSON.
    fn inner(&mut self, inner: &str, span: TextSpan) {
        if self.way.nested >= NESTED_MAX || !inner.contains(['(', '{']) {
            return;
        }
        self.way.budget.spend(INNER);
        let finds = find(inner, self.catalogue, self.way.limits, self.way.budget);
        if finds.values.is_empty() {
            return;
        }
        if finds.unread.is_some() {
            self.group.cut = true;
        }
        let way = CallContext { nested: self.way.nested + 1, ..self.way };
        let mut groups = groups(inner, &finds.values, way);
        groups.sort_by_key(|g| std::cmp::Reverse(g.score));
        let Some(best) = groups.into_iter().find(|g| g.calls.iter().any(|c| c.known)) else { return };
        if best.cut {
            self.group.cut = true;
        }
        self.group.score += best.score;
        for mut call in best.calls {
            call.span = span;
            call.is_alone = false;
            self.group.calls.push(call);
        }
        self.merge(best.edits, span, inner);
    }

    fn add(&mut self, name: String, action: Option<&'a CatalogueAction>, written: CallArguments, span: TextSpan) {
        let parameters = action.map_or(0, |a| a.parameters.len());
        let arguments = written.positional.len() + written.named.len();
        self.way.budget.spend(CALL + MATCH * (arguments + 1) * (parameters + 1));
        if self.is_spent() {
            return;
        }
        let known = action.is_some() || self.catalogue.is_empty();
        let (arguments, fit) = match action {
            Some(action) => arguments::named(action, written, span, &mut self.group.edits),
            None => (arguments::unnamed(written), 0),
        };
        let spelled = action.map_or(name.as_str(), |a| a.name.as_str());
        if spelled != name {
            self.group.edits.guessed(EditKind::NameMatched, span, &name, spelled);
        }
        self.group.score += if known { 4 + fit } else { -6 };
        self.group.calls.push(ParsedCall { name: spelled.to_owned(), arguments, span, known, is_alone: true });
    }
}

/// The value of an argument; a call inside is kept as written, for nothing here computes it.
fn argument(node: &Node, text: &str, edits: &mut Edits) -> Value {
    if node.call().is_some() {
        let written = node.span.slice(text);
        edits.guessed(EditKind::ExpressionQuoted, node.span, written, written);
        return Value::String(written.to_owned());
    }
    node.value(text, edits)
}
