"""The command `traincost`: serve, migrate, openapi, estimate, prices, projects, keys."""

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from service import __version__
from service.errors import StartupError, TraincostError
from service.estimator import inputs
from service.settings import PREFIX, Settings, load_settings

_KEY_HEADER = '-H "Authorization: Bearer $KEY" '
_EXAMPLE = (
    "curl -s -X POST {base}/v1/estimates {key}-H 'Content-Type: application/json' "
    """-d '{{"cluster": {{"gpu_count": 128}}}}'"""
)

_BACKLOG = 2048
_GRACE_SECONDS = 8  # for requests under way when it is told to stop; Docker kills after ten


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="traincost")
def main() -> None:
    """What a training run will cost all in, when it will end, and how sure we are.

    Settings come from TRAINCOST_* in the environment; docs/operations.md lists them.
    """


@main.command()
@click.option("--migrate", "migrate_first", is_flag=True, help="Bring the database up to date before serving.")
@click.option("--host", help="Address to listen on, instead of TRAINCOST_HOST.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on, instead of TRAINCOST_PORT.")
def serve(migrate_first: bool, host: str | None, port: int | None) -> None:
    """Serve the API."""
    _or_one_line(lambda: _serve(migrate_first, host, port))


@main.command()
@click.argument("revision", default="head")
def migrate(revision: str) -> None:
    """Bring the database to the newest REVISION, or the one given."""

    def run() -> None:
        from service.storage.schema import migrate as migrate_database

        reached = asyncio.run(migrate_database(load_settings().database_url, revision))
        click.echo(f"The database is at revision {reached}.")

    _or_one_line(run)


@main.command()
@click.option("--output", type=click.Path(dir_okay=False, writable=True), help="A file, instead of standard output.")
def openapi(output: str | None) -> None:
    """Write the OpenAPI document as YAML."""

    def run() -> None:
        from service.app import create_document
        from service.http.openapi import as_yaml

        document = as_yaml(create_document())
        if output is None:
            sys.stdout.buffer.write(document)
            return
        _write(output, document)

    _or_one_line(run)


def _field(name: str, text: str, default: object) -> Callable[[Any], Any]:
    """An option for one of the seven fields; what is not given stays not given, and the answer says so."""
    return click.option(f"--{name}", help=f"{text}  [default: {default}]")


@main.command()
@_field("gpu-count", "Number of GPUs.", inputs.DEFAULT_GPU_COUNT)
@_field("ideal-gpu-hours", "Ideal hours on each GPU.", inputs.DEFAULT_IDEAL_HOURS)
@_field("gpu-cost-per-hour", "Price of one GPU-hour in USD.", inputs.DEFAULT_PRICE_PER_GPU_HOUR)
@_field("scaling-efficiency-percent", "Scaling efficiency, 1 to 100.", inputs.DEFAULT_EFFICIENCY_PERCENT)
@_field("failed-run-rework-percent", "Compute paid again after failures.", inputs.DEFAULT_REWORK_PERCENT)
@_field("storage-cost", "Storage for the run.", inputs.DEFAULT_STORAGE)
@_field("egress-cost", "Data egress for the run.", inputs.DEFAULT_EGRESS)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def estimate(form: str, **fields: str | None) -> None:
    """Estimate a run by the seven classic fields. No server is needed."""

    def run() -> None:
        from service.estimates.cli import classic_answer, classic_table

        try:
            answer, encoded = classic_answer({name: text for name, text in fields.items() if text is not None})
        except TraincostError as error:
            lines = [f"--{fault.pointer.replace('_', '-')}: {fault.message}" for fault in error.faults]
            raise StartupError("; ".join(lines) or error.detail) from None
        click.echo(encoded.decode() if form == "json" else classic_table(answer))

    _or_one_line(run)


@main.group()
def prices() -> None:
    """Price tables: files into them, and out of them."""


def _text(name: str, text: str) -> Callable[[Any], Any]:
    """An option of an import as a text; its schema says what it may be."""
    return click.option(f"--{name}", help=text)


