"""The command `streamer serve`: makes the service from its settings, and runs it until a signal ends it."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.base.limits import DEFAULT_MODEL, OFF, InstanceBounds
from streamer.base.package import install_command
from streamer.base.text import as_sentence
from streamer.bridge.access.keys import KeyFile, KeyFileError
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.quotas import Fetch, QuotaLimits, UploadLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.usage import UsageError, UsageFile
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository, is_public, parts_of
from streamer.commands.arguments import USAGE
from streamer.commands.capacity.reader_choice import AUTO, ChosenReader, choose_reader
from streamer.commands.settings.configuration import CONFIG_VARIABLE, Configuration, as_toml, configure
from streamer.commands.settings.kinds import ListOf, Setting, SettingsError, Switch
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
from streamer.models.speaker_networks import find_speaker_networks

if TYPE_CHECKING:
    from streamer.bridge.service import Service
    from streamer.bridge.triton.link import Dialer
    from streamer.bridge.upstreams.model_loader import MemoryBound
    from streamer.commands.capacity.default_size import DefaultSize


EXAMPLES: Final = """\
examples:
  streamer serve                          for programs and pages on this machine: http://127.0.0.1:8080
  streamer serve --port 9000 --sessions auto   no more sessions than this machine can serve
  streamer serve --instances 1-4          more processes of the model while many speak
  streamer key alice >> keys
  streamer serve --host 0.0.0.0 --keys keys --tls-cert cert.pem   for other machines, with a key
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
        reader, alone = _reader(configuration, models)
        models = {name: _recogniser_of(model, alone) for name, model in models.items()}
    except (SettingsError, PortPolicyError, TritonError) as error:
        for sentence in str(error).splitlines():
            print(f"streamer: {sentence}", file=sys.stderr)
        return USAGE
    logs.configure(settings.log_format, settings.log_level)
    if "model" not in configuration.entries and models[DEFAULT_MODEL].folder:
        logs.say(f"serving {models[DEFAULT_MODEL].model}, the default model of this machine.")
    exposed = not (settings.tls_cert or settings.behind_proxy or settings.trust_proxy or is_local(settings.host))
    try:
        return _serve(settings, models, policy, dial, reader, alone, exposed=exposed)
    except TritonError as error:
        return _fail(error)


def _serve(
    settings: ServeSettings,
    models: Mapping[str, ServedModel],
    policy: PortPolicy,
    dial: Dialer | None,
    reader: ChosenReader | None,
    alone: Collection[str],
    *,
    exposed: bool,
) -> int:
    """Run the service until a signal. `exposed`: whether others on the network can read the traffic.

    `reader` reads ended segments once more. `alone`: the models whose words are those of the reader alone.
    """
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
            size = _default_size(settings, [folders.get(name, folder / name) for name in names], folder, reader)
            if size is not None:
                instances, slots = size.instances, size.slots
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
            from streamer.bridge.control import ControlError
            from streamer.bridge.server import PortError
            from streamer.bridge.service import Service
            from streamer.bridge.session.deadlines import Limits
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
                conditions = circumstances(own, instances, slots, parts_of(own, folder), reader=reader)
            else:
                conditions = None
            sessions = Finding(conditions)
        else:
            sessions = settings.sessions
        limits = Limits(start_s=settings.start_limit, idle_s=settings.idle_limit, resume_s=settings.resume_limit)

        try:
            tracing = Tracing.towards(settings.traces) if settings.traces or Tracing.in_environment() else None
        except TracesError as error:
            return _fail(error)

        service = Service(
            triton or settings.triton,
            host=settings.host,
            port=settings.port,
            sessions=sessions,
            limits=limits,
            grace=settings.drain_limit,
            policy=policy,
            dial=dial,
            tracing=tracing,
            models={name: served.model for name, served in models.items()},
            resolve_s=settings.resolve_every,
            instances=bounds,
            on_demand=on_demand,
        )

        async def stay(supervisor: SupervisorMessages) -> None:
            async with service, _listen_for_control(service, settings.control):
                if exposed:  # only after the port was opened: before, another error may make the warning useless
                    remedy = "give --tls-cert, or put a proxy with TLS in front"
                    logs.say(f"without TLS, others on the network can listen in: {remedy}.")
                if size is not None:
                    logs.say(size.sentence())
                if alone:
                    logs.say(f"all words of {' and '.join(alone)} are those of the reader.")
                elif reader is not None:
                    logs.say(f"{reader.name} reads ended segments once more, for sessions that ask for it.")
                page = service.url.replace("ws", "http", 1).rpartition("/v1/")[0]
                if service.wyoming_port is not None:
                    where = f"port {service.wyoming_port} of {settings.wyoming_host or 'every address'}"
                    logs.say(f"Wyoming is spoken at {where}, without keys and TLS.")
                if service.grpc_port is not None:
                    where = f"port {service.grpc_port} of {settings.grpc_host or 'every address'}"
                    logs.say(f"gRPC is spoken at {where}.")
                logs.say(f"ready: {service.url} (page and probes: {page}/); Ctrl-C ends it")
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
                return _fail(error)
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


