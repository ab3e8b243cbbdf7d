"""What a client of Azure's Speech SDK asks for: in the query, and in the message `speech.context`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.limits import AFTER_TEXT_BOUNDS_MS, LANGUAGE, LONGEST_SEGMENT_BOUNDS_MS
from streamer.base.names import is_english, same_language
from streamer.wire.dialects import client_values
from streamer.wire.dialects.dialect import Languages, session_language
from streamer.wire.dialects.turn_by_turn import within
from streamer.wire.errors import bad
from streamer.wire.options import hints

# What the service does with the options of the query: a page shows this, and a test compares both.
OPTIONS: Final = {
    "language": "what is spoken; what the model lacks is refused",
    "cid": "the public name of a model; any other name means `default`",
    "format": "`detailed`: finals have `NBest`",
    "wordLevelTimestamps": "finals have words with their times, and `NBest`",
    "wordLevelConfidence": "these words have their confidence",
    "profanity": "`masked` (also without it): swear words have only their first letter; `removed`; `raw`",
    "initialSilenceTimeoutMs": "a turn without a word ends after so much audio, if it recognises once: 5000 without it",
    "segmentationSilenceTimeoutMs": "the silence that ends a phrase: 400 to 10000, or the nearest of these; 1000 "
    "without it",
    "endSilenceTimeoutMs": "the same, without the option above",
    "segmentationMaximumTimeMs": "the longest phrase: 6000 to 60000, or the nearest of these; 20000 without it",
    "segmentationStrategy": "`semantic`: the words decide where a phrase ends",
    "stableIntermediateThreshold": "above 1: text that may change is shown when two steps agree on it",
}
# The same for what the message `speech.context` may have besides.
CONTEXT: Final = {
    "phraseDetection.mode": "`Interactive`: the turn ends with its first phrase. `Conversation`, `Dictation`: it does "
    "not. Without it, the path says so",
    "phraseDetection.language": "as `language`",
    "phraseDetection.initialSilenceTimeout": "as `initialSilenceTimeoutMs`",
    "phraseDetection.trailingSilenceTimeout": "as `endSilenceTimeoutMs`",
    "phraseDetection.interactive.segmentation": "the options of segmentation; the same below `conversation` and "
    "`dictation`",
    "phraseDetection.enrichment.profanity": "as `profanity`",
    "phraseDetection.speakerDiarization.mode": "any but `None`: finals have a `SpeakerId`",
    "phraseOutput.format": "as `format`",
    "phraseOutput.detailed.options": "`WordTimings` as `wordLevelTimestamps`, `WordConfidence` as "
    "`wordLevelConfidence`",
    "phraseOutput.interimResults.resultType": "`None`: no text that may change",
    "phraseOutput.interimResults.stableThreshold": "as `stableIntermediateThreshold`",
    "dgi": "the phrases of its groups are hotwords",
    "languageId.languages": "what may be spoken: a model of several languages finds it out, any other takes the first "
    "that it has",
    "phraseDetection.enrichment.pronunciationAssessment": "refused: pronunciation is not assessed",
    "phraseDetection.enrichment.contentAssessment": "refused: content is not assessed",
    "phraseDetection.sentimentAnalysis": "refused: only words are recognised",
    "translation": "refused: nothing is translated",
    "intent": "refused: only words are recognised",
}
_REFUSED: Final = {name: why.removeprefix("refused: ") for name, why in CONTEXT.items() if why.startswith("refused: ")}
# The longest body of that message, in characters: the original takes 500 phrases.
LONGEST_CONTEXT: Final = 256 * 1024
INTERACTIVE: Final = "interactive"
DICTATION: Final = "dictation"
MODES: Final = (INTERACTIVE, "conversation", DICTATION)
TEXTS: Final = 5  # of a detailed final
_PROFANITY: Final = {"raw": "keep", "tagged": "keep", "labeled": "keep", "removed": "remove"}
_USUAL_SILENCE_MS: Final = 5000


@dataclass(frozen=True)
class Wishes:
    """What a client asks for in the query and in speech.context."""

    options: JsonObject  # of a session
    once: bool
    detailed: bool
    word_times: bool
    word_confidence: bool
    speakers: bool
    silence_ms: int  # the longest one before the first word; 0: any
    language: str  # that of a client that named several; "": it is not known


def context_of(body: str) -> JsonObject:
    """Read the body of `speech.context`. Raise WireError if it is no object."""
    context = client_values.command_of(body, LONGEST_CONTEXT)
    if context is None:
        why = f"The body of 'speech.context' must be a JSON object of at most {LONGEST_CONTEXT} characters."
        raise bad(ErrorCode.BAD_MESSAGE, why)
    return context


def wishes(mode: str, query: Mapping[str, str], context: JsonObject, models: Mapping[str, Languages]) -> Wishes:
    """Return what a client asks for. Raise WireError if it makes no sense, or is not done here.

    `mode`: the one of the path. `query`: by names in lower case. What the context says wins over it.
    """
    for name, why in _REFUSED.items():
        if _at(context, name):
            raise bad(ErrorCode.UNSUPPORTED, f"'{name}' is not supported: {why}. Leave it out.")
    mode = str(_at(context, "phraseDetection.mode") or mode).lower()
    once = mode == INTERACTIVE
    options = _at(context, "phraseOutput.detailed.options")
    wanted = [str(option).lower() for option in options] if isinstance(options, list) else []
    word_confidence = "wordconfidence" in wanted or _flag(query, "wordLevelConfidence")
    word_times = word_confidence or "wordtimings" in wanted or _flag(query, "wordLevelTimestamps")
    format = _either(context, "phraseOutput.format", query, "format")
    detailed = word_times or str(format).lower() == "detailed"
    speakers = str(_at(context, "phraseDetection.speakerDiarization.mode") or "none").lower() != "none"
    silence = _either(context, "phraseDetection.initialSilenceTimeout", query, "initialSilenceTimeoutMs")
    silence_ms = 0
    if once:
        silence_ms = _USUAL_SILENCE_MS if silence is None else _whole("initialSilenceTimeout", silence)
    threshold = _either(context, "phraseOutput.interimResults.stableThreshold", query, "stableIntermediateThreshold")
    stable = threshold is not None and _whole("stableThreshold", threshold) > 1
    profanity = _either(context, "phraseDetection.enrichment.profanity", query, "profanity")
    hotwords, endpoint = hints(_phrases(context)), _endpoint(mode, query, context)
    model = query.get("cid") or query.get("model", "")
    languages = client_values.languages_of(model, models)
    language, language_of_several = _language(query, context, languages)
    return Wishes(
        options={
            "model": model,
            "language": language,
            "partials": str(_at(context, "phraseOutput.interimResults.resultType") or "").lower() != "none",
            "dictation": mode == DICTATION,
            "profanity": _PROFANITY.get(str(profanity).lower(), "mask"),
            "alternatives": TEXTS if detailed else 0,
            **({"hotwords": hotwords} if hotwords else {}),
            **({"endpoint": endpoint} if endpoint else {}),
            **({"speakers": True} if speakers else {}),
            **({"stability": "medium"} if stable else {}),
        },
        once=once,
        detailed=detailed,
        word_times=word_times,
        word_confidence=word_confidence,
        speakers=speakers,
        silence_ms=silence_ms,
        language=language_of_several,
    )


def _endpoint(mode: str, query: Mapping[str, str], context: JsonObject) -> JsonObject:
    """Return when a phrase ends."""
    segmentation = f"phraseDetection.{mode}.segmentation"
    silence = _either(
        context, f"{segmentation}.segmentationSilenceTimeoutMs", query, "segmentationSilenceTimeoutMs"
    ) or _either(context, "phraseDetection.trailingSilenceTimeout", query, "endSilenceTimeoutMs")
    longest = _either(context, f"{segmentation}.segmentationForcedTimeoutMs", query, "segmentationMaximumTimeMs")
    strategy = _either(context, f"{segmentation}.mode", query, "segmentationStrategy")
    endpoint: JsonObject = {}
    if silence:
        endpoint["after_text_ms"] = within(_whole("segmentationSilenceTimeoutMs", silence), AFTER_TEXT_BOUNDS_MS)
    elif str(strategy).lower() == "semantic":
        endpoint["turn"] = True
    if longest:
        endpoint["longest_ms"] = within(_whole("segmentationMaximumTimeMs", longest), LONGEST_SEGMENT_BOUNDS_MS)
    return endpoint


def _language(query: Mapping[str, str], context: JsonObject, languages: Languages) -> tuple[str, str]:
    """Return the language of a session, and the one that the client is told if it named several."""
    several = _at(context, "languageId.languages")
    if not several:
        named = _either(context, "phraseDetection.language", query, "language")
        return session_language("language", [str(named or "")], languages), ""
    names = client_values.texts("languageId.languages", several)
    if languages and LANGUAGE in languages and len(names) > 1:
        return LANGUAGE, ""
    names = [LANGUAGE if name.lower() == "und" else name for name in names]
    language = session_language("languageId.languages", names, languages)
    if languages == ():
        return language, next(filter(is_english, names), "")
    return language, next((name for name in names if same_language(name, [language]) and language != LANGUAGE), "")


def _phrases(context: JsonObject) -> Iterator[object]:
    """Yield the phrases of a dynamic grammar."""
    groups = _at(context, "dgi.groups")
    for group in groups if isinstance(groups, list) else ():
        items = _at(group, "items")
        for item in items if isinstance(items, list) else ():
            yield _at(item, "text")


def _at(content: object, path: str) -> object:
    """Return the value at a path of names, whose case does not matter; None if there is none."""
    for name in path.lower().split("."):
        if not isinstance(content, dict):
            return None
        content = next((value for key, value in content.items() if key.lower() == name), None)
    return content


def _either(context: JsonObject, path: str, query: Mapping[str, str], name: str) -> object:
    """Return the value at a path of the context, or else the one of the query; None if there is none."""
    value = _at(context, path)
    return query.get(name.lower()) if value is None else value


def _flag(query: Mapping[str, str], name: str) -> bool:
    return client_values.flag(name, query.get(name.lower()))


def _whole(name: str, value: object) -> int:
    return client_values.whole(name, value, (0, 1_000_000))
