//! Bounds the work of checking a value against a schema, before the check.

use serde_json::Value;

use super::graph::{Graph, Node, NodeId};

/// Levels of a value for which the work is known in advance; deeper values are counted.
const LEVELS: usize = 64;
/// Bytes of a string that count as one value.
const UNIT_BYTES: usize = 256;

/// The work of one schema.
#[derive(Debug)]
pub(super) struct Cost {
    graph: Graph,
    /// Subschemas one inside the other at the same value, at most.
    pub height: u64,
    /// Subschemas evaluated for one value by any of them, at most.
    pub width: u64,
    heights: Vec<u64>,
    /// Units of work for one value so many levels below the root, at most.
    levels: Vec<u64>,
}

impl Cost {
    /// `None` when a subschema applies itself to the same value, so that there is no end.
    pub fn from_graph(graph: Graph) -> Option<Self> {
        let order = graph.order()?;
        let mut heights = vec![0_u64; graph.nodes.len()];
        let mut widths = vec![0_u64; graph.nodes.len()];
        for id in &order {
            let node = &graph.nodes[*id];
            heights[*id] = 1 + node.same.iter().map(|used| heights[*used]).max().unwrap_or(0);
            let width = node.same.iter().fold(1_u64, |sum, used| sum.saturating_add(widths[*used]));
            widths[*id] = width.saturating_mul(times(node, heights[*id]));
        }
        let levels = levels(&graph, &order, &heights);
        let most = |list: &[u64]| list.iter().copied().max().unwrap_or(0);
        Some(Self { height: most(&heights), width: most(&widths), graph, heights, levels })
    }

    /// Whether the work of evaluating `value` is within `most` units. Takes no more than about `most` steps itself.
    pub fn is_within(&self, value: &Value, most: u64) -> bool {
        let mut sizes = Vec::new();
        measure(value, 0, &mut sizes);
        let units = sizes.iter().enumerate().fold(0_u64, |sum, (level, size)| {
            let each = self.levels.get(level).or(self.levels.last()).copied().unwrap_or(0);
            let each = if level < self.levels.len() { each } else { most };
            sum.saturating_add(each.saturating_mul(*size))
        });
        let deep = u64::try_from(sizes.len()).unwrap_or(u64::MAX).saturating_mul(self.height);
        if deep > super::NESTED_MAX {
            return false;
        }
        let mut left = most;
        units <= most || self.count(0, value, 1, &mut left).is_some()
    }

    /// Counts the work exactly, as if no keyword ended early; `None` when it is more than what is left.
    fn count(&self, id: NodeId, value: &Value, times_outside: u64, left: &mut u64) -> Option<()> {
        let node = &self.graph.nodes[id];
        let factor = times_outside.saturating_mul(times(node, self.heights[id]));
        *left = left.checked_sub(node.own.saturating_mul(factor).saturating_mul(weight(value)))?;
        for used in &node.same {
            self.count(*used, value, factor, left)?;
        }
        match value {
            Value::Object(map) => map.iter().try_for_each(|(name, inner)| {
                *left = left.checked_sub(node.names.saturating_mul(factor).saturating_mul(text_weight(name)))?;
                let own = node.members.get(name).or(node.other_members.as_ref());
                own.into_iter().chain(&node.each_member).try_for_each(|id| self.count(*id, inner, factor, left))
            }),
            Value::Array(items) => items.iter().enumerate().try_for_each(|(i, inner)| {
                let first = node.first_items.get(i);
                first.into_iter().chain(&node.each_item).try_for_each(|id| self.count(*id, inner, factor, left))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(()),
        }
    }
}

/// How often a subschema's work is done: `unevaluated…` looks again at each subschema beside it.
fn times(node: &Node, height: u64) -> u64 {
    if node.repeats { height.saturating_add(1) } else { 1 }
}

fn levels(graph: &Graph, order: &[NodeId], heights: &[u64]) -> Vec<u64> {
    let mut below = vec![0_u64; graph.nodes.len()];
    let mut levels = Vec::new();
    for level in 0..LEVELS {
        let mut here = vec![0_u64; graph.nodes.len()];
        for id in order {
            let node = &graph.nodes[*id];
            let own = if level == 0 { node.own } else { at_children(node, &below) };
            let sum = node.same.iter().fold(own, |sum, used| sum.saturating_add(here[*used]));
            here[*id] = sum.saturating_mul(times(node, heights[*id]));
        }
        let root = here.first().copied().unwrap_or(0);
        levels.push(root);
        if here == below && level > 0 {
            levels.resize(LEVELS, root);
            break;
        }
        below = here;
    }
    levels
}

/// The work at one child in the worst case.
fn at_children(node: &Node, below: &[u64]) -> u64 {
    let most = |ids: &mut dyn Iterator<Item = &NodeId>| ids.map(|id| below[*id]).max().unwrap_or(0);
    let all = |ids: &[NodeId]| ids.iter().fold(0_u64, |sum, id| sum.saturating_add(below[*id]));
    let member = most(&mut node.members.values().chain(&node.other_members)).saturating_add(all(&node.each_member));
    let member = member.saturating_add(node.names);
    let item = most(&mut node.first_items.iter()).saturating_add(all(&node.each_item));
    member.max(item)
}

fn weight(value: &Value) -> u64 {
    value.as_str().map_or(1, text_weight)
}

fn text_weight(text: &str) -> u64 {
    u64::try_from(text.len() / UNIT_BYTES + 1).unwrap_or(u64::MAX)
}

/// Adds up the weights of all values, level by level.
fn measure(value: &Value, level: usize, sizes: &mut Vec<u64>) {
    if sizes.len() <= level {
        sizes.push(0);
    }
    sizes[level] = sizes[level].saturating_add(weight(value));
    match value {
        Value::Object(map) => map.iter().for_each(|(name, inner)| {
            measure(inner, level + 1, sizes);
            sizes[level + 1] = sizes[level + 1].saturating_add(text_weight(name) - 1);
        }),
        Value::Array(items) => items.iter().for_each(|inner| measure(inner, level + 1, sizes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
