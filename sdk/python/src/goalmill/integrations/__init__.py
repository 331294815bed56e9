"""Adapters for agent frameworks: their model and tool calls become durable calls."""
from __future__ import annotations

from typing import Any

_VOLATILE = {"id", "timestamp", "run_id", "conversation_id", "created", "created_at", "metadata", "response_id", "request_id"}


def stable(value: Any) -> Any:
    """JSON without what differs in each attempt: times and random ids. What is left identifies a call."""
    if isinstance(value, dict):
        return {name: stable(item) for name, item in value.items() if name not in _VOLATILE}
    return [stable(item) for item in value] if isinstance(value, list) else value
