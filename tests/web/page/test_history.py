"""Nothing that was on the page is lost: the history in the browser, and undo."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.web.conftest import OpenPage
from tests.web.visitor import PATIENCE_MS, drop, said, write, written


async def reload(page: Page) -> None:
    """Load the tab again, as after a crash."""
    await page.reload()
    await page.locator("body[data-ready]").wait_for()


async def test_a_reload_in_the_middle(open_page: OpenPage) -> None:
    """After a reload, the final and the shown words but the last are there under the same name."""
    page = await open_page("/")
    await page.get_by_label("As spoken").check()
    await drop(page, said("this is final", "this was only shown when the page went"), "broken off.wav")
    await expect(page.locator("#finals")).to_contain_text("This is final", timeout=PATIENCE_MS)
    await expect(page.locator("#partial")).to_contain_text("This was only", timeout=PATIENCE_MS)
    await reload(page)
    await expect(page.locator("#finals")).to_contain_text(re.compile("This is final.*This was", re.DOTALL))
    await expect(page.get_by_label("Name of the transcript")).to_have_value("broken off")


async def test_the_history(open_page: OpenPage) -> None:
    """Every transcript is listed by name, can be found by its words, opened, deleted and restored."""
    page = await open_page("/")
    await write(page, "first.wav", "apples are red")
    await write(page, "second.wav", "pears are green")
    await page.click("#history-open")
    kept = page.locator("#kept li")
    await expect(kept).to_have_count(2)
    await expect(kept.first).to_contain_text("second")
    await expect(page.locator("#kept-size")).to_have_text(re.compile(r"^2 transcripts, \d+ kB"))
    await page.get_by_label("Search in names and words").fill("red apples")
    await expect(kept).to_have_count(1)
    await page.get_by_role("button", name="Delete first").click()
    await expect(kept).to_have_count(0)
    await page.get_by_role("button", name="Undo").click()
    await expect(kept).to_have_count(1)
    await page.locator("button.kept").click()
    await expect(page.locator("#finals")).to_have_text(re.compile("Apples are red"))
    await expect(page).to_have_title("first · Streamer")
    await page.click("#history-open")
    await page.get_by_role("button", name="Delete these").click()
    await expect(page.locator("#finals")).to_have_text("")
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("#finals")).to_have_text(re.compile("Apples are red"))


async def test_nothing_is_kept(open_page: OpenPage) -> None:
    """If nothing is kept, a transcript can be restored only while the tab is open."""
    page = await open_page("/")
    await page.click("#history-open")
    await page.get_by_label("Keep transcripts in this browser").uncheck()
    await page.keyboard.press("Escape")
    await write(page, "secret.wav", "a secret")
    await page.click("#clear")
    await page.get_by_role("button", name="Restore").click()
    await expect(page.locator("#finals")).to_have_text(re.compile("A secret"))
    await reload(page)
    assert await written(page) == ""
    await page.click("#history-open")
    await expect(page.locator("#kept-size")).to_have_text("There is no transcript yet.")


async def test_sound_is_kept(open_page: OpenPage) -> None:
    """If sound is kept, it can be played after a reload."""
    page = await open_page("/")
    await page.click("#history-open")
    await page.get_by_label("Keep their sound, too").check()
    await page.keyboard.press("Escape")
    await write(page, "heard.wav", "one two")
    await reload(page)
    await expect(page.get_by_role("slider", name="Position in the sound")).to_be_visible()
    await page.locator("#finals .word").nth(1).click()
    await expect(page.locator(".word.heard")).to_have_text("two")


async def test_changes_are_kept_and_undone(open_page: OpenPage) -> None:
    """A word and the name can be changed, also by keyboard. Ctrl+Z undoes each change, and clearing."""
    page = await open_page("/")
    await write(page, "draft.wav", "one too three")
    await page.locator("#finals .word").nth(1).dblclick()
    await page.keyboard.type("two")
    await page.keyboard.press("Enter")
    assert await written(page) == "One two three"
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("F2")
    await page.keyboard.type("four")
    await page.keyboard.press("Escape")
    assert await written(page) == "One two three"
    await page.get_by_label("Name of the transcript").fill("numbers")
    await page.keyboard.press("Enter")
    await expect(page).to_have_title("numbers · Streamer")
    await page.click("#clear")
    for expected in ("One two three", "One two three", "One too three"):
        await page.keyboard.press("Control+z")
        await expect(page.locator("#finals")).to_have_text(re.compile(expected))
        await expect(page.locator("#spoken")).to_have_text(re.compile("^Undone"))
    await expect(page).to_have_title("draft · Streamer")
    await reload(page)
    assert await written(page) == "One too three"


async def test_a_second_file_and_back(open_page: OpenPage) -> None:
    """A second file replaces the first one, which one click brings back with its sound."""
    page = await open_page("/")
    await write(page, "first.wav", "the first")
    assert await write(page, "second.wav", "the second") == "The second"
    await page.get_by_role("button", name="Restore").click()
    await expect(page.locator("#finals")).to_have_text(re.compile("The first"))
    await expect(page.locator("#play")).to_be_visible()


# Markup, script, a name that reads backwards, a path, a terminal's escape sequence, and far too long.
HOSTILE = (
    "<img src=x onerror=globalThis.broken=1>.wav",
    '"><script>globalThis.broken=1</script><b x=".wav',
    "javascript:globalThis.broken=1.wav",
    "invoice\u202efdp.wav",
    "..\\..\\etc\\passwd\x1b]52;c;Yg==\x07.wav",
    f"{'long ' * 900}.wav",
)


async def test_hostile_names_are_only_text(open_page: OpenPage) -> None:
    """Names and hotwords of strangers are shown as text, in the history too, and are harmless as names of files."""
    page = await open_page("/")
    await page.click("#options-open")
    await page.get_by_label("Names and words to listen for").fill("<img src=x onerror=globalThis.broken=1>\n\u202eabc")
    await page.keyboard.press("Escape")
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    await page.click("#options-open")
    await page.get_by_label("Names and words to listen for").fill("")
    await page.keyboard.press("Escape")
    for number, name in enumerate(HOSTILE):
        await write(page, name, f"sentence {'abcdef'[number]}")
        await page.get_by_role("button", name="Save").click()
        async with page.expect_download() as saving:
            await page.get_by_role("menuitem", name=re.compile(r"^Text \.")).click()
        suggested = (await saving.value).suggested_filename
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e/\\<>:\"|?*]", suggested), suggested
    await page.click("#history-open")
    await expect(page.locator("#kept li")).to_have_count(len(HOSTILE))
    assert await page.evaluate("globalThis.broken") is None
    assert await page.locator("#kept img, #kept script").count() == 0


async def test_hostile_records_of_the_browser(open_page: OpenPage) -> None:
    """What another program wrote into the storage of the page neither runs nor keeps the page from working."""
    page = await open_page("/")
    await write(page, "mine.wav", "these are mine")
    await page.evaluate(
        """() => new Promise((resolve, reject) => {
            const evil = "<img src=x onerror=globalThis.broken=1>";
            localStorage.setItem("streamer.settings", JSON.stringify(
                {hotwords: evil, endpoint: evil, step: evil, pace: evil, device: evil, keep: true, __proto__: {x: 1}}));
            const request = indexedDB.open("streamer");
            request.onerror = () => reject(request.error);
            request.onsuccess = () => {
                const transaction = request.result.transaction(["records", "segments"], "readwrite");
                const [records, segments] = ["records", "segments"].map((name) => transaction.objectStore(name));
                records.getAll().onsuccess = ({target}) => {
                    const [mine] = target.result;
                    records.put({...mine, id: "evil", name: evil, file: evil, start: evil}, "evil");
                    for (const [number, text] of [evil, "\\u202eabc"].entries()) segments.put(
                        {start_ms: 0, end_ms: 1, text, confidence: 1, words: [{word: text, start_ms: 0, end_ms: 1}]},
                        ["evil", number]);
                };
                transaction.oncomplete = () => { request.result.close(); resolve(); };
            };
        })"""
    )
    await reload(page)
    await page.click("#history-open")
    await expect(page.locator("#kept li")).to_have_count(2)
    for number in range(2):
        await page.locator("button.kept").nth(number).click()
        await page.click("#history-open")
    await page.keyboard.press("Escape")
    assert await page.evaluate("globalThis.broken") is None
    assert await page.locator("#finals img, #kept img").count() == 0
    await page.evaluate("localStorage.clear()")
    await reload(page)
    await write(page, "again.wav", "it still works")