@prices.command("import")
@click.argument("file")
@_text("table", "The table whose next revision the file becomes.")
@_text("project", "The project that has the table.  [default: default]")
@click.option("--create", is_flag=True, help="Make the table, in --currency, if there is none of this name.")
@click.option("--dry-run", is_flag=True, help="Only read the file and report; nothing is stored.")
@_text("format", "auto, own_csv, skypilot_csv, rental_json or flat.  [default: auto]")
@_text("mapping", "For a flat table: a JSON file that says which column is which field; see docs/imports.md.")
@_text("on-error", "What a rejected row does: reject the file, or skip the row.  [default: reject]")
@_text("provider", "Who rents out, where the file does not say.")
@_text("source", "Where the file is from.")
@_text("currency", "Of a new table, or of a dry run without a table.  [default: USD]")
@_text("confidence", "high, medium or low, where the file does not say.  [default: medium]")
@_text("seen-on", "The day on which the prices were read, where the file does not say.")
@_text("valid-from", "First day of every rate, where the file does not say.")
@_text("valid-to", "The day every rate ends, where the file does not say.")
@click.option("--free-is-real", is_flag=True, help="An accelerator at 0 is free, and not of unknown price.")
@_text("encoding", "auto, utf-8, utf-16 or windows-1252.  [default: auto]")
@_text("delimiter", "auto, comma, semicolon, tab or pipe.  [default: auto]")
@_text("decimal-mark", "auto, point or comma.  [default: auto]")
@_text("author", "Who answers for the revision.")
@_text("note", "Why it is made.")
@_text("licence", "Under which terms the file may be used.")
@_text("as-of", "The day for which the prices were read.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as JSON.")
def import_prices(file: str, mapping: str | None, as_json: bool, **given: Any) -> None:
    """Read a price FILE into a table, all of it or nothing; the report says what became of every row."""

    def run() -> None:
        from service.http.encoding import encoded
        from service.prices.cli import answer_text, read_import, run_import

        asked = read_import(file, mapping, given)
        with _bar(len(asked.data)) as told:
            answer = asyncio.run(run_import(load_settings().database_url, asked, told))
        click.echo(encoded(answer).decode() if as_json else answer_text(answer))
        if answer.report.refused:
            raise SystemExit(1)

    _or_one_line(run)


@prices.command("export")
@click.option("--table", required=True, help="The table to write.")
@click.option("--project", default="default", show_default=True, help="The project that has the table.")
@click.option("--revision", type=click.IntRange(1), help="One of its revisions, instead of the newest.")
@click.option("--output", type=click.Path(dir_okay=False, writable=True), help="A file, instead of standard output.")
def export_prices(table: str, project: str, revision: int | None, output: str | None) -> None:
    """Write a table as CSV, which an import reads back exactly."""

    def run() -> None:
        from service.prices.cli import run_export

        blocks: list[bytes] = []
        asyncio.run(run_export(load_settings().database_url, project, table, revision, blocks.append))
        if output is None:
            sys.stdout.buffer.writelines(blocks)
        else:
            _write(output, b"".join(blocks))

    _or_one_line(run)


@main.group()
def projects() -> None:
    """Projects: what belongs together, and is not there for the others."""


@projects.command("create")
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
def create_project(name: str, description: str) -> None:
    """Make a project of this NAME. It has no key yet."""

    def run() -> None:
        from service.access import cli as access

        made = asyncio.run(access.create_project(load_settings().database_url, name, description))
        click.echo(f"Made project {made.name}; its first key: traincost keys create --project '{made.name}'.")

    _or_one_line(run)


@projects.command("list")
def list_projects() -> None:
    """List the projects."""

    def run() -> None:
        from service.access import cli as access

        click.echo(access.projects_table(asyncio.run(access.list_projects(load_settings().database_url))))

    _or_one_line(run)


@main.group()
def keys() -> None:
    """API keys: made, listed, revoked."""


_PROJECT_OPTION = click.option("--project", default="default", show_default=True, help="The project it belongs to.")


@keys.command("create")
@_PROJECT_OPTION
@click.option("--name", default="first key", show_default=True, help="Who uses it, or what for.")
@click.option("--scope", "scopes", multiple=True, help="What it may do; may be given again.  [default: everything]")
@click.option("--days", type=click.IntRange(1, 36_500), help="After so many days it ends.  [default: never]")
def create_key(project: str, name: str, scopes: tuple[str, ...], days: int | None) -> None:
    """Make a key. It alone is printed on standard output, this once: only a digest of it is stored."""

    def run() -> None:
        from service.access import cli as access

        made, token = asyncio.run(
            access.create_key(load_settings().database_url, project, name, access.scopes_of(scopes), days)
        )
        click.echo(f"Key {made.id} of project {made.project}; it is shown this once:", err=True)
        click.echo(token)

    _or_one_line(run)


@keys.command("list")
@_PROJECT_OPTION
def list_keys(project: str) -> None:
    """List a project's keys, without their secrets."""

    def run() -> None:
        from service.access import cli as access

        click.echo(access.keys_table(asyncio.run(access.list_keys(load_settings().database_url, project))))

    _or_one_line(run)


