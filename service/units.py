"""Sizes of units, so that no formula holds a bare number."""

HOURS_PER_DAY = 24
PERCENT = 100
