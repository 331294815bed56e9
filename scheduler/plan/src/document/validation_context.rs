//! The context of every check: limits, rules, and the issues found so far.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};

use goalmill_common::limits::Limits;
use goalmill_common::problem::{ERRORS_MAX, Issue};

use super::{DocumentPath, issue};
use crate::validate::{Rules, Weight};

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
            self.list.push(issue("MORE_ISSUES", "", detail, "correct the ones above and try again"));
        }
        self.list
    }
}

/// What every check needs: the limits, and where to put what it finds.
pub(crate) struct ValidationContext<'l> {
    pub limits: &'l Limits,
    /// What is checked besides the form.
    pub rules: Option<&'l Rules<'l>>,
    errors: RefCell<Issues>,
    warnings: RefCell<Issues>,
    /// Texts of the schemas that were checked.
    schemas: RefCell<HashSet<String>>,
    /// Steps of all plans of the document.
    steps: Cell<usize>,
    /// Estimated bytes of the compiled schemas.
    schema_bytes: Cell<usize>,
    /// The plan that is read is a copy of a stored plan.
    is_stored: Cell<bool>,
    inputs_read: RefCell<InputsRead>,
}

/// The inputs that the expressions of a plan read.
#[derive(Debug, Default)]
pub(crate) struct InputsRead {
    /// The first place of each name.
    pub places: BTreeMap<String, String>,
    /// Names that are read with a `default`, or tested with `is defined`.
    pub optional: BTreeSet<String>,
}

/// Errors for which the nearest word is looked up.
const GUESSES_MAX: usize = 20;

impl<'l> ValidationContext<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        let (errors, warnings, schemas) = (RefCell::default(), RefCell::default(), RefCell::default());
        let (steps, schema_bytes, is_stored, inputs_read) = Default::default();
        Self { limits, rules: None, errors, warnings, schemas, steps, schema_bytes, is_stored, inputs_read }
    }

    pub(crate) fn with_rules(limits: &'l Limits, rules: &'l Rules<'l>) -> Self {
        Self { rules: Some(rules), ..Self::new(limits) }
    }

    /// What is asked of the steps that a planner writes. A stored plan is held to what submitted plans are held to.
    pub(crate) fn planner_rules(&self) -> Option<&'l Rules<'l>> {
        self.rules.filter(|_| !self.is_stored.get())
    }

    /// Notes that an expression reads an input of the plan.
    pub(crate) fn note_input(&self, name: &str, at: &DocumentPath<'_>, has_default: bool) {
        let mut read = self.inputs_read.borrow_mut();
        if has_default {
            read.optional.insert(name.to_owned());
        } else if !read.places.contains_key(name) {
            read.places.insert(name.to_owned(), at.pointer());
        }
    }

    /// The inputs that the expressions of the plan read that was read last.
    pub(crate) fn take_inputs_read(&self) -> InputsRead {
        self.inputs_read.take()
    }

    /// Reads a plan inside a plan.
    ///
    /// - `is_stored`: it is a copy of a stored plan.
    pub(crate) fn inside<T>(&self, is_stored: bool, read: impl FnOnce() -> T) -> T {
        let outer = self.is_stored.replace(is_stored || self.is_stored.get());
        let inner = read();
        self.is_stored.set(outer);
        inner
    }

    #[cfg_attr(test, track_caller)]
    pub(crate) fn error(&self, code: &str, at: &DocumentPath<'_>, detail: impl Into<String>, hint: impl Into<String>) {
        #[cfg(test)]
        see(std::panic::Location::caller());
        self.errors.borrow_mut().push(|| issue(code, &at.pointer(), detail, hint));
    }

    #[cfg_attr(test, track_caller)]
    pub(crate) fn warn(&self, code: &str, at: &DocumentPath<'_>, detail: impl Into<String>, hint: impl Into<String>) {
        #[cfg(test)]
        see(std::panic::Location::caller());
        self.warnings.borrow_mut().push(|| issue(code, &at.pointer(), detail, hint));
    }

    /// Notes an error, a warning or nothing.
    #[cfg_attr(test, track_caller)]
    pub(crate) fn weigh(
        &self,
        weight: Weight,
        code: &str,
        at: &DocumentPath<'_>,
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

    /// Counts steps of a plan of the document; returns those of all its plans.
    pub(crate) fn count_steps(&self, steps: usize) -> usize {
        self.steps.set(self.steps.get().saturating_add(steps));
        self.steps.get()
    }

    /// Whether the schemas so far are within their limit.
    pub(crate) fn has_room_for_schemas(&self) -> bool {
        self.schema_bytes.get() <= self.limits.schemas_bytes_max
    }

    /// Counts a compiled schema; `false` when all of them are over the limit.
    ///
    /// - `bytes`: estimated.
    pub(crate) fn count_schema(&self, bytes: usize) -> bool {
        self.schema_bytes.set(self.schema_bytes.get().saturating_add(bytes));
        self.has_room_for_schemas()
    }

    /// Takes out the warnings, or the errors when there are any.
    pub(crate) fn take_issues(&self) -> Result<Vec<Issue>, Vec<Issue>> {
        let (errors, warnings) = (self.errors.take(), self.warnings.take());
        if errors.count == 0 { Ok(warnings.into_list()) } else { Err(errors.into_list()) }
    }

    /// The warnings, or the errors when there are any.
    pub(crate) fn finish(self) -> Result<Vec<Issue>, Vec<Issue>> {
        self.take_issues()
    }
}

#[cfg(test)]
thread_local! {
    /// The places in the code that noted an issue: `step.rs:203`.
    static SEEN: RefCell<std::collections::BTreeSet<String>> = RefCell::default();
}

#[cfg(test)]
fn see(place: &std::panic::Location<'_>) {
    let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
    SEEN.with_borrow_mut(|seen| seen.insert(format!("{file}:{}", place.line())));
}

/// The places in the code that noted an issue in this thread.
#[cfg(test)]
pub(crate) fn seen_places<T>(look: impl FnOnce(&mut std::collections::BTreeSet<String>) -> T) -> T {
    SEEN.with_borrow_mut(look)
}
