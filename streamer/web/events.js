/**
 * The types of the messages of a session, for a type checker. No page loads this file.
 * `python scripts/docs/event_types.py` makes it from `streamer/base/events.py`. Do not change it by hand.
 */

/**
 * A word that may still change.
 * @typedef {object} PartialWord
 * @property {string} word
 * @property {number} start_ms
 * @property {number} end_ms
 * @property {string} [spoken] with `written`: the word as it was spoken
 * @property {number} [speaker] with `speakers`: who says it, counted from 0
 */

/**
 * A word of a final.
 * @typedef {object} Word
 * @property {string} word
 * @property {number} start_ms
 * @property {number} end_ms
 * @property {string} [spoken] with `written`: the word as it was spoken
 * @property {number} [speaker] with `speakers`: who says it, counted from 0
 * @property {number} confidence
 */

/**
 * Another possible text of a final.
 * @typedef {object} Alternative
 * @property {string} text
 * @property {number} confidence its probability among the alternatives
 */

/**
 * A time in which a speaker speaks.
 * @typedef {object} SpeakerTurn
 * @property {number} start_ms
 * @property {number} end_ms
 * @property {number} speaker
 */

/**
 * The session is open, or it goes on after a lost connection.
 * @typedef {object} Ready
 * @property {"ready"} type
 * @property {number} n
 * @property {string} session
 * @property {string} token
 * @property {string} model the public name that the session asked for
 * @property {string} triton_model the Triton model that this name means at present
 * @property {number} sample_rate
 * @property {number} from_sample
 */

/**
 * The text of the running segment so far. Its first `stable` characters will not change.
 * @typedef {object} Partial
 * @property {"partial"} type
 * @property {number} n
 * @property {number} segment
 * @property {string} text
 * @property {number} stable
 * @property {number} start_ms
 * @property {number} audio_ms
 * @property {PartialWord[]} [words] with `partial_words`
 * @property {number} [channel] with `multichannel`
 */

/**
 * The text of a finished segment, which never changes.
 * @typedef {object} Final
 * @property {"final"} type
 * @property {number} n
 * @property {number} segment
 * @property {string} text
 * @property {number} start_ms
 * @property {number} end_ms
 * @property {number} audio_ms
 * @property {number} confidence
 * @property {Word[]} [words] unless `words` is off
 * @property {string} [spoken] with `written`: the text as it was spoken
 * @property {Alternative[]} [alternatives] with `alternatives`
 * @property {number} cut_ms audio from here on belongs to later segments
 * @property {number} [channel] with `multichannel`
 * @property {number} [turn] the probability that the turn was over, if the end of a turn ended the segment
 * @property {"first_pass" | "second_pass" | "reader"} [read_by] with `second_pass`: which pass has read the words
 * @property {number} [speaker] with `speakers`: who says most of its words
 * @property {string} [language] with `language` `"auto"`: what was spoken, such as `de`, if a reader found it out
 */

/**
 * Somebody began or stopped speaking.
 * @typedef {object} Speech
 * @property {"speech"} type
 * @property {number} n
 * @property {"start" | "end"} state
 * @property {number} at_ms
 * @property {number} [channel] with `multichannel`
 */

/**
 * With `turns`: a turn is probably over, goes on after all, or is over.
 * @typedef {object} Turn
 * @property {"turn"} type
 * @property {number} n
 * @property {"eager" | "resumed" | "end"} state
 * @property {number} segment
 * @property {number} probability
 * @property {number} audio_ms
 * @property {number} [channel] with `multichannel`
 */

/**
 * A result of a head that the operator has added to the model, such as a keyword.
 * @typedef {object} HeadEvent
 * @property {"head"} type
 * @property {number} n
 * @property {string} name the name of the head
 * @property {number} at_ms
 * @property {Record<string, any>} content
 * @property {number} [channel] with `multichannel`
 */

/**
 * The answer to a flush: everything up to here is final.
 * @typedef {object} Flushed
 * @property {"flushed"} type
 * @property {number} n
 * @property {number} audio_ms
 */

/**
 * The length of the audio that has been recognised so far.
 * @typedef {object} Heard
 * @property {"heard"} type
 * @property {number} n
 * @property {number} audio_ms
 */

/**
 * The session goes on after the recogniser failed.
 * @typedef {object} Recovered
 * @property {"recovered"} type
 * @property {number} n
 * @property {number} gap_ms
 */

/**
 * With `speakers`: two speakers turned out to be one. All words so far of `speaker` are of `into`.
 *
 * This comes at most once in a channel, and `speaker` speaks no more.
 * @typedef {object} SpeakerMerge
 * @property {"speaker_merge"} type
 * @property {number} n
 * @property {number} speaker
 * @property {number} into
 * @property {number} [channel] with `multichannel`
 */

/**
 * With `speakers`, at the end of a recording: who speaks when, after a second look at the whole of it.
 *
 * It replaces the speakers in all finals: a word belongs to the turn in which most of it lies.
 * @typedef {object} Speakers
 * @property {"speakers"} type
 * @property {number} n
 * @property {SpeakerTurn[]} turns
 * @property {number} [channel] with `multichannel`
 */

/**
 * An error. If it is `fatal`, the session ends.
 * @typedef {object} Error
 * @property {"error"} type
 * @property {number} n
 * @property {string} code
 * @property {string} message
 * @property {boolean} fatal
 */

/**
 * The end: all of the audio has been recognised.
 * @typedef {object} Done
 * @property {"done"} type
 * @property {number} n
 * @property {number} audio_ms
 */

/** @typedef {Ready | Partial | Final | Speech | Turn | HeadEvent | Flushed | Heard | Recovered | SpeakerMerge | Speakers | Error | Done} Event */

export {};
