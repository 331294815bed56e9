//! The graph of subschemas with every `$ref` resolved, so that shared definitions count once.

use std::collections::BTreeMap;

use goalmill_common::hash::HashMap;
use serde_json::{Map, Value};

use super::size::states_of;

/// A subschema of the graph, by its place in [`Graph::nodes`].
pub(super) type NodeId = usize;

/// One subschema, and the subschemas that it applies.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Units of work of its own keywords.
    pub own: u64,
    /// Units of work of its own keywords for the name of each member.
    pub names: u64,
    /// Whether it has `unevaluated…`: these evaluate what stands beside them again.
    pub repeats: bool,
    /// To the same value: `allOf`, `anyOf`, `$ref`, …
    pub same: Vec<NodeId>,
    /// To a member of this name.
    pub members: BTreeMap<String, NodeId>,
    /// To members whatever their names.
    pub each_member: Vec<NodeId>,
    /// To members without a subschema of their own.
    pub other_members: Option<NodeId>,
    /// To the first items, one each.
    pub first_items: Vec<NodeId>,
    /// To all items.
    pub each_item: Vec<NodeId>,
}

/// What a schema's root reaches; the root is node 0.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
}

/// Why there is no graph.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// A `$ref` leaves the schema.
    Remote(String),
    /// More than [`USES_MAX`].
    TooManyUses,
}

/// Places where subschemas apply others to the same value, in a whole schema.
const USES_MAX: usize = 100_000;

/// Keywords that hold one subschema for the same value.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords that hold a list of subschemas for the same value.
const SAME_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords that hold subschemas by name for the same value.
const SAME_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords that hold one subschema for every item.
const ITEMS: [&str; 4] = ["items", "additionalItems", "contains", "unevaluatedItems"];

impl Graph {
    /// Reads a schema. Takes no recursion: a chain of references may be as long as the schema.
    pub fn from_schema(root: &Value) -> Result<Self, Unreadable> {
        let names = Names::from_schema(root);
        let mut reading = GraphReading { nodes: Vec::new(), ids: HashMap::default(), found: Vec::new() };
        reading.id(root, root);
        let (mut next, mut uses) = (0, 0);
        while let Some((schema, base)) = reading.found.get(next).copied() {
            let node = reading.node(&names, schema, base)?;
            uses += node.same.len();
            if uses > USES_MAX {
                return Err(Unreadable::TooManyUses);
            }
            reading.nodes.push(node);
            next += 1;
        }
        Ok(Self { nodes: reading.nodes })
    }

    /// Nodes in an order in which whatever applies to the same value comes before who applies it; `None` when a
    /// subschema applies itself to the same value.
    pub fn order(&self) -> Option<Vec<NodeId>> {
        let mut waits: Vec<usize> = self.nodes.iter().map(|node| node.same.len()).collect();
        let mut users = vec![Vec::new(); self.nodes.len()];
        for (user, node) in self.nodes.iter().enumerate() {
            node.same.iter().for_each(|used| users[*used].push(user));
        }
        let mut order: Vec<NodeId> = (0..waits.len()).filter(|id| waits[*id] == 0).collect();
        let mut next = 0;
        while let Some(id) = order.get(next).copied() {
            next += 1;
            for user in &users[id] {
                waits[*user] -= 1;
                if waits[*user] == 0 {
                    order.push(*user);
                }
            }
        }
        (order.len() == self.nodes.len()).then_some(order)
    }
}

/// The work of reading a graph: nodes are numbered when they are first met.
struct GraphReading<'s> {
    nodes: Vec<Node>,
    ids: HashMap<usize, NodeId>,
    /// Each with the embedded resource that it is in.
    found: Vec<(&'s Value, &'s Value)>,
}

impl<'s> GraphReading<'s> {
    fn id(&mut self, schema: &'s Value, base: &'s Value) -> NodeId {
        let place = std::ptr::from_ref(schema).addr();
        let found = &mut self.found;
        *self.ids.entry(place).or_insert_with(|| {
            let is_resource = ["$id", "id"].iter().any(|word| schema.get(word).is_some_and(Value::is_string));
            found.push((schema, if is_resource { schema } else { base }));
            found.len() - 1
        })
    }

