// A program with @deepgram/sdk whose connection is cut while it is open. The SDK connects again by itself; the program
// goes on speaking over the new connection. It prints what was heard after that, as JSON.
"use strict";

const fs = require("node:fs");
const { DeepgramClient } = require("@deepgram/sdk");

async function main(host, path) {
  const [http, websocket] = [`http://${host}`, `ws://${host}`];
  const environment = { base: http, production: websocket, agent: websocket, agentRest: http };
  const client = new DeepgramClient({ apiKey: "any", environment });
  const pcm = fs.readFileSync(path).subarray(44);
  const connection = await client.listen.v1.connect({ model: "nova-3", encoding: "linear16", sample_rate: 16000 });
  const heard = [];
  let opened = 0;
  let done;
  const closed = new Promise((resolve) => (done = resolve));
  connection.on("open", () => {
    opened += 1;
    if (opened === 1) {
      console.log("cut");
      return;
    }
    connection.sendMedia(pcm);
    connection.sendCloseStream({ type: "CloseStream" });
  });
  connection.on("message", (message) => {
    if (message.type === "Results" && message.is_final) heard.push(message.channel.alternatives[0].transcript);
  });
  connection.on("close", (event) => event.code === 1000 && done(event.code));
  connection.connect();
  const code = await closed;
  console.log(JSON.stringify({ opened, code, heard: heard.filter(Boolean).join(" ") }));
}

main(process.argv[2], process.argv[3]).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
