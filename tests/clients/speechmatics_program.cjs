// A program with @speechmatics/real-time-client: live audio with a forced end, a file, and what is refused. The only
// change is the address. It prints the messages that the SDK has passed on, as JSON.
"use strict";

const fs = require("node:fs");
const { RealtimeClient } = require("@speechmatics/real-time-client");

const PIECE = 3200; // 100 ms
const HEADER = 44; // bytes of a WAV file
const RAW = { type: "raw", encoding: "pcm_s16le", sample_rate: 16000 };

/** Send audio, and return the messages that come. */
async function talk(url, key, audio, config, { tells = false, forces = false } = {}) {
  const client = new RealtimeClient({ url });
  const messages = [];
  let heard;
  const hearing = new Promise((resolve) => (heard = resolve));
  client.addEventListener("receiveMessage", ({ data }) => {
    messages.push(data);
    if (data.message === "AddPartialTranscript") heard();
  });
  await client.start(key, config);
  for (let place = 0; place < audio.length; place += PIECE) {
    client.sendAudio(audio.subarray(place, place + PIECE));
    if (tells && place <= audio.length / 2 && audio.length / 2 < place + PIECE) {
      await hearing;
      console.log("half");
    }
  }
  if (forces) client.forceEndOfUtterance();
  const speakers = await client.getSpeakers({ timeout: 30000 });
  await client.stopRecognition();
  return { messages, speakers: speakers.speakers };
}

async function main(host, file, key = "any") {
  const url = `ws://${host}/v2`; // this line is all that changes
  const recording = fs.readFileSync(file);
  const live = { audio_format: RAW, transcription_config: { language: "en", enable_partials: true } };
  const refused = (options) =>
    talk(url, key, Buffer.alloc(0), { audio_format: RAW, transcription_config: options }).then(
      () => "",
      (error) => error.message,
    );
  return {
    live: await talk(url, key, recording.subarray(HEADER), live, { tells: true, forces: true }),
    file: await talk(url, key, recording, { transcription_config: { language: "en" } }),
    refused: [await refused({ language: "xx" }), await refused({ language: "en", diarization: "faces" })],
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
