"""A POST with an Idempotency-Key: the key as it is read, and the kept answer as it is sent."""

from typing import Any

from litestar import Request

from service.http.conditional import STORED_CACHE, caching, read_idempotency_key
from service.http.principal import project_of
from service.http.responses import JSON
from service.storage.idempotency import Answer, Once, fingerprint_of


async def read_once(request: Request[Any, Any, Any]) -> Once | None:
    """The request's key with a digest of all that is asked; None without a key."""
    key = read_idempotency_key(request)
    if key is None:
        return None
    scope = request.scope
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], await request.body())
    return Once(project_of(request), key, fingerprint_of(*parts))


def said(answer: Answer) -> JSON[Any]:
    """An answer as it is sent, the first time and every other."""
    headers = [(name.encode(), value.encode()) for name, value in answer.headers]
    return JSON(answer.body, answer.status, [*headers, *caching(STORED_CACHE)])
