//! Agents that read and write texts: extracts, key terms, short documents, from the inputs only.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Worked, text};

/// Sentences of an extract.
const SENTENCES: usize = 3;
/// Stop words.
const COMMON: [&str; 40] = [
    "a", "about", "all", "an", "and", "are", "as", "at", "be", "but", "by", "can", "for", "from", "has", "have", "in",
    "into", "is", "it", "its", "more", "not", "of", "on", "or", "our", "such", "than", "that", "the", "their", "this",
    "to", "was", "we", "were", "which", "with", "you",
];

/// Extracts the most significant sentences and the key terms.
pub(super) fn research(inputs: &Value, _: u32) -> Worked {
    let topic = text(inputs, &["topic", "query", "question", "goal", "description"]).unwrap_or("the inputs");
    let source = gather(inputs);
    let findings = extract(&source, SENTENCES);
    Ok(json!({
        "topic": topic, "findings": findings, "key_terms": terms(&source, 5), "sources": ["inputs"],
        "summary": format!("{} findings on {topic}", findings.len()),
    }))
}

/// Writes a short document from the inputs: a heading, an extract, a line per input.
pub(super) fn write(inputs: &Value, _: u32) -> Worked {
    let title = text(inputs, &["title", "topic", "goal", "description"]).unwrap_or("Report");
    let mut document = format!("# {title}\n");
    for sentence in extract(&gather(inputs), SENTENCES) {
        document.push_str(&format!("\n{sentence}"));
    }
    document.push('\n');
    for (name, value) in inputs.as_object().into_iter().flatten() {
        document.push_str(&format!("\n- {name}: {}", one_line(value)));
    }
    let words = document.split_whitespace().count();
    Ok(json!({"text": document, "words": words, "summary": format!("{words} words on {title}")}))
}

/// Summarises the inputs except `task`, and lists the key terms missing from `report` or `result`.
pub(super) fn general(inputs: &Value, _: u32) -> Worked {
    let mut material = inputs.clone();
    if let Some(fields) = material.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "task" | "latency_ms"));
    }
    let source = gather(&material);
    let words = source.split_whitespace().count();
    let mut outputs = json!({
        "result": extract(&source, SENTENCES).join(" "), "words": words, "key_terms": terms(&source, 5),
        "summary": format!("read {words} words"),
    });
    if let Some(missing) = left_out(&mut material) {
        outputs["summary"] = format!("read {words} words, {} key terms are missing", missing.len()).into();
        outputs["missing"] = missing.into();
    }
    Ok(outputs)
}

/// Key terms of the other inputs that the first of `report` and `result` does not have.
fn left_out(material: &mut Value) -> Option<Vec<String>> {
    let fields = material.as_object_mut()?;
    let product = ["report", "result"].iter().find_map(|name| fields.remove(*name))?;
    let said = frequencies(&gather(&product));
    Some(terms(&gather(material), 10).into_iter().filter(|term| !said.contains_key(term)).collect())
}

/// Every text in a value, one sentence each.
fn gather(value: &Value) -> String {
    let mut all = String::new();
    collect(value, &mut all);
    all
}

fn collect(value: &Value, all: &mut String) {
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            all.push_str(text.trim());
            all.push_str(if text.trim_end().ends_with(['.', '!', '?']) { " " } else { ". " });
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, all)),
        Value::Object(fields) => fields.values().for_each(|item| collect(item, all)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The sentences with the most frequent words per word, in their own order.
///
/// Source: H. P. Luhn, "The Automatic Creation of Literature Abstracts", IBM Journal, 1958.
fn extract(source: &str, wanted: usize) -> Vec<String> {
    let counts = frequencies(source);
    let sentences: Vec<&str> = source.split_inclusive(['.', '!', '?']).map(str::trim).filter(|s| s.len() > 1).collect();
    let mut scored: Vec<(usize, f64)> = sentences
        .iter()
        .map(|sentence| {
            let words: Vec<String> = words(sentence).collect();
            let sum: u32 = words.iter().filter_map(|word| counts.get(word)).sum();
            f64::from(sum) / (words.len() as f64 + 1.0)
        })
        .enumerate()
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut chosen: Vec<usize> = scored.into_iter().take(wanted).map(|(at, _)| at).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|at| sentences[at].to_owned()).collect()
}

/// The most frequent words, the most frequent first.
fn terms(source: &str, wanted: usize) -> Vec<String> {
    let mut counts: Vec<(String, u32)> = frequencies(source).into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    counts.into_iter().take(wanted).map(|(word, _)| word).collect()
}

fn frequencies(source: &str) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for word in words(source) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

fn words(source: &str) -> impl Iterator<Item = String> {
    let split = source.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    split.filter(|word| word.len() > 1 && !COMMON.contains(&word.as_str()))
}

fn one_line(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORY: &str = "Redis keeps streams. Streams hold tasks. The weather is nice. Workers read streams of tasks.";

    #[test]
    fn an_extract_keeps_what_is_said_most_and_its_order() {
        assert_eq!(extract(STORY, 2), ["Streams hold tasks.", "Workers read streams of tasks."]);
        assert_eq!(terms(STORY, 2), ["streams", "tasks"]);
    }

    #[test]
    fn writing_names_every_input() {
        let written = write(&json!({"title": "T", "facts": {"a": 1}}), 1).expect("it writes");
        assert!(written["text"].as_str().is_some_and(|t| t.starts_with("# T\n") && t.contains("- facts: {\"a\":1}")));
    }

    #[test]
    fn a_report_is_compared_with_what_it_stands_on() {
        let inputs = json!({"task": "Check it", "report": "Streams hold tasks.", "findings": ["Streams shrink."]});
        let checked = general(&inputs, 1).expect("it reads");
        assert_eq!((&checked["words"], &checked["missing"]), (&json!(5), &json!(["shrink"])));
    }
}
