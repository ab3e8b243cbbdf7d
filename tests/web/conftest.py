"""A browser, its pages, and the service that they use.

Everything here runs in the event loop of the session, because a browser outlives its test.
"""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Playwright, async_playwright, expect

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing import say
from tests.bridge.service_client import SPOKEN, WORDS
from tests.samples import FILES, pcm
from tests.serve_process import RestartableService
from tests.web.browsing import Watch, launch, microphone_file

HERE = Path(__file__).parent
# For an exact model: two sentences with a pause, and one each of 6 and 3 s.
SAID = {"spoken": SPOKEN, "long": say(WORDS[0]).tobytes(), "short": say("this takes three seconds").tobytes()}
# A browser itself writes this to the console when a connection fails; a page cannot prevent it.
CONNECTIONS = "WebSocket connection to 'ws://127.0.0.1:"
expect.set_options(timeout=60_000)  # results come soon, unless the machine is busy
# Where our pages store something for longer than a tab.
STORES = "local_storage,indexeddb"
OpenBrowser = Callable[..., Awaitable[Browser]]
OpenPage = Callable[..., Awaitable[Page]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests here in the loop of the browser."""
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def playwright() -> AsyncIterator[Playwright]:
    """Playwright, which controls browsers."""
    async with async_playwright() as driver:
        yield driver


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(playwright: Playwright) -> AsyncIterator[Browser]:
    """A browser that all tests share. Its microphone beeps once a second."""
    shared = await launch(playwright)
    yield shared
    await shared.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def open_browser(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenBrowser]:
    """`await open_browser("talk.flac", lead_s=1.0)`: a browser for the tests of a file that ask for the same. Its
    microphone plays the recording from the beginning each time that it is opened. `flags=[…]`: for other devices, or
    without consent.
    """
    opened: dict[tuple[Any, ...], Browser] = {}
    folder = tmp_path_factory.mktemp("microphone")

    async def open_one(recording: str = "", *, lead_s: float = 1.0, flags: Sequence[str] = ()) -> Browser:
        asked = (recording, lead_s, *flags)
        if asked not in opened:
            file = microphone_file(folder, recording, lead_s) if recording else None
            opened[asked] = await launch(playwright, file, flags)
        return opened[asked]

    yield open_one
    for each in opened.values():
        await each.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser: Browser, contexts: dict[Browser, BrowserContext], site: str) -> AsyncIterator[OpenPage]:
    """`await open_page("/", browser=…, expected=["…"])`: a page that finds nothing of earlier tests; an empty one
    without a path. It has a context of its own if it is `alone`, or if there are other arguments, which are those of
    Playwright's `new_context`. Otherwise it is in a context of all tests, which keeps the scripts that it has loaded:
    to load and compile them costs a second of processor time.

    The test fails if one of its pages writes an unexpected error to the console, does not catch an exception, or
    connects to another machine.
    """
    shared = browser
    async with AsyncExitStack() as stack:
        watches: list[Watch] = []

        async def open_one(
            url: str = "",
            *,
            browser: Browser | None = None,
            expected: Sequence[str] = (),
            alone: bool = False,
            **settings: Any,
        ) -> Page:
            used, own = browser or shared, alone or bool(settings)
            if not own and used not in contexts:
                # Movement costs more than all else on the page. Tests of movement ask for it with `emulate_media`.
                contexts[used] = await used.new_context(reduced_motion="reduce")
                await contexts[used].new_page()  # stays, and with it the process that has the scripts
            context = await used.new_context(**settings) if own else contexts[used]
            context.set_default_timeout(60_000)
            watches.append(Watch(context, expected))
            page = await context.new_page()
            if own:
                stack.push_async_callback(context.close)
            else:
                stack.callback(watches[-1].end)
                stack.push_async_callback(context.clear_permissions)
                stack.push_async_callback(page.close)
                await forget(page, urljoin(site, url))
            if url:
                await page.goto(urljoin(site, url))
            return page

        yield open_one
    assert [complaint for watch in watches for complaint in watch.complaints] == []


@pytest.fixture(scope="session")
def contexts() -> dict[Browser, BrowserContext]:
    """For each browser the context that tests share."""
    return {}


async def forget(page: Page, site: str) -> None:
    """Remove what earlier pages of this site have stored."""
    client = await page.context.new_cdp_session(page)
    await client.send("Storage.clearDataForOrigin", {"origin": site, "storageTypes": STORES})
    await client.detach()


@pytest.fixture(scope="session")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model, because few tests here are about the words: those in which somebody really speaks."""
    return exact_triton


@pytest.fixture(scope="session")
def service(exact_service: Service) -> Service:
    """A service with it."""
    return exact_service


@pytest.fixture
def site(service: Service) -> str:
    """The address of the service's pages."""
    return f"http://{urlsplit(service.url).netloc}"


@pytest.fixture(scope="session")
def shipped_site(shipped_service: Service) -> str:
    """The same of a service with the shipped model."""
    return f"http://{urlsplit(shipped_service.url).netloc}"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Another site on its own port: its address, and the folder with its files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "favicon.ico").touch()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, name="elsewhere")
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    thread.join()
    server.server_close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_bench(elsewhere: tuple[str, Path], open_page: OpenPage, site: str) -> OpenPage:
    """`await open_bench(…)`: an empty page of another site with the tools of `bench.js` and the recordings.

    The modules come from `site`, even if a session connects to another service. The other site comes first, so that
    it ends after the page: a short test may be over while the browser still asks it for an icon.
    """
    address, folder = elsewhere
    (folder / "bench.html").write_text("<!doctype html><title>Bench</title>")
    for name in FILES:
        (folder / name).with_suffix(".pcm").write_bytes(pcm(name))
    for name, audio in SAID.items():
        (folder / f"{name}.pcm").write_bytes(audio)

    async def open_one(*, site: str = site, **settings: Any) -> Page:
        page = await open_page(**settings)
        await page.add_init_script(f"globalThis.site = {site!r};")
        await page.add_init_script(path=HERE / "bench.js")
        await page.goto(f"{address}/bench.html")
        return page

    return open_one


