//! The laws whose situations a run can meet.

/// A situation for which a law says what must happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// 1.1: a tolerated failure of an item or of a step inside gives `partial`.
    InnerFailureIsPartial,
    /// 4.1: a used-up budget ends the plan through its clean-up.
    BudgetThroughCleanup,
    /// 4.1: `failures_max` ends the plan through its clean-up.
    FailuresThroughCleanup,
    /// 4.2: a plan inside goes through its clean-up before the plan around it goes on with its own.
    InsideFirst,
    /// 4.3: a step is undone whose attempt has an unknown outcome, whatever the next attempts said.
    UnknownThenAnswered,
    /// 4.3: what the first agent or action may have done is undone, beside what the fallback did.
    UnknownThenFallback,
    /// 4.3: a step is undone whose attempt ended with a cut connection or a 5xx.
    CutConnection,
    /// 4.3: a step is undone whose answer was refused.
    RefusedAnswer,
    /// 4.3: a step is undone that was skipped by its policy after an unknown outcome.
    SkippedAfterUnknown,
    /// 4.3: an item is undone whose outcome is unknown.
    UnknownItem,
    /// 4.3: a step is not undone whose every attempt was answered by its agent with a failure.
    AnsweredThenCancelled,
    /// 4.4: a loop is undone once per completed iteration, the last one first.
    LoopPerIteration,
    /// 4.4: steps that were sent in one millisecond are undone in the reverse order of the log.
    OneMillisecond,
    /// 4.4: the first attempt of a step gives its place in the order, not the last one.
    FirstAttempt,
    /// 4.4: a completed plan inside is undone at the place of its step.
    CompletedInside,
    /// 5.1: one event completes one wait, also of iterations, items and plans inside.
    OneEventOneWait,
    /// 6.2: the limit of a plan holds for everything inside it, and a step that holds a plan takes no place.
    PlacesInside,
    /// 8.3: the condition of an item is evaluated before its inputs.
    GuardOfItem,
}
