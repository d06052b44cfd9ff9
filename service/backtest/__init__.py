"""Predictions replayed against published runs and measured tables; misses stay in."""
