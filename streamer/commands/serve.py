"""The command `streamer serve`: makes the service from its settings, and runs it until a signal ends it."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.base.limits import DEFAULT_MODEL, MOST_WORKERS, OFF, InstanceBounds
from streamer.base.package import install_command
from streamer.base.text import as_sentence
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.telemetry import logs
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository, is_public, parts_of
from streamer.commands.arguments import USAGE
from streamer.commands.settings.configuration import CONFIG_VARIABLE, Configuration, as_toml, configure
from streamer.commands.settings.kinds import ListOf, Setting, SettingsError, Switch
from streamer.commands.settings.port_policy import PortPolicyError, is_local, port_policy, session_limits, triton_dial
from streamer.commands.settings.serve import ON_DEMAND, SETTINGS, ServeSettings
from streamer.commands.settings.served_models import (
    ModelsError,
    ServedModel,
    by_public_name,
    first_folder_error,
    locate,
    whisper_among,
)
from streamer.models.library import LibraryError, ModelLibrary
from streamer.models.model_folder import read_any_folder
from streamer.models.readers import AUTO, ChosenReader, choose_reader
from streamer.models.speaker_networks import find_speaker_networks

if TYPE_CHECKING:
    from streamer.bridge.triton.link import Dialer
    from streamer.bridge.upstreams.model_loader import MemoryBound
    from streamer.commands.capacity.default_size import DefaultSize


# A session costs the recogniser at least seven times as much as the bridge (scripts/measure/bridge_cost.py).
PROCESSORS_PER_WORKER: Final = 8

EXAMPLES: Final = """\
examples:
  streamer serve                          for programs and pages on this machine: http://127.0.0.1:8080
  streamer serve --port 9000 --sessions auto   no more sessions than this machine can serve
  streamer serve --instances 1-4          more processes of the model while many speak
  streamer key alice >> keys
  streamer serve --host 0.0.0.0 --keys keys --tls-cert cert.pem   for other machines, with a key
  streamer serve --workers 4 --triton gpu1:8001                   more sessions than one process carries
  streamer serve --triton gpu1:8001,gpu2:8001                     in front of Tritons that run already
  streamer serve --model library --load on-demand                 all models of this machine, each when it is asked for
  streamer serve --repository models --model mine_1               then `streamer roll mine_2` replaces the model
  streamer serve --port 9000 --print-config > streamer.toml       the settings as a file
  streamer serve --config streamer.toml --log-level debug
  STREAMER_SERVE_PORT=9000 streamer serve

Each setting is a flag, a variable STREAMER_SERVE_… or a line of a file. A flag overrides a variable, and a variable
overrides the file (docs/reference/settings.md). The service runs in the foreground until Ctrl-C or SIGTERM. `/readyz`
says when it is ready. docs/how-to/monitoring.md says what to watch, docs/how-to/security.md who may use the service.
The exit status is 0 after SIGTERM. After SIGHUP the service reads keys and certificate again, and goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting."""
    add_setting_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the service. Return the exit status, which is 0 after a single SIGTERM."""
    # Here and below, modules that only a service needs are imported when one runs, so --help and the Tab key are quick.

    try:
        configuration = configure(flag_values(options), os.environ, options.config)
        if options.print_config:
            print(as_toml(configuration), end="")
            return 0
        policy, dial = port_policy(configuration), triton_dial(configuration)
        settings = configuration.settings
        if settings.repository and settings.triton:
            label = configuration.label("repository")
            raise PortPolicyError(f"{label} is only for the embedded Triton: it cannot be combined with --triton.")
        if isinstance(settings.instances, InstanceBounds) and settings.triton:
            label = configuration.label("instances")
            raise PortPolicyError(f"{label} can be a range only for the embedded Triton, not with --triton.")
        models = _models(configuration)
        _check_load(configuration)
        workers = _workers(configuration)
        reader, alone = _reader(configuration, models)
        models = {name: _recogniser_of(model, alone) for name, model in models.items()}
    except (SettingsError, PortPolicyError, TritonError) as error:
        for sentence in str(error).splitlines():
            print(f"streamer: {sentence}", file=sys.stderr)
        return USAGE
    logs.configure(settings.log_format, settings.log_level)
    if "model" not in configuration.entries and models[DEFAULT_MODEL].folder:
        logs.say(f"serving {models[DEFAULT_MODEL].model}, the default model of this machine.")
    for cost in _costs(models):
        logs.say(cost)
    exposed = not (settings.tls_cert or settings.behind_proxy or settings.trust_proxy or is_local(settings.host))
    try:
        return _serve(configuration, models, policy, dial, reader, alone, workers, exposed=exposed)
    except TritonError as error:
        return logs.fail(error)


