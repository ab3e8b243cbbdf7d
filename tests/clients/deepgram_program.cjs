// A program with @deepgram/sdk, as its users write one: live, then recorded. The only change is `environment`.
// It prints what came, as JSON, with how often it connected: it would connect again after an abnormal close.
"use strict";

const fs = require("node:fs");
const { DeepgramClient } = require("@deepgram/sdk");

async function main(host, path) {
  const [http, websocket] = [`http://${host}`, `ws://${host}`];
  const environment = { base: http, production: websocket, agent: websocket, agentRest: http };
  const client = new DeepgramClient({ apiKey: "any", environment });
  const audio = fs.readFileSync(path);
  const pcm = audio.subarray(44);
  const messages = [];
  let opened = 0;
  const options = { encoding: "linear16", sample_rate: 16000, interim_results: "true", punctuate: "true" };
  const connection = await client.listen.v1.connect({ model: "nova-3", ...options });
  connection.on("open", () => (opened += 1));
  connection.on("message", (message) => messages.push(message));
  const closed = new Promise((resolve) => connection.on("close", (event) => setTimeout(resolve, 1500, event.code)));
  connection.connect();
  await connection.waitForOpen();
  connection.sendKeepAlive({ type: "KeepAlive" });
  for (let place = 0; place < pcm.length; place += 6400) {
    connection.sendMedia(pcm.subarray(place, place + 6400));
    if (place <= pcm.length / 2 && pcm.length / 2 < place + 6400) {
      console.log("half");
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
  connection.sendFinalize({ type: "Finalize" });
  connection.sendCloseStream({ type: "CloseStream" });
  const code = await closed;
  const recorded = await client.listen.v1.media.transcribeFile(audio, { model: "nova-3", smart_format: true });
  console.log(JSON.stringify({ live: messages, code, opened, recorded }));
}

main(process.argv[2], process.argv[3]).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
