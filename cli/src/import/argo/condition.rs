//! Reads the condition of a call: comparisons of tags and words, joined by `&&` and `||`.

use super::scope::ArgoScope;
use crate::import::conversion::quoted;

/// A condition as an expression; fails with the part that has no equal.
pub(super) fn condition<'t>(text: &'t str, scope: &ArgoScope) -> Result<String, &'t str> {
    let (mut out, mut rest) = (String::new(), text.trim());
    loop {
        let joined = [("&&", " and "), ("||", " or ")];
        let next = joined.iter().filter_map(|(sign, ours)| Some((rest.find(sign)?, *ours))).min();
        let (at, ours) = next.unwrap_or((rest.len(), ""));
        let part = rest[..at].trim();
        out.push_str(&comparison(part, scope).ok_or(part)?);
        out.push_str(ours);
        if next.is_none() {
            return Ok(out);
        }
        rest = &rest[at + 2..];
    }
}

/// A comparison of tags and words.
fn comparison(text: &str, scope: &ArgoScope) -> Option<String> {
    let open = text.len() - text.trim_start_matches('(').len();
    let close = if open > 0 { text.len() - text.trim_end_matches(')').len() } else { 0 };
    let inside = text[open..text.len() - close].trim();
    let sign = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|sign| inside.contains(sign))?;
    let (left, right) = inside.split_once(sign)?;
    let is_order = !matches!(sign, "==" | "!=");
    let side = |text: &str| {
        let text = text.trim();
        let bare = text.trim_matches(['"', '\'']);
        if let Some(tag) = bare.strip_prefix("{{").and_then(|tag| tag.strip_suffix("}}")) {
            let (is_status, tag) = (tag.trim() == "workflow.status", tag.trim());
            let value = scope.tag_text(tag)?;
            let value = whole(&value).map_or_else(|| quoted(&value), ToOwned::to_owned);
            return Some(match (is_status, is_order) {
                (true, _) => value,
                (false, true) => format!("({value} | float)"),
                (false, false) => format!("({value} | string)"),
            });
        }
        let is_word = !bare.is_empty() && bare.chars().all(|c| c.is_alphanumeric() || "_-./: ".contains(c));
        is_word.then(|| if is_order { bare.to_owned() } else { quoted(bare) })
    };
    let (left, right) = (side(left)?, side(right)?);
    let status = |text: String| match text.as_str() {
        "'Succeeded'" => "'completed'".to_owned(),
        "'Failed'" | "'Error'" => "'failed'".to_owned(),
        _ => text,
    };
    let (left, right) =
        if left == "plan.status" || right == "plan.status" { (status(left), status(right)) } else { (left, right) };
    Some(format!("{}{left} {sign} {right}{}", "(".repeat(open), ")".repeat(close)))
}

/// The inside of a text that is one expression.
fn whole(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("{{")?.strip_suffix("}}")?;
    (!inside.contains("}}")).then(|| inside.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_become_expressions() {
        let mut scope = ArgoScope::of_workflow();
        scope.inputs.insert("env".into(), "{{ goal.metadata.inputs.env }}".into());
        let read = |text| condition(text, &scope);
        let staging = "({{inputs.parameters.env}} == staging)";
        assert_eq!(read(staging).as_deref(), Ok("((goal.metadata.inputs.env | string) == 'staging')"));
        assert_eq!(read("1 < 2 || a != b && b == 'b'").as_deref(), Ok("1 < 2 or 'a' != 'b' and 'b' == 'b'"));
        for (text, part) in [("a == b && c", "c"), ("f(x) == 1", "f(x) == 1"), ("a == b &&", ""), ("", "")] {
            assert_eq!(read(text), Err(part), "{text}");
        }
    }
}
