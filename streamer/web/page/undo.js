// The changes that the user can undo while the tab is open, the last change first.

const MOST = 50;

export class Undo {
    /** @type {{text: string, back: () => any}[]} */
    #deeds = [];

    /** Adds a change. `back` undoes it. @param {string} text @param {() => any} back */
    add(text, back) {
        this.#deeds.push({text, back});
        if (this.#deeds.length > MOST) this.#deeds.shift();
    }

    /** Undoes the last change. @returns {Promise<string>} its text; empty if there was none */
    async back() {
        const deed = this.#deeds.pop();
        await deed?.back();
        return deed?.text ?? "";
    }
}
