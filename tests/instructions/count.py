"""Counts instructions of a step with callgrind: see tests/instructions/run."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded.json"
# Plans, and steps of each.
SHAPES = [(2, 2000), (800, 5)]
DIFFERENCE_MAX = 0.02


def instructions(program: str, profile: str) -> int:
    """The sum of the program's own costs in a file of callgrind."""
    names, total, in_program, is_call = {}, 0, False, False
    for line in Path(profile).read_text().splitlines():
        if found := re.match(r"c?ob=\((\d+)\)(?: (.*))?$", line):
            names.setdefault(found[1], found[2])
            if line.startswith("ob="):
                in_program = names[found[1]] == program
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[-+*\d]", line):
            # The line after a call has the cost of the callee, which is counted there.
            if in_program and not is_call:
                total += int(line.split()[-1])
            is_call = False
    return total


def count(program: str, plans: int, steps: int) -> int:
    """Instructions of one step."""
    with tempfile.NamedTemporaryFile() as profile:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile.name}", program, str(plans), str(steps)]
        subprocess.run(command, check=True, capture_output=True)
        return round(instructions(program, profile.name) / (plans * steps))


def main() -> None:
    program = str(Path(sys.argv[1]).resolve())
    counts = {f"{plans} plans of {steps} steps": count(program, plans, steps) for plans, steps in SHAPES}
    if "--record" in sys.argv:
        RECORDED.write_text(json.dumps(counts, indent=2) + "\n")
    recorded, failed = json.loads(RECORDED.read_text()), 0
    for shape, instructions_now in counts.items():
        change = instructions_now / recorded[shape] - 1
        is_changed = abs(change) > DIFFERENCE_MAX
        failed += is_changed
        print(f"instructions of a step, {shape}: {instructions_now}, recorded {recorded[shape]} ({change:+.1%})")
        if is_changed:
            print("  run `bash tests/instructions/run --record` if that is meant, and say why in the commit")
    print(f"{len(counts) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
