//! The text that runs in place of a template.

use crate::rewrite;
use crate::tokens::Tokens;

/// The text that runs, as far as it is written.
pub(crate) struct RewrittenText<'t> {
    text: &'t str,
    rewritten: String,
    copied: usize,
}

impl<'t> RewrittenText<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, rewritten: String::new(), copied: 0 }
    }

    /// Rewrites the expression that begins at a token.
    ///
    /// - `inside`: where the text of the tokens begins.
    pub fn rewrite(&mut self, inside: usize, tokens: &Tokens<'_>, from: usize, is_condition: bool) -> Option<String> {
        let (first, last) = (tokens.places.get(from)?, tokens.places.last()?);
        let code = rewrite::rewrite(&self.text[inside..], tokens, from, is_condition)?;
        self.rewritten.push_str(&self.text[self.copied..inside + first.start]);
        self.rewritten.push_str(&code);
        self.copied = inside + last.end;
        Some(code)
    }

    pub fn end(mut self) -> Option<String> {
        if self.copied == 0 {
            return None;
        }
        self.rewritten.push_str(&self.text[self.copied..]);
        Some(self.rewritten)
    }
}
