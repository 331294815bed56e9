//! Static analysis of an expression: the steps and paths that it reads, and the values that it compares.

use crate::comparison::ComparedOperands;
use crate::scan::{self, SeenPath};
use crate::{ExpressionError, StepRef, is_plain};

/// What the text of an expression tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub refs: Vec<StepRef>,
    pub paths: Vec<SeenPath>,
    /// Names that it uses of those that it may use besides.
    pub locals: Vec<String>,
    pub comparisons: Vec<ComparedOperands>,
}

impl Facts {
    fn from_scan(scan: scan::Scan) -> Self {
        Self { refs: scan.refs, paths: scan.paths, locals: scan.used_locals, comparisons: scan.comparisons }
    }
}

/// Examines a text with `{{ … }}`; also checks that it is well formed.
///
/// - `names`: what it may use besides `goal`, `inputs` and `steps`, such as `item` in a map; `inputs`, where they are those
///   of a step.
pub fn examine(text: &str, names: &[&str]) -> Result<Facts, ExpressionError> {
    if is_plain(text) {
        return Ok(Facts::default());
    }
    crate::scan_seeing(text, names)?;
    scan::plan_template(text, names, true).map(Facts::from_scan)
}

/// Examines a bare expression, as `when` has it; also checks that it is well formed.
///
/// - `names`: as for [`examine`].
pub fn examine_condition(text: &str, names: &[&str]) -> Result<Facts, ExpressionError> {
    let text = crate::bare(text)?;
    crate::scan_bare(text, names)?;
    scan::plan_condition(text, names, true).map(Facts::from_scan)
}
