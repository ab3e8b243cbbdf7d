// Made by `python scripts/docs/options_page.py`.

/**
 * The options of a session. docs/reference/protocol.md explains them.
 * @typedef {object} Options
 * @property {"pcm_s16le" | "pcm_f32le" | "mulaw" | "alaw"} [encoding] the body is bare samples in this encoding,
 *     without a header
 * @property {number} [sample_rate] the rate of bare samples
 * @property {number} [channels] the number of channels of bare samples
 * @property {boolean} [multichannel] recognise each channel separately
 * @property {boolean} [live] the audio is being spoken now
 * @property {string} [model] the public name of a model
 * @property {boolean | number} [speakers] tell the speakers apart; a number says how many there are
 * @property {string[]} [speaker_names] the names of the speakers by their numbers, with commas in between or as JSON
 * @property {{name: string, audio: string}[]} [voices] voices that are known: each with a name and a short recording
 * @property {(object | null)[]} [context] for each channel the context of the last final of another session, or null
 * @property {string} [webhook] the address to which the words are posted as well, if the service allows it
 * @property {{token: string, after: number}} [resume] the session to continue
 * @property {160 | 320 | 640} [step_ms] how much audio is recognised at once
 * @property {"lexicon" | "greedy" | "beam"} [search] recognise words of the lexicon, or spell out what is heard
 * @property {string} [language] the language that is spoken, such as de or de-DE, for a model that has several, and en
 *     for others; with auto the model finds out itself
 * @property {boolean} [translate] write in English what is said in another language, if the service has a reader for
 *     that
 * @property {string} [prompt] what was said before, or names as they are written, for a reader that takes it as an
 *     example
 * @property {(string | {text: string, weight?: number})[]} [hotwords] words to listen for, with commas in between, or
 *     the list of the protocol as JSON
 * @property {"off" | {silence?: boolean, after_text_ms?: number, without_text_ms?: number, longest_ms?: number, turn?:
 *     boolean, eagerness?: "low" | "medium" | "high", longest_pause_ms?: number}} [endpoint] when a segment ends:
 *     "off", or the object of the protocol as JSON
 * @property {number} [settle_ms] how long after its end a word may still change: 500 to 10000, or 0 for no limit
 * @property {boolean | "reader"} [second_pass] read each segment once more as a whole when it has ended: fewer wrong
 *     words, but until then any word may change; reader: by another model, if the service has one
 * @property {boolean | "reader"} [partials] send text while it may still change; reader: with the words of a reader,
 *     if the service has one
 * @property {"low" | "medium" | "high"} [stability] which words are shown early: the best guess, those that two steps
 *     agree on, or only those that will not change
 * @property {boolean} [partial_words] words with times in partials
 * @property {boolean} [words] words with times and confidence in finals
 * @property {number} [alternatives] other texts that each final might have had, up to 10; only json and jsonl show
 *     them
 * @property {boolean} [written] the written form: marks, capitals, digits, dates, money
 * @property {boolean} [dictation] words such as *comma* are written as marks; only with written
 * @property {"keep" | "mask" | "remove"} [profanity] what happens to English swear words: they stay, become f***, or
 *     are left out
 * @property {boolean} [speech] send events when speech begins and ends
 * @property {boolean} [turns] send events when a turn is probably over, goes on after all, or is over
 */

/** The choices that the page offers without code of its own: the words for each value. */
export const CHOICES = [
    {
        "name": "profanity",
        "label": "Swear words",
        "usual": "keep",
        "values": {
            "keep": "stay",
            "mask": "become f***",
            "remove": "are left out"
        }
    }
];