@asynccontextmanager
async def _listen_for_control(service: Service, path_setting: Path | None) -> AsyncIterator[None]:
    """Listen for `streamer roll`. ControlError if that is not possible at the path of the setting."""
    from streamer.bridge.control import Control, ControlError, default_path
    from streamer.bridge.telemetry.metrics import CONTROL

    async with AsyncExitStack() as stack:
        try:
            path, failures = path_setting or default_path(service.port), service.metrics.failures(CONTROL)
            await stack.enter_async_context(Control(service.models, path, failures))
        except ControlError as error:
            if path_setting:
                raise
            logs.say(as_sentence(f"`streamer roll` will not reach this service: {error}"), logging.WARNING)
        yield


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
    settings: ServeSettings, models: Sequence[Path], repository: Path, reader: ChosenReader | None
) -> DefaultSize | None:
    """Choose the numbers of instances and slots that no setting gives. None if the models decide themselves."""
    from streamer.commands.capacity.default_size import choose_size
    from streamer.commands.capacity.session_limit import SLOTS, slots_for

    if isinstance(settings.sessions, str):
        return choose_size(models, repository, reader, slots=settings.slots, most_slots=SLOTS)
    size = choose_size(models, repository, reader, slots=settings.slots, sessions=settings.sessions)
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


def _fail(reason: object) -> int:
    logs.say(as_sentence(reason), logging.ERROR)
    return 1


# Makes the objects for access from the settings of `serve`: who may use the port, and how to reach Tritons.


class PortPolicyError(Exception):
    """The service must not start with these settings. The message says why, and what to do."""


def triton_dial(configuration: Configuration) -> Dialer | None:
    """Return how to connect to other Tritons; None for no TLS. PortPolicyError if settings contradict each other."""
    settings, label = configuration.settings, configuration.label
    names = ("triton_tls", "triton_ca", "triton_cert", "triton_key", "triton_metadata")
    names_set = [name for name in names if getattr(settings, name)]
    if names_set and not settings.triton:
        raise PortPolicyError(f"{label(names_set[0])} is only for Tritons that run elsewhere: give --triton too.")
    if names_set and not settings.triton_tls:
        raise PortPolicyError(f"{label(names_set[0])} needs TLS: give --triton-tls too.")
    if bool(settings.triton_cert) != bool(settings.triton_key):
        raise PortPolicyError("--triton-cert and --triton-key belong together: give both.")
    if not names_set:
        return None
    try:
        # Imported only here: gRPC takes longer to import than everything else together.
        from streamer.bridge.triton.link import secure_dialer

        return secure_dialer(settings.triton_ca, settings.triton_cert, settings.triton_key, settings.triton_metadata)
    except (TritonError, ImportError) as error:
        raise PortPolicyError(str(error)) from error


