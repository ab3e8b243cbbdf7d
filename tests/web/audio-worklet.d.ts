// What there is in the thread of an AudioWorklet, as far as capture-worklet.js uses it: TypeScript's own library has no
// such thread.

declare const sampleRate: number;

declare class AudioWorkletProcessor {
    readonly port: MessagePort;
}

declare function registerProcessor(name: string, processor: new (options: any) => AudioWorkletProcessor): void;
