"""The docs page in headless Chromium: everything is shown, nothing is asked of another machine, and it can be tried."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from playwright.sync_api import Browser, Page, Playwright, ViewportSize, expect, sync_playwright

from tests.support.server import ROOT, Server

pytestmark = pytest.mark.browser

PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BAD = {"error", "warning"}


class Visit(NamedTuple):
    """A page on the service, and what it asked for and complained of."""

    page: Page
    base: str
    requests: list[str]
    complaints: list[str]


def find_chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def driver() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module", params=[[], [OFFLINE]], ids=["as it comes", "no name resolves"])
def browser(request: pytest.FixtureRequest, driver: Playwright) -> Iterator[Browser]:
    browser = driver.chromium.launch(executable_path=find_chromium(), args=[*QUIET, *request.param])
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("browser") / "traincost.db"
    with Server(f"sqlite+aiosqlite:///{file}", "--migrate") as server:
        yield server


@pytest.fixture
def visit(browser: Browser, running: Server) -> Iterator[Visit]:
    """A desktop's page. At the end nothing has left the machine, and nothing was complained of."""
    context = browser.new_context(viewport=DESKTOP)
    visit = Visit(context.new_page(), running.base, [], [])
    context.on("request", lambda request: visit.requests.append(request.url))
    context.on("console", lambda message: visit.complaints.append(message.text) if message.type in BAD else None)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    visit.page.on("requestfailed", lambda request: visit.complaints.append(request.url))
    yield visit
    context.close()
    assert visit.complaints == []
    assert visit.requests
    assert [url for url in visit.requests if not url.startswith((f"{running.base}/", "data:"))] == []


def open_docs(visit: Visit) -> None:
    visit.page.goto(f"{visit.base}/docs")
    expect(visit.page.locator(".opblock").first).to_be_visible()


def operations() -> list[tuple[str, str]]:
    document = yaml.safe_load((ROOT / "openapi.yaml").read_text())
    methods = {"get", "put", "post", "patch", "delete", "head", "options"}
    return sorted((method, path) for path, item in document["paths"].items() for method in set(item) & methods)


def test_every_operation_is_shown(visit: Visit) -> None:
    open_docs(visit)
    blocks = visit.page.locator(".opblock")
    expect(blocks).to_have_count(len(operations()))
    shown = [
        (
            block.locator(".opblock-summary-method").inner_text().lower(),
            block.locator("[data-path]").get_attribute("data-path"),
        )
        for block in blocks.all()
    ]
    assert sorted(shown) == operations()


def test_every_operation_opens(visit: Visit) -> None:
    open_docs(visit)
    for block in visit.page.locator(".opblock").all():
        block.locator(".opblock-summary-control").click()
        expect(block.locator(".responses-inner").first).to_be_visible()
        block.locator(".opblock-summary-control").click()
    expect(visit.page.locator(".errors-wrapper")).to_have_count(0)


def test_an_estimate_can_be_tried_and_answers_27950(visit: Visit) -> None:
    open_docs(visit)
    block = visit.page.locator("#operations-Estimates-createEstimate")
    block.locator(".opblock-summary-control").click()
    block.locator("textarea.body-param__text").fill("{}")
    block.get_by_role("button", name="Execute").click()
    answer = block.locator(".live-responses-table .response").first
    expect(answer.locator(".response-col_status")).to_contain_text("200")
    expect(answer.locator(".highlight-code")).to_contain_text('"total": "27950.00"')
    assert any(one.partition("?")[0] == f"{visit.base}/v1/estimates" for one in visit.requests)


def test_the_first_page_leads_to_the_docs(visit: Visit) -> None:
    visit.page.goto(f"{visit.base}/")
    assert visit.page.url == f"{visit.base}/docs"
    expect(visit.page.locator(".title").first).to_contain_text("traincost")
    expect(visit.page).to_have_title("traincost: API")


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_it_fits_the_screen(visit: Visit, size: ViewportSize, tmp_path: Path) -> None:
    visit.page.set_viewport_size(size)
    open_docs(visit)
    visit.page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert overflow(visit.page) == 0
    visit.page.locator("#operations-Estimates-createEstimate .opblock-summary-control").click()
    expect(visit.page.locator("textarea.body-param__text")).to_be_visible()
    visit.page.locator("#operations-Estimates-getClassicEstimate .opblock-summary-control").click()
    fields = visit.page.locator("#operations-Estimates-getClassicEstimate input")
    expect(fields).to_have_count(7)
    visit.page.screenshot(path=tmp_path / "open.png", full_page=True)
    assert overflow(visit.page) == 0
    for field in fields.all():
        box = field.bounding_box()
        assert box is not None
        assert box["width"] >= 250  # room for what is typed
        assert box["x"] + box["width"] <= size["width"] - 30


def overflow(page: Page) -> int:
    """By how many pixels the page must be scrolled sideways."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width
