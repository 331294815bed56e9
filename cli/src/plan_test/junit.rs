//! The report of tests in the XML of JUnit, which CI systems read.

use super::TestResult;

/// One test suite with all tests; their times are real ones.
pub fn report(results: &[TestResult]) -> String {
    let failures = results.iter().filter(|result| !result.passed).count();
    let seconds: f64 = results.iter().map(|result| result.elapsed.as_secs_f64()).sum();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"goalmill\" tests=\"{}\" \
         failures=\"{failures}\" errors=\"0\" time=\"{seconds:.3}\">\n",
        results.len(),
    );
    for result in results {
        let (file, name) = (escaped(&result.file), escaped(&result.name));
        let seconds = result.elapsed.as_secs_f64();
        let head = format!("<testcase classname=\"{file}\" name=\"{name}\" time=\"{seconds:.3}\"");
        if result.passed {
            xml.extend([head.as_str(), "/>\n"]);
        } else {
            let first = result.differences.first().map(String::as_str).unwrap_or_default();
            let all = escaped(&result.differences.join("\n"));
            let first = escaped(first);
            xml.extend([head.as_str(), ">\n<failure message=\"", &first, "\">", &all, "</failure>\n</testcase>\n"]);
        }
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

/// A text in XML; characters that XML 1.0 does not have become `?`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_is_escaped() {
        let result = |name: &str, differences: Vec<String>| TestResult {
            file: "a.yaml".into(),
            name: name.into(),
            passed: differences.is_empty(),
            differences,
            warnings: Vec::new(),
            outcome: None,
            elapsed: Duration::from_millis(1_500),
        };
        let xml = report(&[result("a <b>", Vec::new()), result("c", vec!["x & \"y\"\u{1}".into()])]);
        assert!(xml.contains("tests=\"2\" failures=\"1\" errors=\"0\" time=\"3.000\""), "{xml}");
        assert!(xml.contains("name=\"a &lt;b&gt;\" time=\"1.500\"/>"), "{xml}");
        assert!(xml.contains("<failure message=\"x &amp; &quot;y&quot;?\">x &amp; &quot;y&quot;?</failure>"), "{xml}");
    }
}
