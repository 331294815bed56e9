//! Source lines of issues: the line of a JSON Pointer in a file.

use std::fmt;

use goalmill_common::problem::Issue;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The error of a successful search: the parser gives its location.
const HERE: &str = "this is the place";
/// Characters shown of a line.
const CHARS_MAX: usize = 100;
/// Lines shown at most.
const PLACES_MAX: usize = 10;

/// The lines of issues, such as `plan.yaml:14:  dependencies: [ghost]`, each once.
pub fn excerpts(file: &str, text: &str, issues: &[Issue]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for issue in issues {
        let Some(line) = line_of(text, &issue.pointer) else { continue };
        let written = text.lines().nth(line - 1).unwrap_or_default().trim_end();
        let excerpt = format!("{file}:{line}: {}", written.chars().take(CHARS_MAX).collect::<String>());
        if !shown.contains(&excerpt) {
            shown.push(excerpt);
        }
        if shown.len() == PLACES_MAX {
            break;
        }
    }
    shown
}

/// The line, counted from 1, of a pointer in a YAML or JSON text, or of its nearest parent.
fn line_of(text: &str, pointer: &str) -> Option<usize> {
    let path: Vec<String> = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let error = Find { path: &path }.deserialize(serde_yaml_ng::Deserializer::from_str(text)).err()?;
    let location = error.location().filter(|_| error.to_string().contains(HERE))?;
    (!path.is_empty()).then(|| location.line())
}

/// Descends a path and fails at its end.
struct Find<'p> {
    path: &'p [String],
}

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HERE)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Err(A::Error::custom(HERE)) };
        while let Some(key) = map.next_key::<String>()? {
            if key == *first {
                return map.next_value_seed(Find { path: rest });
            }
            map.next_value::<IgnoredAny>()?;
        }
        Err(A::Error::custom(HERE))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Err(A::Error::custom(HERE)) };
        for _ in 0..first.parse::<usize>().unwrap_or(usize::MAX) {
            if items.next_element::<IgnoredAny>()?.is_none() {
                return Err(A::Error::custom(HERE));
            }
        }
        items.next_element_seed(Find { path: rest })?.ok_or_else(|| A::Error::custom(HERE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "name: x\nsteps:\n- id: a\n  agent_type: echo\n- id: b\n  agent_type: echo\n  dependencies:\n  - a\n  - ghost\n";

    #[test]
    fn a_pointer_leads_to_its_line() {
        for (pointer, line) in [
            ("/steps/1/dependencies/1", 9),
            ("/steps/1/id", 5),
            ("/steps/0", 3),
            ("/name", 1),
            ("/steps/1/inputs/x", 5),
        ] {
            assert_eq!(line_of(PLAN, pointer), Some(line), "{pointer}");
        }
        assert_eq!(line_of("{\"steps\": [\n {\"id\": \"a\"},\n {\"id\": 1}]}", "/steps/1/id"), Some(3));
        assert_eq!(line_of(PLAN, ""), None);
        assert_eq!(line_of("a: [", "/a/0"), None);
    }

    #[test]
    fn an_excerpt_shows_the_line_once() {
        let issue = |pointer: &str| Issue {
            code: "X".into(),
            pointer: pointer.into(),
            detail: String::new(),
            hint: String::new(),
        };
        let shown = excerpts("plan.yaml", PLAN, &[issue("/steps/1/dependencies/1"), issue("/steps/1/dependencies/1")]);
        assert_eq!(shown, ["plan.yaml:9:   - ghost"]);
    }
}