def _serve(
    configuration: Configuration,
    models: Mapping[str, ServedModel],
    policy: PortPolicy,
    dial: Dialer | None,
    reader: ChosenReader | None,
    alone: Collection[str],
    workers: int,
    *,
    exposed: bool,
) -> int:
    """Run the service until a signal. `exposed`: whether others on the network can read the traffic.

    `reader` reads ended segments once more. `alone`: the models whose words are those of the reader alone.
    """
    settings = configuration.settings
    import asyncio

    from streamer.bridge.triton.server import TritonServer
    from streamer.commands.capacity.session_limit import Finding, circumstances
    from streamer.commands.interrupt import run_until_signal

    triton = tracing = on_demand = size = None
    bounds, instances = _instances(settings)
    hurrying: list[asyncio.Future[None]] = []
    if not settings.triton:
        folder = settings.repository or asr_repository()
        slots = settings.slots or _slots(settings)
        folders = {served.model: served.folder for served in models.values() if served.folder is not None}
        names = [served.model for served in models.values()]
        if settings.load == ON_DEMAND:
            on_demand = _memory_bound(settings, models, folder, slots)
            names = [models[DEFAULT_MODEL].model]
        elif instances is None:
            own_folders = [folders.get(name, folder / name) for name in names]
            size = _default_size(settings, own_folders, folder, reader, workers)
            if size is not None:
                instances, slots = size.instances, size.slots
        if settings.slots is None and slots is not None:
            slots += workers - 1  # each of them needs one for its probe
        if bounds is not None:
            _check_memory(
                [folders.get(name, folder / name) for name in names], folder, bounds, slots, settings.sessions
            )
        triton = TritonServer(
            folder,
            models=names,
            folders=folders,
            instances=instances,
            slots=slots,
            reader=None if reader is None else reader.folder,
            reads_alone=alone,
            speakers=find_speaker_networks() is not None,
            resizable=bounds is not None,
            private=True,
        )
        triton.start()
    try:
        # While Triton's processes import torch, this process imports the rest.
        try:
            from streamer.bridge.control import ControlError, OwnRolls, listening
            from streamer.bridge.server import PortError
            from streamer.bridge.service import Service
            from streamer.bridge.telemetry.metrics import CONTROL
            from streamer.bridge.telemetry.supervisor_messages import SupervisorMessages
            from streamer.bridge.telemetry.traces import TracesError, Tracing
            from streamer.bridge.triton.link import LinkError
        except ImportError as error:
            raise TritonError(f"the service needs {error.name}: {install_command('embedded')}") from error

        sessions: int | Finding | None
        if isinstance(settings.sessions, str):
            default = models[DEFAULT_MODEL]
            if triton is not None:
                own = default.folder or folder / default.model
                conditions = circumstances(own, instances, slots, parts_of(own, folder), reader=reader, workers=workers)
            else:
                conditions = None
            sessions = Finding(conditions, workers)
        else:
            sessions = settings.sessions

        def say_ready(url: str, wyoming_port: int | None, grpc_port: int | None) -> None:
            if exposed:  # only after the port was opened: before, another error may make the warning useless
                remedy = "give --tls-cert, or put a proxy with TLS in front"
                logs.say(f"without TLS, others on the network can listen in: {remedy}.")
            if size is not None:
                logs.say(size.sentence())
            if heard := _hearing(models):
                logs.say(heard)
            if alone:
                logs.say(f"all words of {' and '.join(alone)} are those of the reader.")
            elif reader is not None:
                logs.say(f"{reader.name} reads ended segments once more, for sessions that ask for it.")
            page = url.replace("ws", "http", 1).rpartition("/v1/")[0]
            if wyoming_port is not None:
                where = f"port {wyoming_port} of {settings.wyoming_host or 'every address'}"
                logs.say(f"Wyoming is spoken at {where}, without keys and TLS.")
            if grpc_port is not None:
                logs.say(f"gRPC is spoken at port {grpc_port} of {settings.grpc_host or 'every address'}.")
            logs.say(f"ready: {url} (page and probes: {page}/); Ctrl-C ends it")

        triton_models = {name: served.model for name, served in models.items()}
        if workers > 1:
            from streamer.commands.workers import serve_with_workers

            return serve_with_workers(configuration, workers, triton_models, policy, triton, sessions, say_ready)

        try:
            tracing = Tracing.towards(settings.traces) if settings.traces or Tracing.in_environment() else None
        except TracesError as error:
            return logs.fail(error)

        service = Service(
            triton or settings.triton,
            host=settings.host,
            port=settings.port,
            sessions=sessions,
            limits=session_limits(settings),
            grace=settings.drain_limit,
            policy=policy,
            dial=dial,
            tracing=tracing,
            models=triton_models,
            resolve_s=settings.resolve_every,
            instances=bounds,
            on_demand=on_demand,
        )

        async def stay(supervisor: SupervisorMessages) -> None:
            failures = service.metrics.failures(CONTROL)
            rolls, administer = OwnRolls(service.models), service.administration.administer
            async with service, listening(rolls, administer, service.port, settings.control, failures):
                say_ready(service.url, service.wyoming_port, service.grpc_port)
                supervisor.ready()
                try:
                    await asyncio.Event().wait()  # until a signal: the loss of a recogniser does not end the service
                finally:
                    supervisor.stopping()

        async def work() -> int:
            try:
                # Entered first, so that the supervisor also sees during start and drain that the event loop runs.
                async with SupervisorMessages(os.environ) as supervisor:
                    await stay(supervisor)
            except (PortError, LinkError, ControlError) as error:
                return logs.fail(error)
            return 0

        def hurry() -> None:
            logs.say("a second signal: open sessions are ended now.", logging.WARNING)
            hurrying.append(asyncio.ensure_future(service.hurry()))

        def refresh() -> None:
            logs.say("SIGHUP: keys and certificate are read again if they have changed; sessions go on.")
            policy.refresh()

        status = run_until_signal(work(), hurry, refresh)
        return 0 if status == 128 + signal.SIGTERM and not hurrying else status
    finally:
        if triton:
            triton.stop()
        if tracing and not hurrying:
            tracing.close()


