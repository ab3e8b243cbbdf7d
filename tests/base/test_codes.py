"""Every code word is declared once, and the documents tell what it means."""

from __future__ import annotations

import json
import re

import pytest

from streamer.base.codes import ClientCode, Code, ErrorCode, FailureCode, QuietEnding
from tests.project import DOCS

ENUMS: tuple[type[Code], ...] = (ErrorCode, QuietEnding, FailureCode, ClientCode)
# Codes of clients of other services alone.
FOREIGN = {ErrorCode.REMOTE_CONTENT, ErrorCode.SESSION_EXPIRED, ErrorCode.UNSUPPORTED}


def part(page: str, start: str, end: str) -> str:
    """Return the part of a page between these texts."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert start in text, f"{page} lacks {start!r}"
    found = text.partition(start)[2]
    assert end in found, f"{page} lacks {end!r} after {start!r}"
    return found.partition(end)[0]


def codes(text: str) -> set[str]:
    """Return the words in this text that look like codes."""
    return set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)*)`", text))


def test_the_protocol_and_the_guide_have_all_codes_of_errors() -> None:
    """The table of closes, the refusals of HTTP and those of uploads together have each code, and no other."""
    table = part("reference/protocol.md", "| close | error code | cause |\n", "\n\n")
    closes = set.union(*(codes(row.split("|")[2]) for row in table.splitlines()))
    refusals = codes(part("reference/protocol.md", "`code` is for programs:\n", " A path that takes no body"))
    rows = part("how-to/http.md", "| status | `code` |\n|---|---|\n", "\n\n").splitlines()
    uploads = set.union(*(codes(re.sub(r"\([^)]*\)", "", row.split("|")[2])) for row in rows))
    assert {"full", "too_fast"} <= closes
    assert {"not_found"} <= refusals
    assert {"no_audio"} <= uploads
    assert closes | refusals | uploads == {*ErrorCode} - FOREIGN


def test_a_session_ends_with_each_code_of_the_table() -> None:
    """Each code of the table of closes has its own count in the metrics."""
    table = part("reference/protocol.md", "| close | error code | cause |\n", "\n\n")
    closes = set.union(*(codes(row.split("|")[2]) for row in table.splitlines()))
    pytest.importorskip("prometheus_client", reason="metrics have them: pip install 'streamer-asr[bridge]'")
    from streamer.bridge.telemetry.metrics import REASONS

    assert closes - {"after_stop"} <= set(REASONS)


def test_codes_of_other_services_are_told() -> None:
    """The page about other services has the codes that only their clients get."""
    assert codes((DOCS / "reference/compatibility.md").read_text(encoding="utf-8")) >= FOREIGN


def test_the_guide_to_python_has_the_codes_of_the_client() -> None:
    """The client's own codes stand in the guide, all of them."""
    assert codes(part("how-to/python.md", "or one of the client's:\n", "\n\n")) == {*ClientCode}


def test_the_contract_has_the_codes_of_models() -> None:
    """What a model says stands in the contract, and what the link adds in the guide to the metrics."""
    of_model = codes(part("reference/triton.md", "`code: sentence`;", "\n\n")) - {"sequence_start"}
    [row] = re.findall(r"^\| `streamer_request_failures_total` .*$", metrics_page(), re.MULTILINE)
    assert of_model | codes(row.partition("`code`:")[2]) == {*FailureCode}


def metrics_page() -> str:
    """Return the guide to the metrics."""
    return (DOCS / "how-to" / "monitoring.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [code for enum in ENUMS for code in enum], ids=repr)
def test_a_code_is_written_as_its_word(code: Code) -> None:
    """In text, in JSON and in a set, a code is its word, in every version of Python."""
    assert f"{code}" == f"{code!s}" == "".join([code]) == str(code) == code.value
    assert json.dumps({"code": code}) == f'{{"code": "{code.value}"}}'
    assert code in {code.value}


def test_no_session_ends_with_one_word_in_two_ways() -> None:
    """The words for endings without an error are no codes of errors."""
    assert {each.value for each in ErrorCode}.isdisjoint(each.value for each in QuietEnding)
