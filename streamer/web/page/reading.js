// How the words are shown: the size of the text, and a large view of only the words, to read from afar.

export class Reading {
    #button;
    #settings;

    /** @param {HTMLElement} button of the large view @param {import("./settings.js").Settings} settings */
    constructor(button, settings) {
        [this.#button, this.#settings] = [button, settings];
        button.addEventListener("click", () => (this.large = !this.large));
        this.show();
    }

    /** Whether only the words are shown, and large. */
    get large() {
        return document.body.dataset.view === "large";
    }

    set large(large) {
        document.body.dataset.view = large ? "large" : "usual";
        this.#button.ariaPressed = String(large);
        this.#button.querySelector("span").textContent = large ? "Leave the large view" : "Large view";
        if (!large) this.#button.focus({preventScroll: true});
        document.getElementById("finals").lastElementChild?.scrollIntoView({block: "end"});
    }

    /** Shows the text in the size that the settings say. */
    show() {
        document.body.dataset.text = this.#settings.get("text");
    }
}
