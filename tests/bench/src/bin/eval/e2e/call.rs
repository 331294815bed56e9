//! Reads function calls in Python's spelling: `["email.send_email.func(recipient=\"ann@example.com\")"]`.

use anyhow::{Result, bail, ensure};

/// One call: the tool and what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `email.send_email`
    pub tool: String,
    /// Arguments without a name, in order.
    pub positional: Vec<String>,
    pub named: Vec<(String, String)>,
}

/// Reads a list of calls, each in a text of its own.
pub fn read_list(text: &str) -> Result<Vec<Call>> {
    let mut cursor = Cursor::new(text);
    let mut calls = Vec::new();
    cursor.expect('[')?;
    while !cursor.accept(']') {
        calls.push(read_call(&cursor.text()?)?);
        if !cursor.accept(',') {
            cursor.expect(']')?;
            break;
        }
    }
    cursor.end()?;
    Ok(calls)
}

/// Reads one call; `.func` at the end of its name is how LangChain reaches the function in a tool.
pub fn read_call(text: &str) -> Result<Call> {
    let mut cursor = Cursor::new(text);
    let name = cursor.name();
    ensure!(!name.is_empty(), "`{text}` does not begin with the name of a function");
    let tool = name.strip_suffix(".func").unwrap_or(&name).to_owned();
    let mut call = Call { tool, positional: Vec::new(), named: Vec::new() };
    cursor.expect('(')?;
    while !cursor.accept(')') {
        let before = cursor.rest;
        let name = cursor.name();
        if !name.is_empty() && cursor.accept('=') {
            call.named.push((name, cursor.value()?));
        } else {
            cursor.rest = before;
            ensure!(call.named.is_empty(), "in `{text}` an argument without a name follows one with a name");
            call.positional.push(cursor.value()?);
        }
        if !cursor.accept(',') {
            cursor.expect(')')?;
            break;
        }
    }
    cursor.end()?;
    Ok(call)
}

struct Cursor<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self { whole: text, rest: text }
    }

    fn at(&self) -> usize {
        self.whole.len() - self.rest.len()
    }

    fn accept(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        ensure!(self.accept(wanted), "`{wanted}` is missing at byte {} of `{}`", self.at(), self.whole);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        ensure!(self.rest.trim().is_empty(), "something follows at byte {} of `{}`", self.at(), self.whole);
        Ok(())
    }

    fn name(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "_.".contains(c))).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        name.to_owned()
    }

    /// A text, or a bare word or number as it stands; `None` is empty.
    fn value(&mut self) -> Result<String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(['"', '\'']) {
            return self.text();
        }
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "_.+-".contains(c))).unwrap_or(self.rest.len());
        ensure!(end > 0, "a value is missing at byte {} of `{}`", self.at(), self.whole);
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(if word == "None" { String::new() } else { word.to_owned() })
    }

    /// A quoted text with Python's escapes.
    fn text(&mut self) -> Result<String> {
        self.rest = self.rest.trim_start();
        let place = self.at();
        let mut chars = self.rest.chars();
        let quote = chars.next().filter(|c| matches!(c, '"' | '\''));
        let Some(quote) = quote else { bail!("a text is missing at byte {place} of `{}`", self.whole) };
        let mut text = String::new();
        loop {
            match chars.next() {
                None => bail!("the text at byte {place} of `{}` is never closed", self.whole),
                Some(c) if c == quote => break,
                Some('\\') => match chars.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(c @ ('\\' | '\'' | '"')) => text.push(c),
                    Some(c @ ('x' | 'u' | 'U')) => {
                        let digits = match c {
                            'x' => 2,
                            'u' => 4,
                            _ => 8,
                        };
                        let hex: String = chars.by_ref().take(digits).collect();
                        let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                        let Some(code) = code else { bail!("`\\{c}{hex}` in `{}` is no character", self.whole) };
                        text.push(code);
                    }
                    // Python keeps the backslash of an escape that it does not know.
                    other => {
                        text.push('\\');
                        text.extend(other);
                    }
                },
                Some(c) => text.push(c),
            }
        }
        self.rest = chars.as_str();
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_calls_is_read_with_both_kinds_of_quotes_and_escapes() {
        let text = r#"['mail.send.func(to="ann", body="It\'s \\n done")', "mail.drop('7', hard=True)"]"#;
        let calls = read_list(text).unwrap();
        assert_eq!(calls[0].tool, "mail.send");
        assert_eq!(calls[0].named[1], ("body".into(), "It's \n done".into()));
        assert_eq!(calls[1].positional, ["7"]);
        assert_eq!(calls[1].named, [("hard".into(), "True".into())]);
        assert!(read_list("[]").unwrap().is_empty());
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for text in ["['a.b(x=1)'", "['a.b(x=1']", "['a.b(x=)']", "['a.b']", "['a.b(c=1) more']", "nothing"] {
            assert!(read_list(text).is_err(), "{text}");
        }
    }
}
