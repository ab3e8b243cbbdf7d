// A program with Azure's Speech SDK for JavaScript: continuous, once, and detailed. The only change is the address.
// It prints what the SDK made of the messages, as JSON.
"use strict";

const fs = require("node:fs");
const sdk = require("microsoft-cognitiveservices-speech-sdk");

const [host, recording, key] = process.argv.slice(2);
const PIECE = 3200; // 100 ms
const HEADER = 44; // bytes of a WAV file
const pcm = fs.readFileSync(recording).subarray(HEADER);

/** Return a recogniser, and the stream that it hears. */
function recogniser(configure) {
  const config = sdk.SpeechConfig.fromHost(new URL(`ws://${host}`), key ?? "any");
  config.speechRecognitionLanguage = "en-US";
  configure?.(config);
  const stream = sdk.AudioInputStream.createPushStream(sdk.AudioStreamFormat.getWaveFormatPCM(16000, 16, 1));
  return [new sdk.SpeechRecognizer(config, sdk.AudioConfig.fromStreamInput(stream)), stream];
}

function speak(stream) {
  for (let place = 0; place < pcm.length; place += PIECE) {
    stream.write(new Uint8Array(pcm.subarray(place, place + PIECE)).buffer);
  }
  stream.close();
}

function told(result) {
  const content = result.json ? JSON.parse(result.json) : {};
  return {
    reason: sdk.ResultReason[result.reason],
    text: result.text ?? "",
    offset: result.offset,
    duration: result.duration,
    best: content.NBest?.[0],
    error: result.errorDetails,
  };
}

function continuous() {
  const [recognizer, stream] = recogniser();
  const partials = [];
  const results = [];
  const cancellations = [];
  const stopped = new Promise((resolve) => {
    recognizer.recognizing = (_, event) => partials.push(event.result.text);
    recognizer.recognized = (_, event) => results.push(told(event.result));
    recognizer.canceled = (_, event) => cancellations.push(sdk.CancellationReason[event.reason]);
    recognizer.sessionStopped = () => resolve();
  });
  recognizer.startContinuousRecognitionAsync();
  speak(stream);
  return stopped.then(() => {
    recognizer.close();
    return { partials, results, cancellations };
  });
}

function once(configure) {
  const [recognizer, stream] = recogniser(configure);
  speak(stream);
  return new Promise((resolve, reject) => {
    recognizer.recognizeOnceAsync((result) => {
      recognizer.close();
      resolve(told(result));
    }, reject);
  });
}

async function main() {
  const found = key
    ? { refused: await once() }
    : {
        continuous: await continuous(),
        detailed: await once((config) => {
          config.outputFormat = sdk.OutputFormat.Detailed;
          config.requestWordLevelTimestamps();
        }),
      };
  console.log(JSON.stringify(found));
  process.exit(0);
}

main();
