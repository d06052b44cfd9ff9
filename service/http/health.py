"""Operations: is it alive, is it ready, which release is it. No key, no limit, no secrets."""

from collections.abc import Awaitable, Callable
from typing import Literal

from litestar import Router, get
from msgspec import Struct

from service.errors import Unavailable
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.principal import PUBLIC
from service.http.responses import JSON

Probe = Callable[[], Awaitable[None]]
_NO_STORE = ((b"cache-control", b"no-store"),)


class Health(Struct, frozen=True):
    """The service answers."""

    status: Literal["ok"]


class Version(Struct, frozen=True):
    """Which release serves, and which model computes."""

    version: str
    model_version: str


def health_router(probe: Probe, version: str, model_version: str) -> Router:
    """The operational routes. `probe` raises where the database cannot serve this release."""
    versions = encoded(Version(version, model_version))

    @get("/health/live", operation_id="getLiveness", opt=About().as_opt(), sync_to_thread=False)
    def get_liveness() -> JSON[Health]:
        """Is the process alive.

        Asks nothing of the database.
        """
        return JSON(encoded(Health("ok")), headers=_NO_STORE)

    @get("/health/ready", operation_id="getReadiness", opt=About(database=True).as_opt())
    async def get_readiness() -> JSON[Health]:
        """Can it serve requests.

        The database answers, and is at the revision of this release; 503 otherwise.
        """
        try:
            await probe()
        except Exception as error:
            raise Unavailable("The database does not answer, or is not at this release's revision.") from error
        return JSON(encoded(Health("ok")), headers=_NO_STORE)

    @get("/version", operation_id="getVersion", opt=About().as_opt(), sync_to_thread=False)
    def get_version() -> JSON[Version]:
        """Which release and which model."""
        return JSON(versions, headers=_NO_STORE)

    return Router(
        "/", route_handlers=[get_liveness, get_readiness, get_version], opt={"scope": PUBLIC}, tags=["Operations"]
    )