@pytest_asyncio.fixture(loop_scope="session")
async def bench(open_bench: OpenPage) -> Page:
    """Such a page in the shared browser."""
    return await open_bench()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_bench(browser: Browser, service: Service) -> AsyncIterator[Page]:
    """An empty page with the tools of `bench.js`, shared by all tests of a file: for modules that keep nothing."""
    context = await browser.new_context()
    context.set_default_timeout(60_000)
    watch = Watch(context)
    page = await context.new_page()
    await page.evaluate(f"globalThis.site = 'http://{urlsplit(service.url).netloc}'")
    await page.add_script_tag(path=HERE / "bench.js")
    yield page
    await context.close()
    assert watch.complaints == []


@asynccontextmanager
async def restartable(triton: TritonServer) -> AsyncIterator[RestartableService]:
    """A service that can be stopped and started: `await served.stop()`, `await served.start()`."""
    process = RestartableService("--triton", triton.grpc_address)
    await process.start()
    yield process
    await process.stop()
    print(*process.lines, sep="\n")  # shown if the test fails


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served_for_all(triton: TritonServer) -> AsyncIterator[RestartableService]:
    """A service for the tests of a file that stop and start it: each start takes a second of processor time."""
    async with restartable(triton) as process:
        yield process


@pytest_asyncio.fixture(loop_scope="session")
async def served(served_for_all: RestartableService) -> RestartableService:
    """The same, and it runs."""
    if not served_for_all.running:
        await served_for_all.start()
    return served_for_all


@pytest_asyncio.fixture(loop_scope="session")
async def served_as_shipped(shipped_triton: TritonServer) -> AsyncIterator[RestartableService]:
    """A service with the shipped model for one test that can be stopped and started."""
    async with restartable(shipped_triton) as process:
        yield process