def _models(configuration: Configuration) -> Mapping[str, ServedModel]:
    """Return the models by public name. SettingsError if the service cannot serve them."""
    settings = configuration.settings
    if settings.repository is not None and not settings.repository.is_dir():
        raise SettingsError(f"{configuration.label('repository')} names {settings.repository}, which is not a folder.")
    try:
        served = settings.model
        models = by_public_name(served)
        if not settings.triton:
            is_named = "model" in configuration.entries or settings.repository is not None
            served = locate(served, settings.repository or asr_repository(), ModelLibrary(), chosen=is_named)
            models = by_public_name(served)
    except ModelsError as error:
        raise SettingsError(as_sentence(f"{configuration.label('model')} {error}")) from error
    reason = first_folder_error(served)
    if settings.triton and any(model.folder for model in served):
        reason = "can name folders only for the embedded Triton: with --triton, give names of models in its repository"
    if reason:
        raise SettingsError(f"{configuration.label('model')} {reason}.")
    return models


def _hearing(models: Mapping[str, ServedModel]) -> str:
    """Say which model hears for each public name. Empty if only the shipped one does, as usual."""
    if set(models) == {DEFAULT_MODEL} and models[DEFAULT_MODEL] == ServedModel(MODEL):
        return ""
    others = [f"{served.model} those that ask for {name}" for name, served in models.items() if name != DEFAULT_MODEL]
    usual = f"{models[DEFAULT_MODEL].model} hears sessions that name no model"
    return f"{', '.join([usual, *others])}."


def _costs(models: Mapping[str, ServedModel]) -> Iterator[str]:
    """Say what makes public models cost more than others."""
    for served in dict.fromkeys(models.values()):
        if served.folder is not None and is_public(served.folder):
            for cost in read_any_folder(served.folder).costs:
                yield f"{served.model}: {cost}."


