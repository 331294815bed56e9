//! Calls in tags: `<function=f><parameter=a>1</parameter></function>` and
//! `<invoke name="f"><parameter name="a">1</parameter></invoke>`.

use crate::node::{CallNode, Node, NodeKind, Text};
use crate::span::TextSpan;

/// The longest opening tag. Bytes.
const NAME_MAX: usize = 256;

/// A call in tags.
pub(crate) struct Tagged {
    pub(crate) node: Node,
    /// Where its arguments begin.
    pub(crate) body: usize,
}

/// Reads the call whose opening tag stands at `at`.
pub(crate) fn parse_tag(text: &str, at: usize) -> Option<Tagged> {
    let (name, body, kind) = opening(text, at, &["function", "invoke", "tool"])?;
    let first = text[body..].trim_start();
    if !first.starts_with("<parameter") && !first.starts_with("</") {
        return None;
    }
    let closing = format!("</{kind}>");
    let close = text[body..].find(&closing).map(|n| body + n);
    let inside = TextSpan::new(body, close.unwrap_or(text.len()));
    let mut named = Vec::new();
    let mut pos = body;
    let mut whole = close.is_some();
    while let Some(n) = text[pos..inside.end].find("<parameter") {
        let start = pos + n;
        let Some((key, value, _)) = opening(text, start, &["parameter"]) else { break };
        let Some(end) = text[value..inside.end].find("</parameter>").map(|n| value + n) else {
            whole = false;
            break;
        };
        let stretch = TextSpan::new(value, end).slice(text);
        let trimmed = stretch.strip_prefix('\n').unwrap_or(stretch);
        let from = end - trimmed.len();
        let to = from + trimmed.strip_suffix('\n').unwrap_or(trimmed).len();
        named.push((Text::Slice(key), Node::new(NodeKind::Text(Text::Slice(TextSpan::new(from, to))), from, to)));
        pos = end + "</parameter>".len();
    }
    let end = close.map_or(text.len(), |c| c + closing.len());
    let call = CallNode { name: Text::Slice(name), positional: Vec::new(), named };
    let mut node = Node::new(NodeKind::Call(Box::new(call)), at, end);
    node.whole = whole;
    Some(Tagged { node, body })
}

/// `<kind=name>` or `<kind name="name">`: where the name stands, and where the tag ends.
fn opening<'k>(text: &str, at: usize, kinds: &[&'k str]) -> Option<(TextSpan, usize, &'k str)> {
    let rest = text[at..].strip_prefix('<')?;
    let kind = kinds.iter().find(|k| rest.starts_with(**k))?;
    let rest = &rest[kind.len()..];
    let line = rest.bytes().take(NAME_MAX).position(|b| matches!(b, b'>' | b'\n'))?;
    if !rest[line..].starts_with('>') {
        return None;
    }
    let inside = &rest[..line];
    let name = match inside.strip_prefix('=') {
        Some(name) => name,
        None => inside.trim_start().strip_prefix("name")?.trim_start().strip_prefix('=')?,
    };
    let name = name.trim().trim_matches(['"', '\'']);
    if name.is_empty() || name.contains(['"', '<', ' ']) {
        return None;
    }
    let start = text.len() - rest.len() + inside.rfind(name)?;
    let body = text.len() - rest.len() + line + 1;
    Some((TextSpan::new(start, start + name.len()), body, kind))
}