    fn node(&mut self, names: &Names<'s>, schema: &'s Value, base: &'s Value) -> Result<Node, Unreadable> {
        let Some(map) = schema.as_object() else { return Ok(Node { own: 1, ..Node::default() }) };
        let mut node = Node { own: own(map), names: of_names(map), ..Node::default() };
        let children = |list: &'s Value| list.as_array().map(Vec::as_slice).unwrap_or_default();
        for (key, value) in map {
            match key.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let Some(target) = value.as_str() else { continue };
                    let local = target.strip_prefix('#').ok_or_else(|| Unreadable::Remote(target.to_owned()))?;
                    node.same.extend(names.find(local, base).into_iter().map(|found| self.id(found, base)));
                }
                word if SAME.contains(&word) => node.same.push(self.id(value, base)),
                word if SAME_LISTS.contains(&word) => {
                    node.same.extend(children(value).iter().map(|inner| self.id(inner, base)));
                }
                word if SAME_MAPS.contains(&word) => {
                    let inner = value.as_object().into_iter().flat_map(Map::values).filter(|inner| !inner.is_array());
                    node.same.extend(inner.map(|inner| self.id(inner, base)));
                }
                "properties" => {
                    let inner = value.as_object().into_iter().flatten();
                    node.members.extend(inner.map(|(name, inner)| (name.clone(), self.id(inner, base))));
                }
                "patternProperties" => {
                    let inner = value.as_object().into_iter().flat_map(Map::values);
                    node.each_member.extend(inner.map(|inner| self.id(inner, base)));
                }
                "additionalProperties" => node.other_members = Some(self.id(value, base)),
                "propertyNames" => node.each_member.push(self.id(value, base)),
                "unevaluatedProperties" => {
                    node.each_member.push(self.id(value, base));
                    node.repeats = true;
                }
                "prefixItems" => node.first_items.extend(children(value).iter().map(|inner| self.id(inner, base))),
                "items" if value.is_array() => {
                    node.first_items.extend(children(value).iter().map(|inner| self.id(inner, base)));
                }
                word if ITEMS.contains(&word) => {
                    node.each_item.push(self.id(value, base));
                    node.repeats |= word == "unevaluatedItems";
                }
                _ => {}
            }
        }
        Ok(node)
    }
}

/// Units of work of a subschema's own keywords: long lists of values count.
fn own(map: &Map<String, Value>) -> u64 {
    let listed = |word: &str| map.get(word).and_then(Value::as_array).map_or(0, Vec::len);
    let pattern = map.get("pattern").and_then(Value::as_str).map_or(0, matching);
    let units = 1 + (listed("enum") + listed("required")) / 8 + pattern;
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Units of work of matching a pattern against a short text.
fn matching(pattern: &str) -> usize {
    states_of(pattern) / STATES_PER_UNIT
}

/// Units of work of matching the name of a member against all `patternProperties`.
fn of_names(map: &Map<String, Value>) -> u64 {
    let patterns = map.get("patternProperties").and_then(Value::as_object);
    let units: usize = patterns.into_iter().flat_map(Map::keys).map(|pattern| matching(pattern) + 1).sum();
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// States of a pattern that count as one unit of work.
const STATES_PER_UNIT: usize = 16;

/// Places that references may name.
struct Names<'s> {
    root: &'s Value,
    anchors: BTreeMap<&'s str, Vec<&'s Value>>,
    recursive: Vec<&'s Value>,
}

impl<'s> Names<'s> {
    fn from_schema(root: &'s Value) -> Self {
        let mut names = Self { root, anchors: BTreeMap::new(), recursive: Vec::new() };
        names.collect(root);
        names
    }

    fn collect(&mut self, value: &'s Value) {
        match value {
            Value::Object(map) => {
                for word in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                    if let Some(name) = map.get(word).and_then(Value::as_str) {
                        self.anchors.entry(name.trim_start_matches('#')).or_default().push(value);
                    }
                }
                if map.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                    self.recursive.push(value);
                }
                map.values().for_each(|inner| self.collect(inner));
            }
            Value::Array(items) => items.iter().for_each(|inner| self.collect(inner)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// What `#<local>` may mean inside `base`: every reading, since the most dear one is sought.
    fn find(&self, local: &str, base: &'s Value) -> Vec<&'s Value> {
        let local = unescape(local);
        let mut found: Vec<&Value> = [self.root, base].iter().filter_map(|at| at.pointer(&local)).collect();
        found.extend(self.anchors.get(local.as_str()).into_iter().flatten());
        if local.is_empty() {
            found.extend(&self.recursive);
        }
        found.sort_by_key(|value| std::ptr::from_ref(*value).addr());
        found.dedup_by(|a, b| std::ptr::eq(*a, *b));
        found
    }
}

/// Replaces `%25` and its like, as references are written.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = text.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(*byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}
