"""openapi.yaml as its users meet it: linted, compared with the one before, and called through generated clients."""
