#!/usr/bin/env python3
"""Puts the schema of the settings (docs/schemas/settings.json) into the schema of the chart's values.

    python3 deploy/helm/generate.py            writes goalmill/values.schema.json
    python3 deploy/helm/generate.py --check    fails when it differs
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = HERE.parents[1] / "docs/schemas/settings.json"
VALUES = HERE / "goalmill/values.schema.json"
# Definitions from the settings.
PREFIX = "settings."
# What names an environment variable, or an address, must not hold the key itself.
PATTERNS = {
    "api_key_env": "^([A-Z_][A-Z0-9_]{0,63})?$",
    "base_url": "^https?://[^@?]+$",
    "callback_url": "^(https?://[^\\s@]+)?$",
}
VARIABLE = "^([A-Za-z_][A-Za-z0-9_]*)?$"


def moved(schema):
    """A part of the settings' schema, for its new place. Defaults are those of the program, not of the chart."""
    if not isinstance(schema, dict):
        return schema
    found = {}
    for word, value in schema.items():
        if word == "$ref":
            value = value.replace("#/$defs/", f"#/$defs/{PREFIX}")
        elif word == "properties":
            value = {name: named(name, moved(setting)) for name, setting in value.items()}
        elif word in ("oneOf", "anyOf", "allOf"):
            value = [moved(part) for part in value]
        elif word in ("items", "additionalProperties"):
            value = moved(value)
        if word != "default":
            found[word] = value
    return found


def named(name, setting):
    """A setting, with what the program checks besides its schema."""
    pattern = PATTERNS.get(name, VARIABLE if name.endswith("_env") else None)
    return setting | {"pattern": pattern} if pattern and setting.get("type") == "string" else setting


def values():
    schema, settings = json.loads(VALUES.read_text()), json.loads(SETTINGS.read_text())
    kept = {name: value for name, value in schema["$defs"].items() if not name.startswith(PREFIX)}
    own = {name: value for name, value in settings.items() if name not in ("$schema", "$defs", "title")}
    parts = {"all": own, **settings["$defs"]}
    schema["$defs"] = kept | {PREFIX + name: moved(part) for name, part in parts.items()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if "--check" in sys.argv:
    sys.exit(f"{VALUES} lacks changes of {SETTINGS}: run deploy/helm/generate.py" if VALUES.read_text() != values() else 0)
VALUES.write_text(values())
