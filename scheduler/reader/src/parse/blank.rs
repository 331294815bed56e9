//! Blanks and comments between the values.

use super::{ExpectedToken, Parser, Step, Stop};
use crate::edit::EditKind;
use crate::span::TextSpan;

impl Parser<'_> {
    /// Skips blanks and comments.
    pub(super) fn skip_blank(&mut self) -> Step {
        loop {
            while self.peek().is_some_and(|c| matches!(c, b' ' | b'\n' | b'\t' | b'\r')) {
                self.s.pos += 1;
            }
            let rest = &self.bytes[self.s.pos.min(self.bytes.len())..];
            match rest.first() {
                Some(b'#') => self.skip_line()?,
                Some(b'/') => match rest.get(1) {
                    None => return Err(Stop::End),
                    Some(b'/') => self.skip_line()?,
                    Some(b'*') => {
                        let at = self.s.pos;
                        let end = self.src[at..].find("*/").ok_or(Stop::End)? + at + 2;
                        self.s.pos = end;
                        self.comment(at, end);
                    }
                    Some(_) => return Ok(()),
                },
                // Other blanks that models write: no-break and full-width spaces, byte order marks.
                Some(0x0c) => self.odd_blank(1),
                Some(0xc2) if rest.starts_with("\u{a0}".as_bytes()) => self.odd_blank(2),
                Some(0xe3) if rest.starts_with("\u{3000}".as_bytes()) => self.odd_blank(3),
                Some(0xef) if rest.starts_with("\u{feff}".as_bytes()) => self.odd_blank(3),
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) -> Step {
        // `#E1` and `#/path` are references, not comments; they are words of their own.
        let at = self.s.pos;
        if self.bytes[at] == b'#' && !matches!(self.bytes.get(at + 1), None | Some(b' ' | b'\t' | b'#' | b'\n')) {
            let before = self.s.stack.last().map(|f| f.want);
            if before != Some(ExpectedToken::After) {
                return Err(Stop::Wrong(at));
            }
        }
        let end = self.src[at..].find('\n').ok_or(Stop::End)? + at;
        self.s.pos = end;
        self.comment(at, end);
        Ok(())
    }

    fn odd_blank(&mut self, len: usize) {
        let at = self.s.pos;
        self.s.pos += len;
        self.comment(at, at + len);
    }

    fn comment(&mut self, at: usize, end: usize) {
        self.s.edits.respelled(EditKind::CommentDropped, TextSpan::new(at, end), &self.src[at..end], "");
    }
}
