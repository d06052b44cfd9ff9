"""What the tests share: throw-away servers, a client that says little, requests that mean something."""
