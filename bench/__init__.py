"""Side-by-side measurements; nothing here is a test."""
