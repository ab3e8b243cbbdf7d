// A program with openai for JavaScript, as its users write one: a recording, then realtime. The only change is
// `baseURL`. It always encrypts realtime, so the environment names the authority of the certificate.
"use strict";

const fs = require("node:fs");
const OpenAI = require("openai");
const { OpenAIRealtimeWS } = require("openai/realtime/ws");

const COMPLETED = "conversation.item.input_audio_transcription.completed";

function realtime(client, pcm) {
  return new Promise((resolve, reject) => {
    const events = [];
    const connection = new OpenAIRealtimeWS({ model: "default" }, client);
    let heard;
    const hearing = new Promise((resolve) => (heard = resolve));
    connection.on("event", async (event) => {
      events.push(event);
      if (event.type === "conversation.item.input_audio_transcription.delta") heard();
      if (event.type === "session.created") {
        const input = { format: { type: "audio/pcm", rate: 24000 }, turn_detection: null };
        connection.send({ type: "session.update", session: { type: "transcription", audio: { input } } });
        for (let place = 0; place < pcm.length; place += 9600) {
          const audio = pcm.subarray(place, place + 9600).toString("base64");
          connection.send({ type: "input_audio_buffer.append", audio });
          if (place <= pcm.length / 2 && pcm.length / 2 < place + 9600) {
            await hearing; // its session has begun
            console.log("half");
            await new Promise((resolve) => setTimeout(resolve, 300));
          }
        }
        connection.send({ type: "input_audio_buffer.commit" });
      }
      if (event.type === COMPLETED) connection.close();
    });
    connection.on("error", reject);
    connection.socket.on("close", (code) => resolve({ events, code }));
  });
}

function refused(client) {
  return new Promise((resolve) => {
    const connection = new OpenAIRealtimeWS({ model: "default" }, client);
    connection.on("error", (error) => resolve(error.message));
  });
}

async function main(host, file, key, raw) {
  const client = new OpenAI({ baseURL: `https://${host}/v1`, apiKey: key });
  const ask = { file: fs.createReadStream(file), model: "whisper-1" };
  const recorded = await client.audio.transcriptions.create(ask);
  const streamed = [];
  for await (const event of await client.audio.transcriptions.create({
    file: fs.createReadStream(file), model: "gpt-4o-transcribe", stream: true,
  })) streamed.push(event);
  const live = await realtime(client, fs.readFileSync(raw));
  const wrong = new OpenAI({ baseURL: `https://${host}/v1`, apiKey: "wrong", maxRetries: 0 });
  const status = await wrong.models.list().then(() => 200, (error) => error.status);
  console.log(JSON.stringify({ recorded, streamed, live, wrong: [status, await refused(wrong)] }));
}

main(...process.argv.slice(2)).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
