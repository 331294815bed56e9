"""The limits of the installation: its schedulers write them into the field `limits` of `goalmill:meta`."""
from __future__ import annotations

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits that workers apply, under their names in the settings (`limits.calls_max`).

    The defaults are those of schedulers that write none.
    """

    calls_max: int = 200
    calls_bytes_max: int = 8 << 20
    inline_bytes_max: int = 256 << 10
    payload_bytes_max: int = 2 << 20
    nesting_max: int = 64

    @classmethod
    def read(cls, text: str | None) -> Limits:
        """The limits of the field; `ValueError` if it is no JSON object."""
        found = json.loads(text or "{}")
        if not isinstance(found, dict):
            raise ValueError("the limits of the installation are no object")
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in found.items() if name in known and isinstance(value, int)})
