"""Pages of other sites that import the client from the service, as docs/how-to/javascript.md explains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from tests.bridge.service_client import serving
from tests.project import DOCS
from tests.samples import pcm
from tests.web.conftest import OpenBrowser, OpenPage
from tests.web.expected_words import alike, undisturbed

DOCUMENT = DOCS / "how-to/javascript.md"
AS_WRITTEN = "http://127.0.0.1:8080"
PATIENCE_MS = 30_000
# The header makes the browser ask first whether the page may send it.
UPLOAD = """async (address) => {
    try {
        const headers = {Authorization: "Bearer none"};
        const answer = await fetch(address, {method: "POST", body: await pcm("short"), headers});
        return (await answer.json()).text;
    } catch (error) {
        return error.name;
    }
}"""


async def test_the_example_of_the_document(
    open_browser: OpenBrowser,
    open_page: OpenPage,
    elsewhere: tuple[str, Path],
    shipped_site: str,
    shipped_service: Service,
) -> None:
    """A user presses the button, speaks, reads the words, and gets the last words after pressing again."""
    (example,) = re.findall(r"```html\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    script = example.split("<script")[1]
    assert len(script.splitlines()) <= 22
    address, folder = elsewhere
    (folder / "index.html").write_text(example.replace(AS_WRITTEN, shipped_site), encoding="utf-8")
    page = await open_page(address, browser=await open_browser("quilter.ogg", lead_s=0.5))
    final, partial, button = page.locator("#final"), page.locator("#partial"), page.get_by_role("button")
    await button.click()
    await expect(partial).to_have_text(re.compile(r"\w+ \w+"), timeout=PATIENCE_MS)
    await expect(button).to_have_text("Stop")
    await page.wait_for_timeout(6500)
    await button.click()
    await expect(final).to_have_text(re.compile("gospel"), timeout=PATIENCE_MS)
    expected = [
        event["text"]
        for event in await undisturbed(shipped_service.url, pcm("quilter.ogg"))
        if event["type"] == "final"
    ]
    assert alike(await final.inner_text(), " ".join(expected)) > 0.7


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_site_has_to_be_allowed(
    triton: TritonServer,
    open_bench: OpenPage,
    elsewhere: tuple[str, Path],
    allowed: bool,
) -> None:
    """Any page may import the modules; the service decides whether it may use them, and says so."""
    origin = elsewhere[0].replace("127.0.0.1", "elsewhere.localtest")
    policy = PortPolicy(AccessRules(origins=[origin] if allowed else []))
    async with serving(triton, policy=policy) as service:
        site = service.url.replace("ws", "http").rpartition("/v1/")[0]
        bench = await open_bench(site=site, expected=["spoke to http://elsewhere", "CORS", "ERR_FAILED"])
        await bench.goto(f"{origin}/bench.html")
        error = await bench.evaluate("async () => failure((await begin()).ready)")
        answer = await bench.evaluate(UPLOAD, f"{site}/v1/transcribe?encoding=pcm_s16le&sample_rate=16000")
    if allowed:
        assert error is None
        assert "three seconds" in answer
    else:
        assert answer == "TypeError"  # the browser says no more to a page
        assert (error["code"], error["reported"]) == ("refused", "bad_origin")
        assert "elsewhere.localtest" in error["message"]
