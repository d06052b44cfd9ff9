"""The estimator: pure functions from facts about a run to its cost, its duration and what to mind."""

MODEL_VERSION = "1.0.0"
