//! References to other steps inside texts: where they stand, and how deep they look into the outputs.

use std::ops::Range;

/// One mention of another step in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The id as it is written.
    pub step: String,
    /// Where `steps.ID` or `steps['ID']` stands, in bytes.
    pub at: Range<usize>,
    /// What follows the id: `outputs`, then names and numbers.
    pub path: Vec<String>,
    /// Whether the text is this one expression and nothing else, so that the value keeps its type.
    pub is_whole: bool,
}

/// Every mention of a step inside `{{ … }}` and `{% … %}`, in order.
pub fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("{{").into_iter().chain(text[at..].find("{%")).min() {
        let start = at + open + 2;
        let closing = if text[at + open..].starts_with("{{") { "}}" } else { "%}" };
        let Some(length) = text[start..].find(closing) else { break };
        let end = start + length;
        region(text, start..end, &mut found);
        at = end + 2;
    }
    if let [only] = found.as_mut_slice() {
        only.is_whole = is_whole(text, only);
    }
    found
}

/// Every mention in a bare expression, as `when` has it.
pub fn mentions_bare(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    region(text, 0..text.len(), &mut found);
    found
}

fn region(text: &str, range: Range<usize>, found: &mut Vec<Mention>) {
    let mut at = range.start;
    while let Some(offset) = text[at..range.end].find("steps") {
        let start = at + offset;
        at = start + 5;
        let before = text[..start].chars().next_back();
        if start > range.start && before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '\'' | '"')) {
            continue;
        }
        let Some((step, end)) = segment(&text[..range.end], at) else { continue };
        let mut path = Vec::new();
        let mut to = end;
        while let Some((name, next)) = segment(&text[..range.end], to) {
            path.push(name);
            to = next;
        }
        at = to;
        found.push(Mention { step, at: start..end, path, is_whole: false });
    }
}

/// `.name`, `['name']`, `["name"]` or `[3]` at a place, and where it ends.
fn segment(text: &str, at: usize) -> Option<(String, usize)> {
    let rest = text.get(at..)?;
    if let Some(name) = rest.strip_prefix('.') {
        let length = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        return (length > 0).then(|| (name[..length].to_owned(), at + 1 + length));
    }
    let inside = rest.strip_prefix('[')?;
    let close = inside.find(']')?;
    let name = inside[..close].trim();
    let quoted = ['\'', '"'].iter().find_map(|q| name.strip_prefix(*q)?.strip_suffix(*q));
    let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let name = quoted.or_else(|| is_number.then_some(name))?;
    Some((name.to_owned(), at + 1 + close + 1))
}

fn is_whole(text: &str, mention: &Mention) -> bool {
    let Some(inside) = text.trim().strip_prefix("{{").and_then(|t| t.strip_suffix("}}")) else { return false };
    let inside = inside.trim();
    let mut end = mention.at.end;
    for _ in &mention.path {
        match segment(text, end) {
            Some((_, next)) => end = next,
            None => return false,
        }
    }
    text.get(mention.at.start..end) == Some(inside)
}

/// How a step is named in an expression: `steps.a`, or `steps['a-b']` where a dash would be a minus.
pub fn spelled(step: &str) -> String {
    let mut letters = step.chars();
    let is_name = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { format!("steps.{step}") } else { format!("steps['{step}']") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_expression_tells_step_and_path() {
        let found = mentions(" {{ steps['a-b'].outputs.best[0].price }} ");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].step, "a-b");
        assert_eq!(found[0].path, ["outputs", "best", "0", "price"]);
        assert!(found[0].is_whole);
    }

    #[test]
    fn mentions_in_text_are_found_and_are_not_whole() {
        let text = "from {{ steps.a.outputs.x | upper }} to {{ steps.b.outputs }}";
        let found = mentions(text);
        assert_eq!(found.iter().map(|m| &text[m.at.clone()]).collect::<Vec<_>>(), ["steps.a", "steps.b"]);
        assert!(found.iter().all(|m| !m.is_whole));
        assert!(!mentions("{{ steps.a.outputs.x | upper }}")[0].is_whole);
    }

    #[test]
    fn words_that_merely_look_like_it_are_passed_over() {
        for text in
            ["steps.a", "{{ missteps.a }}", "{{ goal.steps.a }}", "{{ 'steps.a' }}", "{{ steps }}", "{{ steps.a"]
        {
            assert_eq!(mentions(text), [], "{text}");
        }
        assert_eq!(mentions_bare("steps.a.outputs.n > 2").len(), 1);
    }

    #[test]
    fn an_id_is_spelled_so_that_the_expression_reads_it_back() {
        for id in ["a", "a-b", "1", "x.y", "_z"] {
            let text = format!("{{{{ {}.outputs }}}}", spelled(id));
            assert_eq!(mentions(&text)[0].step, id);
            assert_eq!(goalmill_expression::references(&text).unwrap()[0].step, id);
        }
    }
}