def _recogniser_of(model: ServedModel, alone: Collection[str]) -> ServedModel:
    """Return the recogniser that hears for a model that reads alone, under its name; any other model as it is."""
    return replace(model, folder=asr_repository() / MODEL) if model.model in alone else model


def _reader(
    configuration: Configuration, models: Mapping[str, ServedModel]
) -> tuple[ChosenReader | None, Collection[str]]:
    """Return the reader, None without one, and the models that it reads alone. SettingsError if it cannot be had.

    None is chosen for public models alone, because they do not use it.
    """
    settings, label = configuration.settings, configuration.label("reader")
    if settings.triton:
        if "reader" in configuration.entries and settings.reader != OFF:
            raise SettingsError(
                f"{label} is only for the embedded Triton: another Triton has the reader that it loaded."
            )
        return None, ()
    alone = whisper_among(list(models.values()))
    if alone:
        if settings.load == ON_DEMAND:
            raise SettingsError(f"{configuration.label('load')} cannot load Whisper models: they read for all models.")
        if len(alone) > 1 or settings.reader not in (AUTO, OFF, *alone, *map(str, alone.values())):
            raise SettingsError(
                f"{configuration.label('model')} names {' and '.join(alone)}, but a service has one reader: "
                "give it one Whisper model, and no other reader."
            )
        [(name, folder)] = alone.items()
        return ChosenReader(f"{name}, alone", folder), alone
    if settings.reader == AUTO and all(model.folder and is_public(model.folder) for model in models.values()):
        return None, ()
    try:
        reader = choose_reader(settings.reader)
    except LibraryError as error:
        raise SettingsError(as_sentence(f"{label}: {error}")) from error
    if reader is None and settings.reader not in (AUTO, OFF):
        raise SettingsError(
            f"{label} names {settings.reader}, which is not on this machine: `streamer models get {settings.reader}` "
            "fetches it."
        )
    return reader, ()


def _check_load(configuration: Configuration) -> None:
    """Raise SettingsError if models cannot be loaded on demand in this service."""
    settings = configuration.settings
    label = configuration.label("load")
    if settings.load != ON_DEMAND:
        if settings.models_memory is not None:
            raise SettingsError(f"{configuration.label('models_memory')} is only for --load {ON_DEMAND}.")
        return
    if settings.triton:
        raise SettingsError(
            f"{label} {ON_DEMAND} is only for the embedded Triton: it cannot be combined with --triton."
        )
    if isinstance(settings.instances, InstanceBounds):
        raise SettingsError(f"{label} {ON_DEMAND} cannot be combined with a range of --instances.")


def _workers(configuration: Configuration) -> int:
    """Return how many processes serve the port. SettingsError if other settings need a single one."""
    settings = configuration.settings
    workers = settings.workers
    if not isinstance(workers, int):
        from streamer.base.machine import processor_time

        workers = workers_for(processor_time(), embedded=not settings.triton)
    if workers == 1:
        return 1
    label = configuration.label("workers")
    if isinstance(settings.instances, InstanceBounds):
        raise SettingsError(f"{label} cannot be combined with a range of --instances: give one number of instances.")
    if settings.load == ON_DEMAND:
        raise SettingsError(f"{label} cannot be combined with --load {ON_DEMAND}: load the models at the start.")
    return workers


