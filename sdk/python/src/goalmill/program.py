"""The program `goalmill`: where it is, and the command of a wheel that brings it."""
from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

#: The program of a wheel.
OWN = Path(__file__).parent / "bin" / "goalmill"


def find_program(program: str | None = None) -> str:
    """The given program, that of `GOALMILL_BINARY`, the one that came with the package, or the one on PATH."""
    found = program or os.environ.get("GOALMILL_BINARY") or (str(OWN) if OWN.exists() else shutil.which("goalmill"))
    if found is None:
        raise FileNotFoundError("the program `goalmill` is not on PATH: install it, or set GOALMILL_BINARY to its path")
    return found


def main() -> None:
    """The command `goalmill` of a wheel."""
    os.execv(OWN, [str(OWN), *sys.argv[1:]])


__all__ = ["find_program", "main"]