def port_policy(configuration: Configuration) -> PortPolicy:
    """Return who may use the port, and with which certificate. PortPolicyError if that is unsafe or impossible."""
    from streamer.bridge.access.certificate import Certificate, CertificateError  # imports ssl

    settings, label = configuration.settings, configuration.label
    if settings.keys is None:
        for name in ("per_key", "audio_per_key"):
            if getattr(settings, name) is not None:
                raise PortPolicyError(f"{label(name)} is a limit for each key: give --keys too.")
        if settings.usage_file is not None:
            raise PortPolicyError(f"{label('usage_file')} has what each key uses: give --keys too.")
        if not settings.open and not is_local(settings.host):
            raise PortPolicyError(
                f"{settings.host or 'Every address'} can be reached from other machines, and anybody there could use "
                "the service: give --keys FILE, or --open if you want that."
            )
    wyoming = None if settings.wyoming_port is None else (settings.wyoming_host, settings.wyoming_port)
    if wyoming is None and "wyoming_host" in configuration.entries:
        raise PortPolicyError(f"{label('wyoming_host')} is the address of another port: give --wyoming-port too.")
    if wyoming is not None and not settings.open and not is_local(settings.wyoming_host):
        raise PortPolicyError(
            f"{label('wyoming_host')}: {settings.wyoming_host or 'every address'} can be reached from other machines, "
            "and Wyoming has no keys, so anybody there could use the service: give --open too if you want that."
        )
    grpc = None if settings.grpc_port is None else (settings.grpc_host, settings.grpc_port)
    if grpc is None and "grpc_host" in configuration.entries:
        raise PortPolicyError(f"{label('grpc_host')} is the address of another port: give --grpc-port too.")
    if grpc is not None and settings.keys is None and not settings.open and not is_local(settings.grpc_host):
        raise PortPolicyError(
            f"{label('grpc_host')}: {settings.grpc_host or 'every address'} can be reached from other machines, and "
            "anybody there could use the service: give --keys FILE, or --open if you want that."
        )
    if settings.behind_proxy and settings.trust_proxy:
        raise PortPolicyError(
            f"{label('behind_proxy')} counts proxies whose addresses are not known: leave it out, or --trust-proxy."
        )
    if settings.proxy_protocol and not settings.trust_proxy:
        raise PortPolicyError(
            f"{label('proxy_protocol')} is believed only from known proxies: give their addresses with --trust-proxy."
        )
    if settings.tls_key and not settings.tls_cert:
        raise PortPolicyError(f"{label('tls_key')} belongs to a certificate: give --tls-cert too.")
    proxies = Proxies(settings.trust_proxy, number=settings.behind_proxy)
    try:
        access = AccessRules(
            KeyFile(settings.keys) if settings.keys else None,
            origins=settings.origin,
            proxies=proxies,
            quotas=QuotaLimits(
                settings.per_key,
                settings.per_address,
                settings.audio_per_key,
                settings.hotwords_per_key,
                settings.hotwords_per_address,
            ),
            open_metrics=settings.open_metrics,
        )
        certificate = Certificate(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
        usage_file = UsageFile(settings.usage_file) if settings.usage_file else None
    except (KeyFileError, CertificateError, UsageError) as error:
        raise PortPolicyError(str(error)) from error
    uploads = UploadLimits(settings.max_upload, settings.longest_upload, settings.uploads, Fetch(settings.fetch))
    announcing = proxies if settings.proxy_protocol else Proxies()
    return PortPolicy(
        access,
        certificate,
        settings.max_message,
        settings.handshake_limit,
        uploads,
        announcing,
        usage_file,
        settings.root,
        wyoming,
        grpc,
        settings.share,
    )


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a server at this address."""
    try:
        addresses = socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_loopback for address in addresses)


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
