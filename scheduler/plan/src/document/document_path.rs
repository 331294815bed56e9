//! Places in a document.

use std::borrow::Cow;
use std::fmt::Write;

use goalmill_common::text::{self, pointer_part};

/// A place in the document as it was given; its pointer is only spelled when something is wrong there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DocumentPath<'a> {
    /// A place found earlier.
    Pointer(&'a str),
    Key(&'a DocumentPath<'a>, &'a str),
    Item(&'a DocumentPath<'a>, usize),
}

impl<'a> DocumentPath<'a> {
    pub(crate) const ROOT: DocumentPath<'static> = DocumentPath::Pointer("");

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(crate) fn item(&'a self, index: usize) -> Self {
        Self::Item(self, index)
    }

    /// JSON Pointer (RFC 6901).
    pub(crate) fn pointer(&self) -> String {
        let mut pointer = String::with_capacity(24);
        self.spell(&mut pointer);
        pointer
    }

    fn spell(&self, pointer: &mut String) {
        match self {
            Self::Pointer(known) => pointer.push_str(known),
            Self::Key(parent, key) => {
                parent.spell(pointer);
                pointer.push('/');
                pointer.push_str(&pointer_part(key));
            }
            Self::Item(parent, index) => {
                parent.spell(pointer);
                write!(pointer, "/{index}").expect("writing to a string cannot fail");
            }
        }
    }
}

/// At most 64 characters of what somebody wrote.
pub fn shorten(text: &str) -> Cow<'_, str> {
    text::shorten(text, 64)
}
