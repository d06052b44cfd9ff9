"""Estimates: a request with names becomes facts, the facts an estimate."""