def workers_for(processors: float, *, embedded: bool) -> int:
    """Return how many workers so many processors keep busy: an embedded Triton needs most of them."""
    number = max(1, int(processors))
    return min(MOST_WORKERS, -(-number // PROCESSORS_PER_WORKER) if embedded else number)


def _memory_bound(
    settings: ServeSettings, models: Mapping[str, ServedModel], repository: Path, slots: int | None
) -> MemoryBound:
    """Return how much memory models may hold, and what each needs. TritonError if one of them is larger than that."""
    from streamer.bridge.upstreams.model_loader import MemoryBound
    from streamer.commands.capacity.estimates import check_room, expected_memory, memory_for_models

    instances = settings.instances if isinstance(settings.instances, int) else None
    room = memory_for_models(settings.models_memory)
    sizes = {
        name: expected_memory(served.folder or repository / served.model, instances, slots)
        for name, served in models.items()
    }
    check_room(sizes, room)
    return MemoryBound(room, sizes)


def _slots(settings: ServeSettings) -> int | None:
    """Return how many slots each instance needs for the sessions, and one for the probe. None if the model decides."""
    from streamer.commands.capacity.session_limit import SLOTS, USUAL_SLOTS, slots_for

    bounds, instances = _instances(settings)
    if settings.sessions is None:
        return None
    if isinstance(settings.sessions, str):
        return SLOTS if bounds is None else max(USUAL_SLOTS, SLOTS // bounds.most)
    return slots_for(settings.sessions, (instances or 1) if bounds is None else bounds.most)


def _default_size(
    settings: ServeSettings, models: Sequence[Path], repository: Path, reader: ChosenReader | None, workers: int
) -> DefaultSize | None:
    """Choose the numbers of instances and slots that no setting gives. None if the models decide themselves."""
    from streamer.commands.capacity.default_size import choose_size
    from streamer.commands.capacity.session_limit import SLOTS, slots_for

    if isinstance(settings.sessions, str):
        return choose_size(models, repository, reader, slots=settings.slots, most_slots=SLOTS, workers=workers)
    size = choose_size(models, repository, reader, slots=settings.slots, sessions=settings.sessions, workers=workers)
    if size is None or settings.sessions is None or settings.slots is not None:
        return size
    return replace(size, slots=slots_for(settings.sessions, size.instances))


def _instances(settings: ServeSettings) -> tuple[InstanceBounds | None, int | None]:
    """Return the bounds of a number of instances that follows the load, and the number to start with."""
    instances = settings.instances
    if not isinstance(instances, InstanceBounds):
        return None, instances
    # `--sessions auto` measures with all instances.
    return instances, instances.most if isinstance(settings.sessions, str) else instances.fewest


def _check_memory(
    models: Sequence[Path], repository: Path, bounds: InstanceBounds, slots: int | None, sessions: int | str | None
) -> None:
    """Raise TritonError if the largest number of instances does not fit in the memory, or the number cannot change."""
    from streamer.bridge.triton.repository import CONFIG, model_config, set_apart
    from streamer.commands.capacity.instance_limit import check_instances

    for model in models:
        if (model / CONFIG).is_file():  # a public model has no such file, and gets the shipped one
            set_apart(model_config(model), bounds.most)
        check_instances(model, repository, bounds.most, slots, sessions if isinstance(sessions, int) else None)


# The flags of `serve`, made from its settings. Their values are checked later, with those of all other sources.


def add_setting_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting, in its group."""
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help=f"read settings from this file too ({CONFIG_VARIABLE})")
    add("--print-config", action="store_true", help="print the settings in effect as such a file, and exit")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for setting in SETTINGS.values():
        if setting.group not in groups:
            groups[setting.group] = parser.add_argument_group(setting.group)
        _add(groups[setting.group].add_argument, setting)


def flag_values(options: argparse.Namespace) -> dict[str, object]:
    """Return the flags that were given, by the names of their settings."""
    return {name: value for name in SETTINGS if (value := getattr(options, name)) is not None}


def _add(add: Callable[..., argparse.Action], setting: Setting) -> None:
    about = f"{setting.help.rstrip('.')} ({setting.usual})".replace("%", "%%")
    kind = setting.kind
    if isinstance(kind, Switch):
        add(setting.flag, dest=setting.name, action=argparse.BooleanOptionalAction, default=None, help=about)
    elif isinstance(kind, ListOf):
        about = f"{about}; may be given several times"
        add(setting.flag, dest=setting.name, action="append", metavar=kind.metavar, help=about)
    elif setting.bare is not None:
        about = f"{about}; {setting.bare} without {kind.metavar}"
        add(setting.flag, dest=setting.name, nargs="?", const=setting.bare, metavar=kind.metavar, help=about)
    else:
        action = add(setting.flag, dest=setting.name, metavar=kind.metavar or None, help=about)
        if kind.words:
            # For argcomplete only. argparse would report a wrong value in other words than the settings do.
            action.completer = lambda **_: kind.words  # type: ignore[attr-defined]