@keys.command("revoke")
@click.argument("key_id")
def revoke_key(key_id: str) -> None:
    """Revoke the key with this KEY_ID: the part between tc_ and the secret."""

    def run() -> None:
        from service.access import cli as access

        asyncio.run(access.revoke_key(load_settings().database_url, key_id))
        click.echo(f"Key {key_id} is revoked; what serves refuses it within a second.")

    _or_one_line(run)


@contextmanager
def _bar(length: int) -> Iterator[Callable[[int], None] | None]:
    """What is to be told how much has been read: a bar on a terminal, else nobody."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=length, label="reading", file=sys.stderr) as bar:
        yield lambda position: bar.update(position - bar.pos)


def _write(output: str, content: bytes) -> None:
    try:
        Path(output).write_bytes(content)
    except OSError as error:
        raise StartupError(f"Cannot write {output}: {error.strerror}. Give --output another file.") from None


def _or_one_line(run: Callable[[], None]) -> None:
    """What cannot be done is said in one line, with exit code 1; a traceback is for a fault of ours."""
    try:
        run()
    except TraincostError as error:
        _fail(error.detail)


def _fail(line: str) -> NoReturn:
    said = " ".join(line.split())
    click.echo(f"traincost: {said if said.endswith('.') else f'{said}.'}", err=True)
    raise SystemExit(1)


def _serve(migrate_first: bool, host: str | None, port: int | None) -> None:
    import os

    overrides = {} if host is None else {f"{PREFIX}HOST": host}
    if port is not None:
        overrides[f"{PREFIX}PORT"] = str(port)
    os.environ.update(overrides)
    settings = load_settings()
    listening = _listen(settings)
    has_keys = _prepare_database(settings, migrate_first)
    _announce(settings, listening, has_keys=has_keys)
    _run_server(settings, listening)


def _listen(settings: Settings) -> socket.socket:
    """The listening socket, taken before anything else, so that a port in use changes nothing."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)  # two may bind the port until one listens
    except OSError as error:
        listening.close()
        advice = (
            "Set TRAINCOST_PORT to another port, or stop what is using it."
            if error.errno in (errno.EADDRINUSE, errno.EACCES)
            else "Set TRAINCOST_HOST to an address of this machine."
        )
        raise StartupError(
            f"Cannot listen on {settings.host} port {settings.port}: {error.strerror or error}. {advice}"
        ) from None
    listening.set_inheritable(True)
    return listening


def _prepare_database(settings: Settings, migrate_first: bool) -> bool:
    """Whether there is any key by which somebody could be let in."""
    from service.access.cli import has_keys
    from service.prices.default import seed_default_table
    from service.storage.database import create_engine
    from service.storage.schema import migrate as migrate_database
    from service.storage.schema import require_current

    async def prepare() -> bool:
        if migrate_first:
            await migrate_database(settings.database_url)
        engine = create_engine(settings.database_url, pool_size=1)
        try:
            await require_current(engine)
        finally:
            await engine.dispose()
        await seed_default_table(settings.database_url)
        return await has_keys(settings.database_url)

    return asyncio.run(prepare())


def _announce(settings: Settings, listening: socket.socket, *, has_keys: bool) -> None:
    host, port = listening.getsockname()[:2]
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    click.echo(f"traincost {__version__} at {base}")
    click.echo(f"  docs     {base}/docs")
    click.echo(f"  contract {base}/openapi.yaml")
    click.echo(f"  try      {_EXAMPLE.format(base=base, key=_KEY_HEADER if settings.asks_for_keys else '')}")
    if not settings.asks_for_keys:
        click.echo("  Nobody is asked for a key; for that, set TRAINCOST_AUTH=on.")
    elif not has_keys:
        click.echo("  Everybody is asked for a key, and there is none: make one with `traincost keys create`.")
    if settings.database_url.startswith("sqlite"):
        click.echo("  SQLite serves one worker; for more, set TRAINCOST_DATABASE_URL to a PostgreSQL.")
    sys.stdout.flush()


def _run_server(settings: Settings, listening: socket.socket) -> None:
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from service.logs import configuration

    config = uvicorn.Config(
        "service.app:create_app",
        factory=True,
        workers=settings.workers,
        access_log=False,
        log_config=configuration(settings.log_level),
        log_level=settings.log_level,
        server_header=False,
        date_header=True,
        lifespan="on",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    if settings.workers > 1:
        Multiprocess(config, sockets=[listening]).run()
    else:
        uvicorn.Server(config).run(sockets=[listening])
