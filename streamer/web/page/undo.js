// What can be undone, the last first: as long as the tab is open.

const MOST = 50;

export class Undo {
    /** @type {{text: string, back: () => any}[]} */
    #deeds = [];

    /** What was done, and what brings back how it was. @param {string} text @param {() => any} back */
    add(text, back) {
        this.#deeds.push({text, back});
        if (this.#deeds.length > MOST) this.#deeds.shift();
    }

    /** Undoes what was done last. @returns {Promise<string>} what that was; nothing if there is nothing left */
    async back() {
        const deed = this.#deeds.pop();
        await deed?.back();
        return deed?.text ?? "";
    }
}
