"""Durable agents and plans in Python, run by Goalmill."""
from .agent import Agent, serve
from .context import AsyncContext, Budget, Context, Decision, Outcome, PlanOutcome
from .errors import (ApiError, ConstraintViolation, Failure, Fatal, Partial, PlanFailed, Retry, RunFailed, Stopped, Suspended,
                     Undecided)
from .worker import Worker

__all__ = ["Agent", "ApiError", "AsyncContext", "Budget", "ConstraintViolation", "Context", "Decision", "Failure", "Fatal", "Outcome",
           "Partial", "PlanFailed", "PlanOutcome", "Retry", "RunFailed", "Stopped", "Suspended", "Undecided", "Worker", "serve"]
