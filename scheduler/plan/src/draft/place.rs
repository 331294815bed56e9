//! Places in a document, and what is wrong there.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write;

use goalmill_common::limits::Limits;
use goalmill_common::problem::{ERRORS_MAX, Issue};
use goalmill_common::text::{self, pointer_part};

use super::issue;
use crate::validate::{Rules, Weight};

/// A place in the document as it was given; its pointer is only spelled when something is wrong there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'a> {
    /// A place found earlier.
    Pointer(&'a str),
    Key(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    pub(crate) const ROOT: At<'static> = At::Pointer("");

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
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    text::shorten(text, 64)
}

/// What is wrong in a document: the first issues, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    list: Vec<Issue>,
    count: usize,
}

impl Issues {
    fn push(&mut self, issue: impl FnOnce() -> Issue) {
        self.count += 1;
        if self.list.len() < ERRORS_MAX {
            self.list.push(issue());
        }
    }

    fn into_list(mut self) -> Vec<Issue> {
        if self.count > self.list.len() {
            self.list.truncate(ERRORS_MAX - 1);
            let more = self.count - self.list.len();
            let detail = format!("{more} more issues of {}", self.count);
            self.list.push(issue("MORE_ISSUES", "", detail, "hint the ones above and try again"));
        }
        self.list
    }
}

/// What every check needs: the limits, and where to put what it finds.
pub(crate) struct Cx<'l> {
    pub limits: &'l Limits,
    /// What is checked besides the form.
    pub rules: Option<&'l Rules<'l>>,
    errors: RefCell<Issues>,
    warnings: RefCell<Issues>,
    /// Texts of the schemas that were checked.
    schemas: RefCell<HashSet<String>>,
}

/// Errors for which the nearest word is looked up.
const GUESSES_MAX: usize = 20;

impl<'l> Cx<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        let (errors, warnings, schemas) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { limits, rules: None, errors, warnings, schemas }
    }

    pub(crate) fn with_rules(limits: &'l Limits, rules: &'l Rules<'l>) -> Self {
        Self { rules: Some(rules), ..Self::new(limits) }
    }

    pub(crate) fn error(&self, code: &str, at: &At<'_>, detail: impl Into<String>, hint: impl Into<String>) {
        self.errors.borrow_mut().push(|| issue(code, &at.pointer(), detail, hint));
    }

    pub(crate) fn warn(&self, code: &str, at: &At<'_>, detail: impl Into<String>, hint: impl Into<String>) {
        self.warnings.borrow_mut().push(|| issue(code, &at.pointer(), detail, hint));
    }

    /// Notes an error, a warning or nothing.
    pub(crate) fn weigh(
        &self,
        weight: Weight,
        code: &str,
        at: &At<'_>,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) {
        match weight {
            Weight::Ignore => {}
            Weight::Warning => self.warn(code, at, detail, hint),
            Weight::Error => self.error(code, at, detail, hint),
        }
    }

    /// How many errors there are so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors.borrow().count
    }

    /// Whether to look for what was probably meant: dear in a large plan, so only for the first errors.
    pub(crate) fn may_guess(&self) -> bool {
        self.errors() < GUESSES_MAX
    }

    /// Says whether a schema was not seen before, so that many steps may share one.
    pub(crate) fn is_new_schema(&self, text: &str) -> bool {
        self.schemas.borrow_mut().insert(text.to_owned())
    }

    /// Takes out the warnings, or the errors when there are any.
    pub(crate) fn take(&self) -> Result<Vec<Issue>, Vec<Issue>> {
        let (errors, warnings) = (self.errors.take(), self.warnings.take());
        if errors.count == 0 { Ok(warnings.into_list()) } else { Err(errors.into_list()) }
    }

    /// The warnings, or the errors when there are any.
    pub(crate) fn finish(self) -> Result<Vec<Issue>, Vec<Issue>> {
        self.take()
    }
}
