// Changes a word of a final in place, after a double click or F2.

/** Enter, or a click elsewhere, takes the new text. Escape keeps the old word. An empty text deletes the word. */
export class WordEditor {
    #change;

    /** @param {HTMLElement} finals @param {(element: HTMLElement, text: string) => void} change */
    constructor(finals, change) {
        this.#change = change;
        finals.addEventListener("dblclick", (event) => this.#begin(wordOf(event)));
        finals.addEventListener("keydown", (event) => {
            const word = wordOf(event);
            if (event.key !== "F2" || !word) return;
            event.preventDefault();
            this.#begin(word);
        });
    }

    /** @param {HTMLElement | null} word */
    #begin(word) {
        if (!word || word.isContentEditable) return;
        const before = word.textContent ?? "";
        const ending = new AbortController();
        const end = (/** @type {string} */ text) => {
            ending.abort();
            word.removeAttribute("contenteditable");
            word.removeAttribute("role");
            word.ariaLabel = null;
            word.textContent = before;
            getSelection()?.removeAllRanges();
            if (text !== before) this.#change(word, text);
        };
        word.contentEditable = "plaintext-only";
        word.role = "textbox";
        word.ariaLabel = "Change the word";
        word.focus();
        getSelection()?.selectAllChildren(word);
        const {signal} = ending;
        word.addEventListener("blur", () => end(written(word)), {signal});
        word.addEventListener("keydown", (event) => {
            // The transcript and the page must not react to these keys.
            event.stopPropagation();
            if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
            event.preventDefault();
            end(event.key === "Enter" ? written(word) : before);
            word.focus();
        }, {signal});
    }
}

/** @param {Event} event @returns {HTMLElement | null} */
function wordOf(event) {
    return /** @type {Element} */ (event.target).closest(".word");
}

/** @param {HTMLElement} word */
function written(word) {
    return (word.textContent ?? "").replace(/\s+/g, " ").trim();
}
