"""Scenarios: named estimate requests, kept with the answer that was computed when they were saved."""
