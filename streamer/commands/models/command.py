"""The command `streamer models`: lists, fetches, imports and removes public models, and chooses the default."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from streamer.commands.arguments.parser import USAGE
from streamer.commands.models.fetch_display import FetchDisplay
from streamer.commands.models.listing import content, text
from streamer.fetching import is_address
from streamer.library import SHIPPED, LibraryError
from streamer.library.catalogue import KnownModel, known_models, language_code, model_at, name_of, valid_name
from streamer.library.model_library import ModelLibrary
from streamer.settings.nearest import as_sentence, did_you_mean_one_of

EXAMPLES: Final = """\
Public models are those that sherpa-onnx publishes, in many languages (docs/how-to/model-library.md). They are kept in
$XDG_DATA_HOME/streamer/models, or ~/.local/share/streamer/models. `--model NAME` of other commands finds them there.

examples:
  streamer models                              those that are here, and those that can be fetched
  streamer models list --language Chinese      those for one language; its code (zh) does as well
  streamer models list --language zh --json    everything that is known about them
  streamer models get sherpa-onnx-streaming-zipformer-en-2023-06-26
                                               fetch one; after an interruption, the same command goes on
  streamer models get https://example.org/mine.tar.bz2 --checksum 5b1f…
                                               one that is not in the list
  streamer models import mine.tar.bz2          one that was brought here on a disk; a folder works as well
  streamer models default mine                 use it wherever --model is not given
  streamer models default shipped              use the model that comes with Streamer again
  streamer models remove mine

HTTPS_PROXY names a proxy. The licence of a model is shown before it is fetched. The folder of the model goes to
standard output, everything else to standard error. The exit status is 0 if it was done, 1 if not, 2 for a wrong command
line."""

_NEED_MODEL: Final = ("get", "import", "remove")
# The actions that have each option.
_ACTIONS_OF: Final = {"language": ("list",), "json": ("list",), "sha256": ("get",), "as_name": ("import",)}
_FLAGS: Final = {"language": "--language", "json": "--json", "sha256": "--checksum", "as_name": "--name"}
_SHA256_DIGITS: Final = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer models`."""
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        choices=tuple(_ACTIONS),
        default="list",
        help="list the models (the usual action), get or import one, remove one, or show or choose the default",
    )
    model_argument = add(
        "model",
        nargs="?",
        metavar="NAME|ADDRESS|FILE|FOLDER",
        help="the model: a name; for get also the address of an archive; for import an archive or a folder",
    )
    model_argument.completer = _complete  # type: ignore[attr-defined]
    add("--language", metavar="CODE", help="list: only models for this language, such as en, zh-CN or Russian")
    add("--json", action="store_true", help="list: print one JSON object with all that is known")
    add("--checksum", dest="sha256", metavar="HEX", type=_sha256, help="get: the SHA-256 that the archive must have")
    add("--name", dest="as_name", metavar="NAME", help="import: another name for the model than that of its file")


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
    if options.action in _NEED_MODEL and not options.model:
        return f"say which model to {options.action}"
    if options.action == "list" and options.model:
        return f"unexpected argument '{options.model}'"
    return ""


def _list(options: argparse.Namespace, library: ModelLibrary) -> int:
    language = options.language and language_code(options.language)
    listing = content(library, known_models(), language)
    print(json.dumps(listing, ensure_ascii=False, indent=1) if options.json else text(listing))
    return 0


def _get(options: argparse.Namespace, library: ModelLibrary) -> int:
    # Imported only here: the modules that fetch and unpack are slow to import.
    from streamer.library.installation import fetch_model

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
    _introduce(model)
    with FetchDisplay(sys.stderr, model.name) as display:
        try:
            folder = fetch_model(library, model, display)
        except KeyboardInterrupt:
            display.say("interrupted; the bytes so far are kept, and the same command goes on from there")
            raise
    _report_ready(model.name, folder)
    return 0


def _introduce(model: KnownModel) -> None:
    size = f", {model.archive_bytes / 1e6:.0f} MB" if model.archive_bytes else ""
    _say(f"fetching {model.name}{size} from {model.address}")
    if model.licence:
        _say(f"its licence is {model.licence} ({model.licence_source})")
    else:
        _say("its licence is not known here: read what its makers say before you use it")
    if model.address.startswith("http:") and not model.sha256:
        _say("nothing protects it on its way: prefer https, or give --checksum")


def _import(options: argparse.Namespace, library: ModelLibrary) -> int:
    from streamer.library.installation import import_model

    path = Path(options.model)
    name = valid_name(options.as_name) if options.as_name else name_of(path.resolve().name)
    with FetchDisplay(sys.stderr, name) as display:
        folder = import_model(library, name, path, display)
    _report_ready(name, folder)
    return 0


def _remove(options: argparse.Namespace, library: ModelLibrary) -> int:
    try:
        was_default = library.remove(valid_name(options.model))
    except LibraryError as error:
        raise LibraryError(f"{error}{did_you_mean_one_of(options.model, library.models())}") from None
    default = "; the shipped model is the default again" if was_default else ""
    _say(f"{options.model} was removed{default}")
    return 0


def _default(options: argparse.Namespace, library: ModelLibrary) -> int:
    name = options.model
    if name is None:
        print(library.default)
        return 0
    if name != SHIPPED and library.find(name) is None:
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
        suggestion = did_you_mean_one_of(name, catalogue)
        raise LibraryError(f"no model {name} is known{suggestion or '; `streamer models` lists those that are'}")
    return catalogue[name]


def _report_ready(name: str, folder: Path) -> None:
    _say(f"{name} is complete; use it with --model {name}, or everywhere after `streamer models default {name}`")
    print(folder)


def _say(sentence: str) -> None:
    print(f"streamer: {sentence}.", file=sys.stderr, flush=True)


def _sha256(value: str) -> str:
    digits = value.lower()
    if len(digits) != _SHA256_DIGITS or not set(digits) <= set("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"must be the {_SHA256_DIGITS} hexadecimal digits of a SHA-256")
    return digits


def _complete(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Iterable[str]:
    """Return the words that the Tab key offers after the action."""
    if parsed_args.action == "import":
        from argcomplete.completers import FilesCompleter

        return [str(each) for each in FilesCompleter()(prefix=prefix)]
    here = list(ModelLibrary().models())
    if parsed_args.action == "get":
        return [name for name, model in known_models().items() if not model.not_yet and name not in here]
    return {"remove": here, "default": [*here, SHIPPED]}.get(parsed_args.action, [])


_ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace, ModelLibrary], int]]] = {
    "list": _list,
    "get": _get,
    "import": _import,
    "remove": _remove,
    "default": _default,
}
