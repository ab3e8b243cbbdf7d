// A program with @soniox/node: turns, a forced end, a file, and what is refused. The only change is the address.
// It prints what the SDK made of the messages, as JSON.
"use strict";

const fs = require("node:fs");
globalThis.WebSocket ??= require("ws"); // Node.js has one of its own from version 22 on
const { SonioxNodeClient } = require("@soniox/node");

const PIECE = 3200; // 100 ms
const HEADER = 44; // bytes of a WAV file
const MODEL = "stt-rt-v5";
const RAW = { audio_format: "pcm_s16le", sample_rate: 16000, num_channels: 1 };

/** Send audio, and return what the SDK tells its listeners. */
async function talk(client, audio, config, { tells = false, finalizes = false } = {}) {
  const told = { finals: "", partials: 0, endpoints: 0, finished: 0, errors: [] };
  const session = client.realtime.stt({ model: MODEL, ...config });
  let heard, finalized;
  const hearing = new Promise((resolve) => (heard = resolve));
  const finalizing = new Promise((resolve) => (finalized = resolve));
  session.on("result", (result) => {
    for (const token of result.tokens) {
      if (token.is_final) told.finals += token.text;
      else told.partials += 1;
    }
    if (result.tokens.length) heard();
  });
  session.on("endpoint", () => (told.endpoints += 1));
  session.on("finalized", () => finalized());
  session.on("finished", () => (told.finished += 1));
  session.on("error", (error) => told.errors.push([error.name, error.code, error.statusCode, error.message]));
  await session.connect();
  try {
    for (let place = 0; place < audio.length; place += PIECE) {
      session.sendAudio(audio.subarray(place, place + PIECE));
      if (tells && place <= audio.length / 2 && audio.length / 2 < place + PIECE) {
        await hearing;
        console.log("half");
      }
    }
    if (finalizes) {
      session.finalize();
      await finalizing;
    }
    await session.finish();
  } catch (error) {
    told.thrown = error.message;
  }
  return told;
}

async function main(host, file, key) {
  // This line is all that changes. The SDK says its key only in its first message, so ours stands in the address.
  const address = `ws://${host}/transcribe-websocket${key ? `?key=${key}` : ""}`;
  const client = new SonioxNodeClient({ api_key: "any", realtime: { ws_base_url: address } });
  const recording = fs.readFileSync(file);
  const pcm = recording.subarray(HEADER);
  const translation = { type: "one_way", target_language: "fr" };
  return {
    turns: await talk(client, pcm, { ...RAW, enable_endpoint_detection: true }, { tells: true }),
    finalized: await talk(client, pcm, RAW, { finalizes: true }),
    file: await talk(client, recording, { audio_format: "auto" }),
    refused: await talk(client, Buffer.alloc(0), { ...RAW, translation }),
  };
}

main(...process.argv.slice(2)).then(
  (told) => {
    console.log(JSON.stringify(told));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
