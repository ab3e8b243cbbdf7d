// Tools for tests in the browser: the client's modules, a session that is recorded, and a recording.

globalThis.load = (name) => import(`${site}/${name}.js`);

const TYPES = [
    "ready", "partial", "final", "speech", "heard", "flushed", "recovered", "done", "error", "state", "restarted", "overflow",
];

// A session with everything that it reports, in order.
globalThis.begin = async (settings = {}) => {
    const {Session} = await load("streamer");
    const session = new Session(settings);
    session.told = [];
    for (const type of TYPES) {
        session.addEventListener(type, ({detail}) => {
            const {error, ...rest} = detail;
            session.told.push({event: type, ...rest, ...(error && {reason: error.code})});
        });
    }
    return session;
};

globalThis.pcm = async (name) => new Int16Array(await (await fetch(`/${name}.pcm`)).arrayBuffer());

// The error of a promise as something that Python can read.
globalThis.failure = (promise) =>
    promise.then(
        () => null,
        ({name, code, message, reported, retryMs}) => ({name, code, message, reported, retryMs}),
    );

globalThis.wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

globalThis.happens = (target, type, ms = 20_000) =>
    new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error(`no '${type}' within ${ms} ms`)), ms);
        target.addEventListener(type, ({detail}) => resolve(detail), {once: true});
    });

// Gives a recording, or seconds of it, at a multiple of its pace.
globalThis.speak = async (session, name, {faster = 10, from = 0, to = Infinity} = {}) => {
    const sound = (await pcm(name)).subarray(from * 16000, to * 16000);
    for (let at = 0; at < sound.length; at += 640) {
        session.send(sound.subarray(at, at + 640));
        await wait(40 / faster);
    }
};
