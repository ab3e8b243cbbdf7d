// The names of languages.

/**
 * @param {string} code such as `de` @param {string} [locale] the language of the name; without it, that of the user
 * @returns {string} the name; the code itself if it is a name that only a model knows
 */
export function languageName(code, locale) {
    try {
        return new Intl.DisplayNames(locale, {type: "language", fallback: "code"}).of(code) ?? code;
    } catch {
        return code;
    }
}
