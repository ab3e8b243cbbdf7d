// What the page takes from events and from the window without saying which kind they are.

interface Event {
    readonly detail: any;
}

interface EventTarget {
    files: any;
    value: any;
}

interface Window {
    [store: string]: any;
}
