"""The clients of NVIDIA Riva and of Google's Speech-to-Text, with only the address changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.testing.exact_service import ExactService
from tests.bridge.access.certificate_authority import Authority
from tests.clients.running import HALF, run

KEY = make_key("anna")
ANY = ("127.0.0.1", 0)


@pytest.fixture(scope="module")
def called() -> Iterator[ExactService]:
    """Provide a service with a port for gRPC."""
    with ExactService(slots=4, policy=PortPolicy(grpc=ANY)) as service:
        yield service


@pytest.fixture(scope="module")
def guarded_calls(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactService]:
    """Provide the same with a certificate and one key, KEY."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{KEY.line}\n")
    certificate = Certificate(authority.chain, authority.key)
    with ExactService(slots=4, policy=PortPolicy(AccessRules(KeyFile(keys)), certificate, grpc=ANY)) as service:
        yield service


def use(
    program: str,
    service: ExactService,
    recording: Path,
    root: str = "",
    key: str = "",
    when: dict[str, Callable[[], object]] | None = None,
) -> Any:
    """Run a program with the port of the service, the certificate of its authority, and a key."""
    return run(program, service, recording, str(service.grpc_port), root, key, when=when)


def check_riva(told: Any) -> None:
    """Check what the program of Riva was told."""
    assert told["models"] == [["default", "online"], ["default", "offline"]]
    finals = [line.removeprefix("## ").strip() for line in told["printed"] if line.startswith("## ")]
    assert finals == ["hello world", "goodbye"]
    assert next(line.strip() for line in told["printed"] if line.startswith(">> ")) == ">> hel"
    assert [word for word, *_ in told["words"]] == ["hello", "world", "goodbye"]
    assert all(0 <= begin < end and 0 < confidence <= 1 for _, begin, end, confidence in told["words"])
    assert told["stabilities"] == [0.1]
    assert told["recorded"] == "hello world goodbye "
    assert told["refusal"][0] == "INVALID_ARGUMENT"


def check_google(told: Any) -> None:
    """Check what the program of Google was told by both versions."""
    for name in ("v1", "v2"):
        version = told[name]
        assert version["finals"] == version["recorded"] == "hello world goodbye"
        assert version["interim"][0] == "hel"
        assert [word for word, *_ in version["words"]] == ["hello", "world", "goodbye"]
        assert version["words"][2][1] == pytest.approx(3.0, abs=0.2)
        assert version["events"] == ["SPEECH_ACTIVITY_BEGIN", "SPEECH_ACTIVITY_END"] * 2
        assert version["waited"][:4] == version["events"]
        assert version["waited"][4:] == (["SPEECH_ACTIVITY_TIMEOUT"] if name == "v1" else [])
        assert version["before"] == "hello world goodbye"
        assert version["refusal"][0] == "INVALID_ARGUMENT"
    assert (told["v1"]["later"], told["v1"]["progress"]) == ("hello world goodbye", 100)


def test_riva(called: ExactService, talk: Path) -> None:
    """Its programs find the models, and recognise a file, live and as a whole, without saying what it is."""
    check_riva(use("riva_program.py", called, talk))


def test_google(called: ExactService, talk: Path) -> None:
    """Live speech and recordings, by both versions of the client."""
    check_google(use("google_program.py", called, talk))


def test_with_a_key_and_a_certificate(guarded_calls: ExactService, authority: Authority, talk: Path) -> None:
    """Both clients know how to give and to check them."""
    root = str(authority.root)
    check_riva(use("riva_program.py", guarded_calls, talk, root, KEY.secret))
    check_google(use("google_program.py", guarded_calls, talk, root, KEY.secret))


def test_a_key_that_is_not_valid(guarded_calls: ExactService, authority: Authority, talk: Path) -> None:
    """The client raises the status as its own error."""
    with pytest.raises(AssertionError, match="UNAUTHENTICATED"):
        use("riva_program.py", guarded_calls, talk, str(authority.root), "wrong")


def test_a_killed_triton(called: ExactService, talk: Path) -> None:
    """Each word comes once, and the client only waits."""
    check_riva(use("riva_program.py", called, talk, when={HALF: called.kill_recogniser}))
