//! Finds references in the notation of other plan formats: `<node-0>`, `<step_2>`, `#E1`, `$1`, `${step1.output}`.
//!
//! Such a reference is an issue. As plain text it would let its step run too early, and which step it means would be a guess.

use std::sync::LazyLock;

use goalmill_common::problem::Issue;
use regex::Regex;

use super::context::{RepairContext, collect};

/// A reference anywhere in a text. `#E1E1E1` is a colour, and `${HOME}` a variable of a shell.
static PART: LazyLock<Regex> = LazyLock::new(|| {
    let angle = r"<\s*(?i:node|step|task|subtask|(?:output|result)[_ ]of[_ ]step)[-_ ]?\d+\s*>|<(?i:generated)>-\d+";
    let braced = r"\$\{[A-Za-z0-9_-]+(?:\.[A-Za-z_]\w*)+\}";
    Regex::new(&format!(r"{angle}|#E\d+\b|{braced}")).expect("the pattern is well formed")
});

/// A reference that is a whole text: `$step1.output`, `${step1}`.
static WHOLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\$(?:\{\s*)?[A-Za-z_][\w-]*\d(?:\.[A-Za-z_]\w*)*(?:\s*\})?$").expect("the pattern is well formed")
});

/// The issues of a draft and of the plans inside its steps.
pub(super) fn issues(work: &RepairContext<'_>) -> Vec<Issue> {
    let mut issues = Vec::new();
    for step in (0..work.steps.len()).filter(|step| !work.has(*step, "use")) {
        let mut texts = Vec::new();
        if let Some(inputs) = work.field(step, "inputs") {
            collect(inputs, &work.place(step, "inputs"), &mut texts);
        }
        for (pointer, text) in texts {
            issues.extend(foreign_reference(text, step).map(|reference| issue(pointer, reference)));
        }
        let at = work.place(step, "plan");
        let inner =
            work.field(step, "plan").and_then(|inner| RepairContext::from_draft(inner.clone(), work.rules).ok());
        let outer = |issue: Issue| Issue { pointer: format!("{at}{}", issue.pointer), ..issue };
        issues.extend(inner.iter().flat_map(self::issues).map(outer));
    }
    issues
}

fn issue(pointer: String, reference: &str) -> Issue {
    Issue {
        code: "REF_UNKNOWN_STEP".into(),
        pointer,
        detail: format!("`{reference}` is a reference in the notation of another format"),
        hint: "write `{{ steps['ID'].outputs }}` with the id of an earlier step".into(),
    }
}

/// The first reference of a text in another notation.
///
/// - `before`: how many steps are written before the step with this text; `$5` behind fewer than five steps is a price.
fn foreign_reference(text: &str, before: usize) -> Option<&str> {
    if text.contains("{{") || text.contains("{%") {
        return None;
    }
    let whole = text.trim();
    let number = whole.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
    if number.is_some_and(|number| (1..=before).contains(&number)) || WHOLE.is_match(whole) {
        return Some(whole);
    }
    PART.find(text).map(|found| found.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_are_told_from_text() {
        for (text, reference) in [
            ("<node-0>", "<node-0>"),
            ("compare <Step 2> with <node-1>", "<Step 2>"),
            ("see #E1!", "#E1"),
            (" $2 ", "$2"),
            ("${step1.output}", "${step1.output}"),
            ("$step1", "$step1"),
            ("<GENERATED>-3", "<GENERATED>-3"),
            ("about ${find.findings}", "${find.findings}"),
        ] {
            assert_eq!(foreign_reference(text, 3), Some(reference), "{text}");
        }
        for text in [
            "costs $2",
            "$2000",
            "$4",
            "$19.99",
            "#E1E1E1",
            "${HOME}/x",
            "${x",
            "<b>bold</b>",
            "<input text>",
            "#Expensive",
            "a < b > c",
            "$",
            "${",
            "{{ steps.a.outputs }} for <node-0>",
        ] {
            assert_eq!(foreign_reference(text, 3), None, "{text}");
        }
    }
}
