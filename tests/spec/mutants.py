#!/usr/bin/env python3
"""Breaks the engine, one law after the other, and expects that the specification finds each.

    python3 tests/spec/mutants.py [WORD]    only the mutants whose names contain WORD

Each mutant changes a text of scheduler/engine/src, builds, and compares up to PLANS random plans, until one differs. The file is restored afterwards;
one with uncommitted changes is refused. A text that the engine no longer has is a mutant that was not found.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINE = ROOT / "scheduler/engine/src"
PLANS = 30_000
# The comparison takes longer than the optimisation of the build.
OPTIMISED = {**os.environ, "CARGO_PROFILE_DEV_OPT_LEVEL": "1"}

# Law, file, text, and what stands in its place.
MUTANTS = [
    ("1.1 what failed inside is partial", "sub_plan/notices.rs", "let partial = status == PlanStatus::Partial;", "let partial = status == PlanStatus::Rejected;"),
    ("3.2 changes read the definition", "graph/running_plan.rs", "        &self.definition.steps[i]\n", "        self.as_expanded(i).unwrap_or(&self.definition.steps[i])\n"),
    ("3.2 a fork keeps nothing that was undone", "revise/fork.rs", "was_undone(now, *i)", "was_undone(now, *i) & false"),
    ("4.1 nothing cuts a clean-up off", "progress.rs", "return advance_cleanup(turn);\n        }\n        if let Some(i)",
     "return if exceeded::exceeded_failures(turn).is_some() { plan_end::finish_cleanup(turn, \"\") } else { advance_cleanup(turn) };\n        }\n        if let Some(i)"),
    ("4.2 plans inside end first", "cleanup/cleanup_state.rs", "self.stopping > 0", "self.stopping > 1_000"),
    ("4.3 unknown outcomes are undone", "cleanup/done_work.rs", "work.settle(failure.may_be_done());", "work.settle(false & failure.may_be_done());"),
    ("4.3 a changed step is other work", "attempt/step_state.rs", "u32::from(is_other_work)", "u32::from(is_other_work & false)"),
    ("4.4 the last one first", "cleanup/mod.rs", "done.sort_by(|a, b| b.cmp(a));\n    done.into_iter().map(|(_, _, i)| i).collect()",
     "done.sort();\n    done.into_iter().map(|(_, _, i)| i).collect()"),
    ("4.4 completed plans inside", "cleanup/mod.rs", "if !is_done || state.parent().is_none()", "if is_done || state.parent().is_none()"),
    ("4.5 outputs of what is undone", "cleanup/done_work.rs", "Some(GivenOutputs::Unknown) => None,", "Some(GivenOutputs::Unknown | GivenOutputs::OfStep) => None,"),
    ("4.5 inputs that were sent", "render/mod.rs", "if step.ended() > sent.seq {", "if step.ended() > u64::MAX - 1 {"),
    ("4.3 what the cache gave is not undone", "cleanup/done_work.rs", "if completed.cache_key.is_none() {", "if completed.cache_key.is_none() | true {"),
    ("4.4 kept plans are undone with the plan around them", "sub_plan/orders.rs", "KeptFate::Undone(outcome));",
     "if outcome.cancelled.is_empty() { KeptFate::Released } else { KeptFate::Undone(outcome) });"),
    ("5.1 one event, one wait", "apply/plan.rs", "state.events.get_or_insert_default().take_inside(&taken.id)", "drop(taken.id.len())"),
    ("6.2 places", "budget/places.rs", "width < u32::MAX && taken_inside", "width == 0 && taken_inside"),
    ("6.2 resources", "budget/places.rs", "    is_free\n}", "    is_free | true\n}"),
    ("6.4 losses", "attempt/step_state.rs", "self.lost = losses;", "self.lost = losses & 0;"),
    ("8.3 the condition of an item", "render/mod.rs", "if !runs {\n            // Nothing", "if !runs & (limits.items_max == 0) {\n            // Nothing"),
]


def is_found(file, text, change):
    """Whether the specification finds a difference, or the build of the mutant does."""
    path = ENGINE / file
    before = path.read_text()
    if text not in before:
        print(f"  {path.relative_to(ROOT)} has no such text")
        return False
    try:
        path.write_text(before.replace(text, change, 1))
        command = ["cargo", "run", "--locked", "-q", "-p", "goalmill-spec", "--example", "seeds", "--", "find", "0", str(PLANS)]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=OPTIMISED)
    finally:
        path.write_text(before)
    if run.returncode:
        error = re.search(r"^error.*|panicked at.*\n.*", run.stderr, re.MULTILINE)
        print(f"  {error[0] if error else run.stderr[-200:]}")
        return error is not None and "panicked" in error[0]
    print(f"  {run.stdout.strip()}")
    return run.stdout.startswith("seed ")


def main():
    changed = subprocess.run(["git", "status", "--porcelain", "--", str(ENGINE)], cwd=ROOT, capture_output=True, text=True)
    if changed.stdout:
        sys.exit(f"commit or stash these changes first:\n{changed.stdout}")
    wanted = [mutant for mutant in MUTANTS if len(sys.argv) < 2 or sys.argv[1] in mutant[0]]
    missed = []
    for law, *mutant in wanted:
        print(law, flush=True)
        if not is_found(*mutant):
            missed.append(law)
    print(f"{len(wanted) - len(missed)} passed, {len(missed)} failed" + "".join(f"\n  not found: {law}" for law in missed))
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
