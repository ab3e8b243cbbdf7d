"""Changes of a transcript: find and replace, segments split and merged, names of channels; times stay right."""

from __future__ import annotations

import json
from typing import Any

from playwright.async_api import Page, expect

from tests.transcript_events import final, word
from tests.web.conftest import OpenPage
from tests.web.visitor import words, write, written


async def edited(bench: Page, script: str, *segments: dict[str, Any]) -> Any:
    """What this script makes of these segments with the functions of the module."""
    return json.loads(
        await bench.evaluate(
            f"""async (segments) => {{
                const edits = await load("page/transcript/edits");
                return JSON.stringify(await (({script})(edits, ...JSON.parse(segments))));
            }}""",
            json.dumps(segments),
        )
    )


def times(segment: dict[str, Any]) -> list[list[Any]]:
    """The words of a segment with their times."""
    return [[each["word"], each["start_ms"], each["end_ms"]] for each in segment["words"]]


SPOKEN = final(word("The", 100, 200), word("colour", 200, 600), word("of", 700, 800), word("colours.", 800, 1400))


async def test_replaced_words_keep_their_times(shared_bench: Page) -> None:
    """As many words as before keep their times; others share the time of those that they replace."""
    script = """({found, replaced}, one) => ["colour", "Colour of", "the colour"].map((text) =>
        replaced(one, found([one], text, text === "Colour of"), {colour: "color", "the colour": "A fine hue"}[text]))"""
    same, none, more = await edited(shared_bench, script, SPOKEN)
    assert times(same) == [["The", 100, 200], ["color", 200, 600], ["of", 700, 800], ["colors.", 800, 1400]]
    assert same["text"] == "The color of colors."
    assert times(none) == times(SPOKEN)
    assert times(more)[3:] == times(SPOKEN)[2:]
    assert [each[0] for each in times(more)[:3]] == ["A", "fine", "hue"]
    starts = [start for _, start, _ in times(more)]
    assert starts == sorted(starts)
    assert (starts[0], times(more)[2][2]) == (100, 600)


async def test_a_text_may_come_twice_in_a_word(shared_bench: Page) -> None:
    """Each place in a word is replaced, and words of which nothing is left go."""
    script = """({found, replaced}, one) => ["a", "banana"].map((text) =>
        replaced(one, found([one], text, true), text === "a" ? "oo" : ""))"""
    many, gone = await edited(shared_bench, script, final(word("banana", 0, 300), word("split", 300, 600)))
    assert times(many) == [["boonoonoo", 0, 300], ["split", 300, 600]]
    assert times(gone) == [["split", 300, 600]]


async def test_changed_words_keep_their_speakers(shared_bench: Page) -> None:
    """A changed word, a split segment and a merged one have the speakers that their words had."""
    words = [{**word(text, 300 * at, 300 * at + 300), "speaker": at // 2} for at, text in enumerate(("a", "b", "c"))]
    script = """({reworded, split, merged}, one) => {
        const [first, second] = split(one, 2);
        const bare = {...second, words: null};
        return [reworded(one, 2, "see sea"), first, second, merged(second, first), merged(first, bare)];
    }"""
    changed, first, second, both, bare = await edited(shared_bench, script, {**final(*words), "speaker": 0})
    assert [each["speaker"] for each in changed["words"]] == [0, 0, 1, 1]
    assert (first["speaker"], second["speaker"], both["speaker"]) == (0, 1, 0)
    assert [each["speaker"] for each in bare["words"]] == [0, 0, 1]


async def test_split_and_merged(shared_bench: Page) -> None:
    """Both parts of a segment have the times of their words, and together they are the whole again."""
    script = """({split, merged}, one) => { const parts = split(one, 2); return [...parts, merged(...parts)]; }"""
    first, second, whole = await edited(shared_bench, script, SPOKEN | {"spoken": "the colour of colours"})
    assert [first["text"], first["start_ms"], first["end_ms"]] == ["The colour", 100, 600]
    assert [second["text"], second["start_ms"], second["end_ms"]] == ["of colours.", 700, 1400]
    assert [times(whole), whole["text"]] == [times(SPOKEN), SPOKEN["text"]]
    assert [whole["start_ms"], whole["end_ms"]] == [100, 1400]


async def test_languages_of_what_is_split_and_merged(shared_bench: Page) -> None:
    """Both parts have the language that was heard, and a segment of two languages has none."""
    script = """({split, merged}, one) => {
        const [first, second] = split(one, 2);
        const mixed = merged(first, {...second, language: "fr"});
        return [first, second, merged(first, second), mixed].map((each) => each.language);
    }"""
    assert await edited(shared_bench, script, SPOKEN | {"language": "de"}) == ["de", "de", "de", None]


async def test_find_and_replace_on_the_page(open_page: OpenPage) -> None:
    """All places are counted and marked; replaced text is kept, and one undo brings all of it back."""
    page = await open_page("/")
    before = await write(page, "draft.wav", "a red apple and a green apple", "an apple a day")
    starts = [each["start"] for each in await words(page)]
    await page.get_by_role("button", name="Find", exact=True).click()
    await page.get_by_role("searchbox", name="Find").fill("apple")
    await expect(page.locator("#find [role=status]")).to_have_text("1 of 3")
    await expect(page.locator(".word.found")).to_have_count(3)
    await page.keyboard.press("Enter")
    await expect(page.locator("#find [role=status]")).to_have_text("2 of 3")
    await page.get_by_label("Replace with").fill("pear")
    await page.get_by_role("button", name="Replace", exact=True).click()
    assert await written(page) == "A red apple and a green pear An apple a day"
    await page.get_by_role("button", name="Replace all").click()
    assert await written(page) == before.replace("apple", "pear")
    assert [each["start"] for each in await words(page)] == starts
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("search")).to_be_hidden()
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    assert await written(page) == before.replace("apple", "pear")
    await page.get_by_role("button", name="Find", exact=True).click()
    await page.get_by_role("searchbox", name="Find").fill("pear")
    await page.get_by_label("Replace with").fill("plum")
    await page.get_by_role("button", name="Replace all").click()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+z")
    await expect(page.locator("#finals")).not_to_contain_text("plum")
    assert await written(page) == before.replace("apple", "pear")


async def test_segments_on_the_page(open_page: OpenPage) -> None:
    """A segment is split and merged from the menu and by keys, is kept like that, and undo brings it back."""
    page = await open_page("/")
    before = await write(page, "draft.wav", "red green blue grey", "black white")
    rows = page.locator("#finals > p")
    await page.locator("#finals .word").nth(2).focus()
    await page.get_by_role("button", name="Segment").click()
    await page.get_by_role("menuitem", name="Split before “blue”").click()
    await expect(rows).to_have_count(3)
    await expect(page.locator("#finals .word").nth(2)).to_be_focused()
    await page.locator("#finals .word").nth(4).focus()
    await page.keyboard.press("Control+Backspace")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(1)).to_contain_text("blue grey Black white")
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    await expect(rows).to_have_count(2)
    assert (await written(page)).lower() == before.lower()
    await page.locator("#finals .word").nth(5).focus()
    await page.keyboard.press("Control+Enter")
    await expect(rows).to_have_count(3)
    await page.keyboard.press("Control+z")
    await expect(rows).to_have_count(2)
