"""The settings of `streamer serve`: the list from which its flags, variables, files and documentation are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from streamer.base.address import DEFAULT_HOST, DEFAULT_PORT
from streamer.base.limits import (
    DEFAULT_MODEL,
    DRAIN_LIMIT_S,
    HANDSHAKE_LIMIT_S,
    HOTWORDS_PER_ADDRESS,
    HOTWORDS_PER_KEY,
    IDLE_LIMIT_S,
    LARGEST_MESSAGE,
    LARGEST_UPLOAD,
    LONGEST_DRAIN_S,
    LONGEST_LIMIT_S,
    LONGEST_UPLOAD_BOUNDS_S,
    LONGEST_UPLOAD_S,
    MESSAGE_BOUNDS,
    MOST_UPLOADS,
    MOST_UPLOADS_BOUNDS,
    MOST_WORKERS,
    OFF,
    RESOLVE_BOUNDS_S,
    RESOLVE_EVERY_S,
    RESUME_LIMIT_S,
    SHORTEST_LIMIT_S,
    START_LIMIT_S,
    UPLOAD_BOUNDS,
    InstanceBounds,
)
from streamer.bridge.access.proxies import network_of
from streamer.bridge.access.quotas import Fetch
from streamer.bridge.access.rules import ANY_ORIGIN, origin_of
from streamer.bridge.telemetry.logs import FORMATS, LEVELS
from streamer.bridge.triton import MODEL
from streamer.commands.settings.kinds import (
    COUNT,
    PORT,
    Choice,
    FilePath,
    Instances,
    ListOf,
    Number,
    Setting,
    Switch,
    Text,
    Whole,
    setting,
    settings_of,
)
from streamer.commands.settings.served_models import ModelList, ServedModel
from streamer.wire.dialects.formats import NATIVE, ROOTS

AUTO: Final = "auto"
STORES: Final = ("redis", "rediss", "unix")
AT_START, ON_DEMAND = "start", "on-demand"

_LISTENING: Final = "Listening"
_RECOGNISER: Final = "The recogniser"
_ACCESS: Final = "Access (docs/how-to/security.md)"
_CALLS: Final = "Calls and webhooks (docs/how-to/webhooks.md)"
_SHARES: Final = "Limits for one caller"
_ELSEWHERE: Final = "Tritons elsewhere"
_BRIDGES: Final = "Other bridges (docs/how-to/scaling.md)"
_RUNNING: Final = "Shutdown, log and traces"

_SESSIONS: Final = Whole(1, 100_000, "N")
_CHARACTERS: Final = Whole(1, 1_000_000_000, "N")
_WAIT: Final = Number(SHORTEST_LIMIT_S, LONGEST_LIMIT_S, "SECONDS", unit="seconds")


def _address(text: str) -> str | None:
    host, _, number = text.rpartition(":")
    return text if host and number.isdecimal() and 0 < int(number) <= 65535 else None


def _store(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        place = parts.path if parts.scheme == "unix" else parts.hostname
        is_valid = parts.scheme in STORES and place and parts.port != 0
    except ValueError:  # the port is no number, or too large
        return None
    return text if is_valid and not any(map(str.isspace, text)) else None


def _collector(text: str) -> str | None:
    return _address(text) if "://" not in text else _url(text)


def _websocket_url(text: str) -> str | None:
    return _url(text, "wss", "https")


def _url(text: str, *schemes: str) -> str | None:
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in (schemes or ("http", "https")) and parts.hostname and parts.port != 0
    except ValueError:  # the port is no number, or too large
        return None
    return text if is_valid and not any(map(str.isspace, text)) else None


@dataclass(frozen=True)
class ServeSettings:
    """The settings with their values."""

    host: str = setting(Text("an address", "ADDRESS"), _LISTENING, "The address to listen on.", DEFAULT_HOST)
    port: int = setting(PORT, _LISTENING, "The port to listen on, 0 for any free one.", DEFAULT_PORT)
    root: str = setting(
        Choice(*ROOTS, metavar="FORMAT"),
        _LISTENING,
        f"What a websocket at / speaks, for clients that know no path: {', '.join(ROOTS)} (docs/how-to/clients.md). "
        "The page stays there.",
        NATIVE,
    )
    wyoming_port: int | None = setting(
        PORT,
        _LISTENING,
        "Also listen on this port for Wyoming, by which Home Assistant speaks with programs for voice: 10300 is usual, "
        "0 means any free one. It has no keys and no TLS (docs/how-to/clients.md).",
        unset="no such port",
        example="10300",
    )
    wyoming_host: str = setting(
        Text("an address", "ADDRESS"),
        _LISTENING,
        "The address of that port. One that other machines can reach needs --open.",
        DEFAULT_HOST,
    )
    grpc_port: int | None = setting(
        PORT,
        _LISTENING,
        "Also listen on this port for gRPC, which clients of NVIDIA Riva and Google's Speech-to-Text speak: 50051 is "
        "usual, 0 means any free one. Keys and certificate are those of the other port (docs/how-to/clients.md).",
        unset="no such port",
        example="50051",
    )
    grpc_host: str = setting(
        Text("an address", "ADDRESS"),
        _LISTENING,
        "The address of that port. One that other machines can reach needs --keys or --open.",
        DEFAULT_HOST,
    )
    workers: int | str = setting(
        Whole(1, MOST_WORKERS, f"N|{AUTO}", word=AUTO),
        _LISTENING,
        f"How many processes serve the port. Each carries some hundred sessions, and '{AUTO}' starts one for so many "
        "processors as keep it busy (docs/how-to/scaling.md).",
        1,
        example=f'"{AUTO}"',
    )
    control: Path | None = setting(
        FilePath("PATH"),
        _LISTENING,
        "The Unix socket for `streamer roll` (docs/how-to/upgrades.md).",
        unset="named after the port, in the user's runtime folder",
        example='"/run/streamer/control"',
    )

    model: tuple[ServedModel, ...] = setting(
        ModelList(),
        _RECOGNISER,
        "The models: names in Triton's repository, names of public models of this machine, folders, or 'library': all "
        "models of this machine. "
        "Clients ask for a model by its public name: "
        f"'{DEFAULT_MODEL}' for the first one, the name in Triton for others, unless PUBLIC= gives another.",
        (ServedModel(MODEL),),
        example='["streaming_asr", "fast=streaming_asr_fast"]',
    )
    load: str = setting(
        Choice(AT_START, ON_DEMAND),
        _RECOGNISER,
        f"When models are loaded: all of them at the start; or only '{DEFAULT_MODEL}', and each other one when a "
        "session first asks for it (docs/how-to/model-library.md).",
        AT_START,
    )
    models_memory: float | None = setting(
        Number(0.1, 100_000, "GB", unit="GB"),
        _RECOGNISER,
        f"With --load {ON_DEMAND}: how much main memory the processes of all models may hold together, in 10⁹ bytes. "
        "If another model needs some of it, the least recently used one without sessions is unloaded, but never "
        f"'{DEFAULT_MODEL}'.",
        unset="80 % of what the machine or container has, without the service itself",
        example="12.5",
    )
    repository: Path | None = setting(
        FilePath("FOLDER"),
        _RECOGNISER,
        "The model repository of the embedded Triton.",
        unset="the repository shipped with Streamer",
        example='"/srv/models"',
    )
    instances: int | InstanceBounds | None = setting(
        Instances(),
        _RECOGNISER,
        "The number of instances of each model; each is a process. With a range such as 1-4 the number follows the "
        "load (docs/how-to/serving-models.md).",
        unset="one for each processor, or for each two with public models (docs/how-to/capacity.md)",
        example='"1-4"',
    )
    reader: str = setting(
        Text("the name of a reader", f"{AUTO}|{OFF}|NAME|FOLDER"),
        _RECOGNISER,
        "What reads ended segments once more, for sessions that ask for it: the name of a reader of this machine "
        f"(`streamer models` lists them), the folder of a Whisper model, '{AUTO}' for the best one that its processors "
        f"carry, or '{OFF}' (docs/explanation/reader.md).",
        AUTO,
    )
    slots: int | None = setting(
        COUNT,
        _RECOGNISER,
        "The most streams of each instance at a time.",
        unset="as in the model's config.pbtxt, or fewer if the memory carries no more",
        example="64",
    )
    sessions: int | str | None = setting(
        Whole(1, metavar=f"N|{AUTO}", word=AUTO),
        _RECOGNISER,
        f"The most sessions at a time, and slots for them; '{AUTO}' measures how many this machine can serve.",
        unset="all slots",
        example=f'"{AUTO}"',
    )

    keys: Path | None = setting(
        FilePath(),
        _ACCESS,
        "Admit only callers with a key from this file; `streamer key NAME` makes keys.",
        unset="no keys",
        example='"/etc/streamer/keys"',
    )
    open: bool = setting(Switch(), _ACCESS, "Accept connections from other machines even without keys.", False)
    origin: tuple[str, ...] = setting(
        ListOf(Text(f"an origin such as https://example.org, without a path, or '{ANY_ORIGIN}'", "URL", origin_of)),
        _ACCESS,
        f"Sites whose pages may also use the service; '{ANY_ORIGIN}' means any site.",
        (),
        unset="only pages of the service itself",
        example='["https://example.org"]',
    )
    tls_cert: Path | None = setting(
        FilePath(),
        _ACCESS,
        "The certificate and its chain, as PEM. The service then uses wss and https.",
        unset="no TLS",
        example='"/etc/streamer/chain.pem"',
    )
    tls_key: Path | None = setting(
        FilePath(),
        _ACCESS,
        "The private key of the certificate.",
        unset="in the same file",
        example='"/etc/streamer/key.pem"',
    )
    trust_proxy: tuple[str, ...] = setting(
        ListOf(Text("an address or a network such as 10.1.0.0/16, but not all addresses", "CIDR", network_of)),
        _ACCESS,
        "The addresses of the proxies in front. X-Forwarded-For is believed from them and ignored from others.",
        (),
        unset="that header is ignored",
        example='["127.0.0.1", "10.1.0.0/16"]',
    )
    proxy_protocol: bool = setting(
        Switch(),
        _ACCESS,
        "Connections of these proxies begin with a header of the PROXY protocol, version 1 or 2.",
        False,
    )
    behind_proxy: int = setting(
        Whole(0, 8, "N"),
        _ACCESS,
        "If the addresses of the proxies are not known: how many add to X-Forwarded-For. With 0 nobody is believed.",
        0,
        bare="1",
    )
    share: int = setting(
        Whole(0, 100_000, "LISTENERS"),
        _ACCESS,
        "Let clients share their sessions by a link that only reads, with at most so many listeners at a time in all "
        "sessions together; 0: no session can be shared (docs/how-to/captions.md).",
        0,
    )
    open_metrics: bool = setting(Switch(), _ACCESS, "Let anybody read /metrics, without a key.", False)
    fetch: str = setting(
        Choice(*map(str, Fetch)),
        _ACCESS,
        "Whether a client may name the address of a recording, as clients of Deepgram do, which the service fetches: "
        f"'{Fetch.PUBLIC}' only from the internet, '{Fetch.ANY}' also from this machine and its network.",
        Fetch.OFF,
    )

    twilio_tokens: Path | None = setting(
        FilePath(),
        _CALLS,
        "Admit media streams of Twilio that are signed with an auth token of this file, without a key. A line has a "
        "token, or NAME: and a token, whose calls count as those of the key NAME.",
        unset="Twilio's streams need a key",
        example='"/etc/streamer/twilio-tokens"',
    )
    twilio_url: str | None = setting(
        Text("an address such as wss://voice.example.org/twilio", "URL", _websocket_url),
        _CALLS,
        "The address that Twilio was told, if a proxy changes it: signatures are over it.",
        unset="as the request says it; X-Forwarded-Host counts if it comes from a trusted proxy",
        example='"wss://voice.example.org/twilio"',
    )
    twilio_unsigned: bool = setting(
        Switch(),
        _CALLS,
        "Also admit streams without a valid signature, by the rules for all other websockets.",
        False,
    )
    webhook: str | None = setting(
        Text("an address with http or https", "URL", _url),
        _CALLS,
        "Post the words of all calls to this address, signed.",
        unset="the words of calls are posted nowhere",
        example='"https://example.org/words"',
    )
    webhooks: str = setting(
        Choice(*map(str, Fetch)),
        _CALLS,
        "Whether a client may name an address to which the words of its session are posted: "
        f"'{Fetch.PUBLIC}' only one of the internet, '{Fetch.ANY}' also one of this machine and its network.",
        Fetch.OFF,
    )
    webhook_secrets: Path | None = setting(
        FilePath(),
        _CALLS,
        "The secrets that sign what is posted. A line has a secret, or NAME: and a secret for the key NAME.",
        unset="nothing is posted",
        example='"/etc/streamer/webhook-secrets"',
    )

    per_key: int | None = setting(
        _SESSIONS, _SHARES, "The most sessions of one key at a time.", unset="no limit", example="4"
    )
    per_address: int | None = setting(
        _SESSIONS, _SHARES, "The most sessions of one address at a time.", unset="no limit", example="4"
    )
    audio_per_key: float | None = setting(
        Number(1, 1e9, "SECONDS", unit="seconds"),
        _SHARES,
        "The most audio of one key within an hour, in all its sessions and channels together.",
        unset="no limit",
        example="36000",
    )
    hotwords_per_key: int = setting(
        _CHARACTERS,
        _SHARES,
        "The most characters of hotwords of one key within a minute.",
        HOTWORDS_PER_KEY,
    )
    hotwords_per_address: int = setting(
        _CHARACTERS,
        _SHARES,
        "The most characters of hotwords of one address within a minute.",
        HOTWORDS_PER_ADDRESS,
    )
    usage_file: Path | None = setting(
        FilePath(),
        _SHARES,
        "Keep what each key uses by day and month in this file, for `streamer usage`, and for the limits of its audio "
        "after a restart.",
        unset="none: after a restart, usage and limits begin at zero",
        example='"/var/lib/streamer/usage.json"',
    )
    max_message: int = setting(
        Whole(*MESSAGE_BOUNDS, metavar="BYTES", unit="bytes"),
        _SHARES,
        "The largest message of a client.",
        LARGEST_MESSAGE,
    )
    uploads: int = setting(
        Whole(*MOST_UPLOADS_BOUNDS, metavar="N"),
        _SHARES,
        "The most recordings that are decoded at a time, for uploads and live sessions together; 0: no uploads.",
        MOST_UPLOADS,
    )
    max_upload: int = setting(
        Whole(*UPLOAD_BOUNDS, metavar="BYTES", unit="bytes"),
        _SHARES,
        "The largest recording that can be uploaded.",
        LARGEST_UPLOAD,
    )
    longest_upload: float = setting(
        Number(*LONGEST_UPLOAD_BOUNDS_S, metavar="SECONDS", unit="seconds"),
        _SHARES,
        "The longest recording that can be uploaded.",
        LONGEST_UPLOAD_S,
    )
    handshake_limit: float = setting(
        _WAIT, _SHARES, "How long the TLS handshake may take, and then the first request.", HANDSHAKE_LIMIT_S
    )
    start_limit: float = setting(
        _WAIT, _SHARES, "How long a client may take to send 'start' after it connected.", START_LIMIT_S
    )
    idle_limit: float = setting(_WAIT, _SHARES, "How long a client may send neither audio nor keepalive.", IDLE_LIMIT_S)
    resume_limit: float = setting(
        Number(0, LONGEST_LIMIT_S, "SECONDS", unit="seconds"),
        _SHARES,
        "How long a client may take to resume its session after it lost the connection; 0 ends the session at once.",
        RESUME_LIMIT_S,
    )

    triton: tuple[str, ...] = setting(
        ListOf(Text("an address of a Triton, HOST:PORT", "HOST:PORT", _address)),
        _ELSEWHERE,
        "The gRPC addresses of Tritons that already run; a name may resolve to several addresses.",
        (),
        unset="an embedded Triton is started",
        example='["gpu1:8001", "gpu2:8001"]',
    )
    resolve_every: float = setting(
        Number(*RESOLVE_BOUNDS_S, metavar="SECONDS", unit="seconds"),
        _ELSEWHERE,
        "How often the names of these Tritons are looked up again.",
        RESOLVE_EVERY_S,
    )
    triton_tls: bool = setting(Switch(), _ELSEWHERE, "Use TLS to connect to these Tritons.", False)
    triton_ca: Path | None = setting(
        FilePath(),
        _ELSEWHERE,
        "The root certificates to verify these Tritons.",
        unset="the root certificates of gRPC",
        example='"/etc/streamer/roots.pem"',
    )
    triton_cert: Path | None = setting(
        FilePath(),
        _ELSEWHERE,
        "The certificate of this service, for Tritons that require one.",
        unset="none",
        example='"/etc/streamer/client.pem"',
    )
    triton_key: Path | None = setting(
        FilePath(),
        _ELSEWHERE,
        "The private key of that certificate.",
        unset="none",
        example='"/etc/streamer/client-key.pem"',
    )
    triton_metadata: Path | None = setting(
        FilePath(),
        _ELSEWHERE,
        "A file with lines 'name: value' to send with every call, for example a key.",
        unset="none",
        example='"/etc/streamer/triton.keys"',
    )

    store: str | None = setting(
        Text("an address such as redis://store:6379, rediss://store:6379 or unix:///run/redis.sock", "URL", _store),
        _BRIDGES,
        "Count keys, addresses, audio and hotwords together with the other bridges at this store, which speaks Redis' "
        "protocol, and let sessions go on at any of them. A password may be in the URL: give it in a file then.",
        unset="each bridge counts only its own sessions",
        example='"rediss://store:6379"',
    )
    store_secret: Path | None = setting(
        FilePath(),
        _BRIDGES,
        "The file with a secret of all these bridges, with which they sign what is in the store.",
        unset="none",
        example='"/etc/streamer/store-secret"',
    )

    drain_limit: float = setting(
        Number(0, LONGEST_DRAIN_S, "SECONDS", unit="seconds"),
        _RUNNING,
        "How long sessions may go on after SIGTERM; then the remaining ones get their finals and end.",
        DRAIN_LIMIT_S,
    )
    log_format: str = setting(Choice(*FORMATS), _RUNNING, "The format of the log on standard error.", FORMATS[0])
    log_level: str = setting(Choice(*LEVELS), _RUNNING, "The lowest level that is logged.", "info")
    traces: str | None = setting(
        Text("an address such as http://collector:4317", "URL", _collector),
        _RUNNING,
        "Send OpenTelemetry traces to this collector (OTLP over gRPC).",
        unset="none, unless OpenTelemetry's own variables name one",
        example='"http://collector:4317"',
    )


SETTINGS: Final[dict[str, Setting]] = settings_of(ServeSettings)
