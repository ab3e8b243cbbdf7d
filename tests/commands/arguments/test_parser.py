"""Messages about command lines that cannot be understood."""

from __future__ import annotations

import pytest

from streamer.commands.arguments.parser import Parser, count, number, port

Shown = pytest.CaptureFixture[str]


@pytest.fixture
def parser() -> Parser:
    """A parser with a single option, one in each kind of group, one with two names, and a required argument."""
    parser = Parser(prog="streamer test", allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("-o", "--output")
    parser.add_argument("--jobs", type=count)
    parser.add_argument("--format", choices=("text", "srt"))
    parser.add_argument_group("more").add_argument("--port", type=port)
    parser.add_mutually_exclusive_group().add_argument("--limit", type=number)
    return parser


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "--prot", "1"], "unknown option --prot; did you mean --port? See streamer test --help."),
        (["--prot=1"], "unknown option --prot; did you mean --port? See streamer test --help."),
        (["--limti"], "unknown option --limti; did you mean --limit? See streamer test --help."),
        (["--hlep"], "unknown option --hlep; did you mean --help? See streamer test --help."),
        (["--out", "x"], "unknown option --out; did you mean --output? See streamer test --help."),
        (["a", "--zebra"], "unknown option --zebra; see streamer test --help."),
        (["a", "-prot", "1"], "unknown option -prot; did you mean --port? See streamer test --help."),
        (["a", "--srt"], "unknown option --srt; did you mean --format srt? See streamer test --help."),
        (
            ["a", "--format", "strt"],
            "argument --format: invalid choice: 'strt' (choose from 'text', 'srt'); did you mean srt? "
            "See streamer test --help.",
        ),
        (["a", "-x"], "unknown option -x; see streamer test --help."),
        (["a", "b"], "unexpected argument 'b'; see streamer test --help."),
        (["a", "--", "--prot"], "unexpected argument '--prot'; see streamer test --help."),
        (["a", "--jobs", "0"], "argument --jobs: must be 1 or more, not 0; see streamer test --help."),
        (["a", "--jobs", "two"], "argument --jobs: must be 1 or more, not 'two'; see streamer test --help."),
        (["a", "--limit", "-1"], "argument --limit: must be 0 or more, not -1; see streamer test --help."),
    ],
)
def test_a_mistake(parser: Parser, capsys: Shown, arguments: list[str], sentence: str) -> None:
    """A mistake gives one sentence, with a suggestion if an option is similar."""
    with pytest.raises(SystemExit) as caught:
        parser.read(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"streamer: {sentence}\n"


def test_what_looks_like_an_option_may_be_a_value(parser: Parser) -> None:
    """A value may look like an option: if it contains spaces, after an equals sign, or after two dashes."""
    assert parser.read(["-- a b", "--output=--prot"]).output == "--prot"
    assert parser.read(["--", "--name"]).name == "--name"
