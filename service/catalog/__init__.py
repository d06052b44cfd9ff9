"""The catalogue: what hardware and models there are, each figure with its source; files, no database."""
