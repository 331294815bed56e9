"""Writes a file of YAML documents as one JSON list to standard output."""

import json
import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as file:
    json.dump([document for document in yaml.safe_load_all(file) if document], sys.stdout)
