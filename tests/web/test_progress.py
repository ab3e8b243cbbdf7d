"""How the client goes on when another session of the service continues: pure, fed with messages."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.client.progress_cases import CASES, Case

FEED = """async ({said, options}) => {
    const {Progress} = await load("progress");
    const progress = new Progress(options);
    const told = said.flatMap((message) => {
        if (message.type === "RESTART") return progress.restart(Math.min(...progress.cutsMs));
        if (message.type !== "FAILURE") return progress.receive(message);
        progress.failures += 1;
        return [];
    });
    const {cutsMs: cuts, after, failures} = progress;
    return {told, cuts, after, failures, released: progress.release()};
}"""


def named_as_in_python(event: dict[str, Any]) -> dict[str, Any]:
    """The event with the names of the Python client, because those of JavaScript differ."""
    return {"from_ms" if name == "fromMs" else name: value for name, value in event.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_is_told(shared_bench: Page, case: Case) -> None:
    """Every event is passed on once, with the times, segments and numbers of one session, as in the Python client."""
    result = await shared_bench.evaluate(FEED, {"said": case.said, "options": case.options})
    assert case.told is None or [named_as_in_python(event) for event in result["told"]] == case.told
    assert case.cuts is None or result["cuts"] == case.cuts
    assert case.after is None or result["after"] == case.after
    assert result["failures"] == case.failures
    assert result["released"] == case.released
