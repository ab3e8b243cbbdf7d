"""The options of a session, each declared once: its values, its default, its meaning, and its names elsewhere. Pure.

From here come the checks of the wire and of the engine, the arguments of commands, OpenAPI, the tables of the reference
(`scripts/docs/options_page.py`), the options of Deepgram's clients, and the types of the clients. CONTRIBUTING.md says
how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamer.base.limits import (
    AFTER_TEXT_BOUNDS_MS,
    AFTER_TEXT_MS,
    ALTERNATIVES,
    DEFAULT_MODEL,
    EAGERNESS,
    EAGERNESSES,
    HEAVIEST_HOTWORD,
    HOTWORD_WEIGHT,
    LANGUAGE,
    LONGEST_CALLER,
    LONGEST_HOTWORD,
    LONGEST_LANGUAGE,
    LONGEST_PAUSE_BOUNDS_MS,
    LONGEST_PAUSE_MS,
    LONGEST_PROMPT,
    LONGEST_SEGMENT_BOUNDS_MS,
    LONGEST_SEGMENT_MS,
    LONGEST_SPEAKER_NAME,
    LONGEST_WEBHOOK,
    MOST_ALTERNATIVES,
    MOST_CHANNELS,
    MOST_CONTEXT_WORDS,
    MOST_HOTWORD_WORDS,
    MOST_HOTWORDS,
    MOST_SPEAKERS,
    OFF,
    READER,
    SAMPLE_RATES,
    SEARCH,
    SEARCHES,
    SETTLE_BOUNDS_MS,
    SETTLE_MS,
    STABILITIES,
    STABILITY,
    STEP_MS,
    STEPS_MS,
    VOICE_BOUNDS_S,
    WITHOUT_TEXT_BOUNDS_MS,
    WITHOUT_TEXT_MS,
)
from streamer.base.option_kinds import (
    Argument,
    Choice,
    Control,
    Flag,
    FlagOr,
    FlagOrWhole,
    Foreign,
    Group,
    Number,
    Option,
    Phrase,
    Service,
    Structure,
    Text,
    Whole,
    declared_options,
    option,
)

_ON_OR_OFF: Final = {True: True, False: False}
_BOUNDS: Final = "{0[0]} to {0[1]}".format

# Bytes of a sample. mulaw and alaw have one byte each; streamer.audio decodes them.
SAMPLE_BYTES: Final = {"pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1}
ENCODINGS: Final = tuple(SAMPLE_BYTES)


@dataclass(frozen=True)
class Endpoint:
    """How long a pause must be to end a segment. Without `silence`, a segment ends only at its greatest length.

    With `turn`, the words decide how long the pause after them must be: at most `longest_pause_ms`.
    """

    silence: bool = option(True, Flag(), "whether a silence ends a segment at all")
    after_text_ms: int = option(
        AFTER_TEXT_MS,
        Whole(AFTER_TEXT_BOUNDS_MS, unit="ms"),
        f"the silence after words: {_BOUNDS(AFTER_TEXT_BOUNDS_MS)}",
    )
    without_text_ms: int = option(
        WITHOUT_TEXT_MS,
        Whole(WITHOUT_TEXT_BOUNDS_MS, unit="ms"),
        "the silence after which a segment without any words is replaced by a new one: "
        f"{_BOUNDS(WITHOUT_TEXT_BOUNDS_MS)}",
    )
    longest_ms: int = option(
        LONGEST_SEGMENT_MS,
        Whole(LONGEST_SEGMENT_BOUNDS_MS, unit="ms"),
        f"a segment of this length is cut at a gap between words: {_BOUNDS(LONGEST_SEGMENT_BOUNDS_MS)}. This cannot "
        "be switched off",
    )
    turn: bool = option(
        False,
        Flag(),
        "`true`: the words decide which pause ends the segment, see below. Not together with `after_text_ms` or "
        '`"silence":false`',
    )
    eagerness: str = option(
        EAGERNESS,
        Choice(*EAGERNESSES),
        'only with `turn`: `"low"` waits longer, `"high"` answers sooner',
    )
    longest_pause_ms: int = option(
        LONGEST_PAUSE_MS,
        Whole(LONGEST_PAUSE_BOUNDS_MS, unit="ms"),
        "only with `turn`: a pause of this length ends the segment whatever was said: "
        f"{_BOUNDS(LONGEST_PAUSE_BOUNDS_MS)}",
    )


@dataclass(frozen=True)
class Hotword:
    """A word or phrase to listen for; 1 is the usual weight, 0 changes nothing."""

    text: str = option("", Phrase(MOST_HOTWORD_WORDS, LONGEST_HOTWORD), "the word or phrase")
    weight: float = option(HOTWORD_WEIGHT, Number((0, HEAVIEST_HOTWORD)), "how much it is preferred")


@dataclass(frozen=True)
class Resume:
    """The session to continue, and the number of the last message that the client received from it."""

    token: str = option("", Text(), "the token of the session", secret=True)
    after: int = option(0, Whole((0, 2**53)), "the `n` of the last message")


# The classes have no methods, which their subclasses get: one of the wire, and one of the engine.


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ServiceOptions:
    """What a client sets and the service acts on. The recogniser always gets one channel of 16 kHz.

    It gets the context of its channel in another way, together with the other fields of a cut.
    """

    encoding: str = option(
        "pcm_s16le",
        Choice(*ENCODINGS),
        "the body is bare samples in this encoding, without a header",
        '`"pcm_s16le"`: signed 16-bit samples; `"pcm_f32le"`: 32-bit floats, full scale 1; both little-endian. '
        '`"mulaw"`, `"alaw"`: the two encodings of G.711, one byte per sample',
        group=Group.AUDIO,
    )
    sample_rate: int = option(
        16_000,
        Whole(SAMPLE_RATES, unit="Hz"),
        "the rate of bare samples",
        f"{_BOUNDS(SAMPLE_RATES)}, any whole number",
        group=Group.AUDIO,
    )
    channels: int = option(
        1,
        Whole((1, MOST_CHANNELS)),
        "the number of channels of bare samples",
        f"1 to {MOST_CHANNELS}, interleaved",
        group=Group.AUDIO,
    )
    multichannel: bool = option(
        False,
        Flag(),
        "recognise each channel separately",
        "`false`: channels are mixed. `true`: each is recognised separately, see [Channels](#channels)",
        group=Group.AUDIO,
        foreign=(
            Foreign(
                Service.DEEPGRAM,
                "multichannel",
                "each channel is recognised separately; otherwise they are mixed",
                _ON_OR_OFF,
            ),
        ),
    )
    live: bool = option(
        False,
        Flag(),
        "the audio is being spoken now",
        "`true`: the audio is being spoken now, see [Pace](#pace)",
        group=Group.AUDIO,
        recordings=False,
    )
    model: str = option(
        DEFAULT_MODEL,
        Text(),
        "the public name of a model",
        "the public name of one of the models of the service. An unknown name is refused with `unknown_model` and the "
        "list of models",
        group=Group.RECOGNITION,
        foreign=(
            Foreign(
                Service.DEEPGRAM, "model", "the public name of a model of the service; any other name means `default`"
            ),
            Foreign(Service.OPENAI, "model", "A public name of a model; any other name means the default model."),
        ),
    )
    speakers: bool | int = option(
        False,
        FlagOrWhole((2, MOST_SPEAKERS)),
        "tell the speakers apart; a number says how many there are",
        "tell the speakers apart, see [Speakers](#speakers). A number says how many there are; with `true` the service "
        "finds out",
        group=Group.RECOGNITION,
        argument=Argument(("--speakers",), "N"),
    )
    speaker_names: tuple[str, ...] = option(
        (),
        Structure(list, f"a list of at most {MOST_SPEAKERS} names", python="Sequence[str]", javascript="string[]"),
        "the names of the speakers by their numbers, with commas in between or as JSON",
        f"the names of the speakers by their numbers, at most {MOST_SPEAKERS} of {LONGEST_SPEAKER_NAME} characters; "
        "an empty one for a speaker without a name. They stand in captions and in the formats of uploads, not in "
        "finals. The message `speaker_names` changes them",
        group=Group.RECOGNITION,
    )
    voices: tuple[object, ...] = option(
        (),
        Structure(
            list,
            f"a list of at most {MOST_SPEAKERS} voices",
            python="Sequence[Mapping[str, str]]",
            javascript="{name: string, audio: string}[]",
        ),
        "voices that are known: each with a name and a short recording",
        'voices that are known, each `{"name","audio"}`: a recording of nobody else, '
        f"{_BOUNDS(VOICE_BOUNDS_S)} s of 16-bit samples at 16 kHz, as base64. They are the first speakers, in this "
        "order, and their names are those of `speaker_names` if there are no others. They are kept as long as the "
        "session. Only with `speakers`",
        group=Group.RECOGNITION,
        recordings=False,
    )
    context: tuple[object, ...] = option(
        (),
        Structure(list, "a list", python="Sequence[Mapping[str, Any] | None]", javascript="(object | null)[]"),
        "for each channel the context of the last final of another session, or null",
        "for each channel the `context` of the last final of another session, or `null`, see [When the service "
        "restarts](#when-the-service-restarts)",
        recordings=False,
    )
    webhook: str = option(
        "",
        Text(LONGEST_WEBHOOK, pattern=r"https?://\S+|", right="an address with http or https"),
        "the address to which the words are posted as well, if the service allows it",
        "an address to which each final is posted as well, see [webhooks](../how-to/webhooks.md). It is refused with "
        "`bad_option` unless the service allows it",
    )
    resume: object = option(
        None,
        Structure(dict, "an object", python="Mapping[str, Any]", javascript="{token: string, after: number}"),
        "the session to continue",
        group=Group.SESSION,
        recordings=False,
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class RecogniserOptions:
    """What a client sets and the recogniser acts on."""

    step_ms: int = option(
        STEP_MS,
        Choice(*STEPS_MS, unit="ms"),
        "how much audio is recognised at once",
        "the audio that is computed at a time: 160, 320 or 640. A shorter step answers sooner, a longer one is a "
        "little more accurate",
        group=Group.RECOGNITION,
        argument=Argument(("--step-ms",)),
        public="the recogniser takes the only step of the model, for most 320 ms. Audio still reaches it in pieces of "
        "`step_ms`, so 160 shows words a little earlier",
    )
    search: str = option(
        SEARCH,
        Choice(*SEARCHES),
        "recognise words of the lexicon, or spell out what is heard",
        '`"lexicon"`: words of the lexicon, weighed by a language model; `"greedy"`: the most likely letters, in any '
        "spelling, without lexicon and language model. A [public model](../how-to/models.md) has "
        '`"greedy"`, the likeliest tokens, and `"beam"`, several sequences of tokens; for `"lexicon"` it takes '
        '`"beam"` if there are hotwords, otherwise `"greedy"`',
        group=Group.RECOGNITION,
        argument=Argument(
            ("--search",),
            help=f"recognise words of the lexicon, or spell out what is heard ({SEARCH}); "
            "public models have greedy (their usual one) and beam",
        ),
        public='`"greedy"` or `"beam"`. `"lexicon"`, the default, means `"greedy"`, or `"beam"` with hotwords. Others '
        "are refused with `bad_option`",
    )
    language: str = option(
        LANGUAGE,
        Text(
            LONGEST_LANGUAGE,
            pattern="[A-Za-z0-9_-]+",
            right=f'"{LANGUAGE}" or the name of a language such as "de" or "de-DE"',
        ),
        "the language that is spoken, such as de or de-DE, for a model that has several, and en for others; with "
        f"{LANGUAGE} the model finds out itself",
        'the language that is spoken, such as `"de"` or `"de-DE"`, for a [public model](../how-to/nemotron.md) that '
        'has several. `"auto"`: the model finds out itself, or has only one. A model without a choice takes `"auto"` '
        'and English (`"en"`, `"en-US"` …). A language that the model lacks is refused with `bad_option` and the list '
        "of those that it has",
        group=Group.RECOGNITION,
        argument=Argument(("--language",), "CODE"),
        public='what the model is told, if it has several languages. Other models take only `"auto"` and English, and '
        "refuse the rest with `bad_option`",
        foreign=(
            Foreign(
                Service.DEEPGRAM,
                "language",
                "what is spoken, such as `de` or `de-DE`, for a model of several languages. `multi`, or nothing: "
                "it finds out. Any other model takes only English (`en`, `en-US` …) or `multi`. What the model lacks "
                "is refused",
            ),
            Foreign(Service.OPENAI, "language", "The language, such as en; without it, the model decides."),
        ),
    )
    translate: bool = option(
        False,
        Flag(),
        "write in English what is said in another language, if the service has a reader for that",
        "write in English what is said in another language. It needs [a reader of many "
        "languages](../explanation/reader.md#whisper); without one it is refused with `bad_option`. The words and "
        "their times are those of the reader",
        group=Group.RECOGNITION,
        argument=Argument(("--translate",)),
        public="refused with `bad_option`: these models translate nothing",
    )
    prompt: str = option(
        "",
        Text(LONGEST_PROMPT, right=f"at most {LONGEST_PROMPT} characters"),
        "what was said before, or names as they are written, for a reader that takes it as an example",
        f"up to {LONGEST_PROMPT} characters that [Whisper as a reader](../explanation/reader.md#whisper) takes as what "
        "was said before: names as they are written, or an example of the style. Anything else ignores it",
        group=Group.RECOGNITION,
        argument=Argument(("--prompt",), "TEXT"),
        public="no effect",
        foreign=(Foreign(Service.OPENAI, "prompt", "What was said before, for Whisper as a reader; before the file."),),
    )
    hotwords: tuple[object, ...] = option(
        (),
        Structure(
            list,
            f"a list of at most {MOST_HOTWORDS} phrases",
            python="Sequence[str | Mapping[str, Any]]",
            javascript="(string | {text: string, weight?: number})[]",
        ),
        "words to listen for, with commas in between, or the list of the protocol as JSON",
        f'up to {MOST_HOTWORDS} names or phrases to listen for, each a string or `{{"text","weight"}}`. A text has '
        f"1 to {MOST_HOTWORD_WORDS} words and at most {LONGEST_HOTWORD} characters; words that the lexicon lacks are "
        'pronounced by their letters. A hotword with digits, such as `"K8s"`, is pronounced as its letters and digits '
        f"(in at most {MOST_HOTWORD_WORDS} words), and results have it as it was given. The weight is 0 to "
        f"{HEAVIEST_HOTWORD:g}: {HOTWORD_WEIGHT:g} is the usual one, 0 has no effect, {HEAVIEST_HOTWORD:g} forces the "
        'hotword. Not with `"search":"greedy"`. A public model refuses hotwords for which it has no tokens. Hotwords '
        "are prepared before `ready`. A few take no noticeable time; the longest list takes about a second, and longer "
        "while other sessions ask for such lists too. Audio may be sent meanwhile",
        group=Group.RECOGNITION,
        argument=Argument(("--hotwords", "--hotword")),
        public='only with `"beam"`; refused with `bad_option` if the model has no tokens for one, or no beam',
        foreign=(
            Foreign(Service.DEEPGRAM, "keyterm", "a hotword"),
            Foreign(
                Service.DEEPGRAM,
                "keywords",
                "a hotword; a boost up to 5 is its weight, and one of 0 or less is ignored",
            ),
            Foreign(Service.OPENAI, "keywords[]", "Words to listen for; before the file."),
        ),
    )
    endpoint: object = option(
        Endpoint(),
        Structure(
            dict,
            f'"{OFF}" or an object',
            python='Literal["off"] | Mapping[str, Any]',
            javascript='"off" | {silence?: boolean, after_text_ms?: number, without_text_ms?: number, '
            'longest_ms?: number, turn?: boolean, eagerness?: "low" | "medium" | "high", longest_pause_ms?: number}',
        ),
        f'when a segment ends: "{OFF}", or the object of the protocol as JSON',
        "when text becomes final, see [Segment ends](#segment-ends)",
        group=Group.RECOGNITION,
        argument=Argument(("--endpoint",), "MS"),
        public="the same, but for `turn` only the length of a pause counts, not the words",
    )
    settle_ms: int = option(
        SETTLE_MS,
        Whole(SETTLE_BOUNDS_MS, also=(0,), unit="ms"),
        f"how long after its end a word may still change: {_BOUNDS(SETTLE_BOUNDS_MS)}, or 0 for no limit",
        "when a word is stable. `0`: once all hypotheses have the same word in its place. "
        f"{_BOUNDS(SETTLE_BOUNDS_MS)}: at the latest this long after its end; hypotheses that disagree then are "
        "dropped",
        group=Group.RECOGNITION,
        argument=Argument(("--settle-ms",)),
        public="no effect with the greedy search, except with Moonshine: only its last word may change",
    )
    second_pass: bool | str = option(
        False,
        FlagOr(READER),
        "read each segment once more as a whole when it has ended: fewer wrong words, but until then any word may "
        f"change; {READER}: by another model, if the service has one",
        "read each segment once more as a whole when it has ended. Of six wrong words, [its final has "
        "five](../explanation/search.md#the-second-pass), but nothing is stable before (`stable` is 0). It costs more "
        "than the first pass, and the final comes a little later. "
        f'`"{READER}"`: by [another model](../explanation/reader.md), which understands strangers better, if the '
        "service has one; otherwise the same as `true`. The field `read_by` of a final says what has read it: if a "
        "busy recogniser has no time within 3 s (10 s for audio that comes faster than speech), the words of the "
        'first pass stay. Not with `settle_ms` or `"stability":"high"`. The commands, uploads, the page, and live '
        f'sessions of the clients of other services ask for `"{READER}"`',
        group=Group.RECOGNITION,
        argument=Argument(
            ("--second-pass",),
            default=f"{READER}, unless --settle-ms or --stability high asks for words that do not",
        ),
        public="no effect: these models cannot read whole segments",
    )
    partials: bool | str = option(
        True,
        FlagOr(READER),
        f"send text while it may still change; {READER}: with the words of a reader, if the service has one",
        "send text while it may still change. "
        f'`"{READER}"`: [a reader](../explanation/reader.md#while-somebody-speaks) reads the running segment again and '
        'again, with `"second_pass":"reader"`. It is one segment at a time, in at most half of the time of the reader, '
        "and only while no ended segment waits for it. Without a reader, the same as `true`",
        argument=Argument(("--partials",)),
        public="the words of the model alone",
    )
    stability: str = option(
        STABILITY,
        Choice(*STABILITIES),
        "which words are shown early: the best guess, those that two steps agree on, or only those that will not "
        "change",
        'which text partials show. `"low"`: the best hypothesis; `"medium"`: the text on which two steps agree; '
        '`"high"`: only stable text, which never changes but comes later',
        argument=Argument(("--stability",)),
    )
    partial_words: bool = option(False, Flag(), "words with times in partials")
    words: bool = option(True, Flag(), "words with times and confidence in finals")
    alternatives: int = option(
        ALTERNATIVES,
        Whole((ALTERNATIVES, MOST_ALTERNATIVES)),
        f"other texts that each final might have had, up to {MOST_ALTERNATIVES}; only json and jsonl show them",
        f"0 to {MOST_ALTERNATIVES}: the number of alternative texts for each final, best first",
        argument=Argument(("--alternatives",), "N"),
        public="at most as many as the search keeps: the greedy one has only its own text, with the confidence 1",
    )
    written: bool = option(
        False,
        Flag(),
        "the written form: marks, capitals, digits, dates, money",
        "the [written form](written.md): marks, capitals, digits, dates, money, abbreviations. The spoken words are "
        "sent as well",
        public="`text` is what the model writes, and `spoken` is the same. A final has no `context`",
        foreign=(
            Foreign(Service.DEEPGRAM, "punctuate", "the written form: marks, capitals, digits. It has one form only"),
            Foreign(Service.DEEPGRAM, "smart_format", "the same as `punctuate` and `paragraphs`"),
            Foreign(Service.DEEPGRAM, "numerals", "the written form in `transcript`, also with marks and capitals"),
        ),
    )
    dictation: bool = option(
        False,
        Flag(),
        "words such as *comma* are written as marks; only with written",
        "*comma*, *full stop* or *period*, *question mark*, *exclamation mark* or *point*, *colon*, *semicolon*, *new "
        "line* and *new paragraph* are written as marks. Only with `written`",
        public="no effect: dictated marks stay words",
        foreign=(Foreign(Service.DEEPGRAM, "dictation", "spoken marks are written, in the written form", _ON_OR_OFF),),
    )
    profanity: str = option(
        "keep",
        Choice("keep", "mask", "remove"),
        "what happens to English swear words: they stay, become f***, or are left out",
        '`"mask"`: of an English swear word only the first letter is written, and asterisks. `"remove"`: it is left '
        "out, and the times of the other words stay; a segment of nothing else has no final. This is so in texts, "
        "words, `spoken` and `alternatives`, but not in `context`, which is not for readers",
        argument=Argument(("--profanity",)),
        control=Control("Swear words", {"keep": "stay", "mask": "become f***", "remove": "are left out"}),
        foreign=(
            Foreign(
                Service.DEEPGRAM,
                "profanity_filter",
                "English swear words have only their first letter, and asterisks",
                {True: "mask", False: "keep"},
            ),
        ),
    )
    speech: bool = option(
        True,
        Flag(),
        "send events when speech begins and ends",
        public="such events come only with Moonshine: other public models do not detect speech without words",
    )
    turns: bool = option(
        False,
        Flag(),
        "send events when a turn is probably over, goes on after all, or is over",
        "send events `turn`, see [The end of a turn](#the-end-of-a-turn)",
        public="as with the shipped model, but only the length of a pause counts",
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class StreamStart:
    """What the service sets and the recogniser acts on. All but reader and caller come from the event `cut`."""

    speaking: bool = option(
        False,
        Flag(),
        "somebody is already speaking where this stream begins",
        "somebody is already speaking where this stream begins. Take it from the event `cut` of the stream that this "
        "one continues",
    )
    told: bool | None = option(
        None, Flag(), "what the last event `speech` of that stream said, from the same event; `null`: as `speaking`"
    )
    begins: bool = option(
        True,
        Flag(),
        "the first word begins a sentence",
        "the first word begins a sentence (this affects `written`). Take it from the same event",
    )
    context: tuple[object, ...] = option(
        (),
        Structure(list, "a list", python="list[Mapping[str, Any]]", javascript="object[]"),
        "the last words before the stream",
        "the last words before the stream, which decide its first marks and capitals: at most "
        f'{MOST_CONTEXT_WORDS} `{{"word","pause_ms"}}`. Take it from the same event',
    )
    reader: bool = option(
        False,
        Flag(),
        "a reader does the second pass",
        "with `second_pass`: the model `reader` of the same Triton reads the segments, if it has weights. What it "
        "cannot read, or does not read in time, comes from the second pass or the first",
    )
    growing: bool = option(
        False,
        Flag(),
        "a reader reads the running segment as well",
        "with `reader`: partials have the words of the reader, which reads the running segment again and again",
    )
    caller: str = option(
        "",
        Text(LONGEST_CALLER, right=f"at most {LONGEST_CALLER} characters"),
        "the owner of the stream",
        f"the owner of the stream, any text of at most {LONGEST_CALLER} characters. Callers get equal shares of the "
        "time for preparations and second passes, and each has a separate memory of prepared words",
    )


SERVICE_OPTIONS: Final = declared_options(ServiceOptions)
RECOGNISER_OPTIONS: Final = declared_options(RecogniserOptions)
STREAM_START: Final = declared_options(StreamStart)
ENDPOINT_OPTIONS: Final = declared_options(Endpoint)
HOTWORD_OPTIONS: Final = declared_options(Hotword)
RESUME_OPTIONS: Final = declared_options(Resume)
# What a client may set, by name.
OPTIONS: Final[dict[str, Option]] = {**SERVICE_OPTIONS, **RECOGNISER_OPTIONS}


def wants_stable_words(options: Mapping[str, object]) -> bool:
    """Return whether these options ask for words that become stable before their segment ends."""
    return bool(options.get("settle_ms", SETTLE_MS)) or options.get("stability", STABILITY) == STABILITIES[-1]


def contradiction(options: Mapping[str, object]) -> str:
    """Return what is wrong with these options together, as a sentence without its full stop. Empty if nothing is."""
    if options.get("second_pass") and wants_stable_words(options):
        return "'second_pass' excludes 'settle_ms' and 'stability' high, because it may change any word"
    if options.get("voices") and not options.get("speakers"):
        return "'voices' need 'speakers'"
    return ""


def foreign_options(service: Service) -> list[tuple[Option, Foreign]]:
    """Return the options that a format of another service carries, each with its name there."""
    return [(each, foreign) for each in OPTIONS.values() for foreign in each.foreign if foreign.service is service]
