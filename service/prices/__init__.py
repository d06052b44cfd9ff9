"""Price tables: named, dated, in immutable revisions; and the one rate that answers a question."""
