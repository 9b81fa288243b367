"use strict";
// A session in a Web Worker. Questions are answered between the chunks of a file that is being read.

// Large enough that fetching costs little, small enough that a question does not wait long.
const CHUNK = 4 << 20;
// Chunks that are fetched while one is parsed.
const AHEAD = 3;
// Milliseconds between two words about progress: each one has the page drawn anew, which takes a core from reading
// where there is no graphics processor.
const PROGRESS = 200;
let worker = null;
let memory = null;
let cancelled = false;
let turn = Promise.resolve();

// A trap leaves the module of no more use: every later call says so.
const message = (error) =>
  error instanceof WebAssembly.RuntimeError || error instanceof RangeError
    ? "the browser gave this page no more memory, or the reader has a fault (" + error.message + ")"
    : String(error && error.message ? error.message : error);

async function read({ id, name, blob, named }) {
  if (!named) {
    const head = await blob.slice(0, wasm_bindgen.Worker.probe_bytes()).arrayBuffer();
    if (!wasm_bindgen.Worker.looks_like_snapshot(new Uint8Array(head))) throw null;
  }
  const start = performance.now();
  worker.begin(name, blob.size, named);
  let parsing = 0;
  let told = start;
  const chunks = [];
  let fetched = 0;
  for (let at = 0; at < blob.size; at += CHUNK) {
    for (; fetched <= at + AHEAD * CHUNK && fetched < blob.size; fetched += CHUNK) {
      chunks.push(blob.slice(fetched, fetched + CHUNK).arrayBuffer());
    }
    const chunk = new Uint8Array(await chunks.shift());
    if (cancelled) return worker.stop();
    const before = performance.now();
    worker.feed(chunk);
    const now = performance.now();
    parsing += now - before;
    if (now - told > PROGRESS) {
      postMessage({ id, done: Math.min(at + CHUNK, blob.size) });
      told = now;
    }
  }
  performance.measure("read", { start });
  performance.measure("parse", { start, duration: parsing });
  postMessage({ id, devices: worker.finish() });
  performance.measure("open", { start });
}

// Base64 in pieces: one call for all of it would need a string as long again.
function* decoded(text) {
  for (let at = 0; at < text.length; at += CHUNK) {
    yield Uint8Array.from(atob(text.slice(at, at + CHUNK)), (letter) => letter.charCodeAt(0));
  }
}

// What a report carries: Arrow IPC, packed with gzip, as base64.
async function unpack({ id, name, rank, role, text, bytes }) {
  worker.begin_arrow(name, rank, role, bytes);
  const pieces = [...decoded(text)];
  const stream = new Blob(pieces).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  for (;;) {
    const { done, value } = await stream.read();
    if (done) break;
    if (cancelled) return worker.stop();
    worker.feed(value);
  }
  postMessage({ id, done: bytes });
  postMessage({ id, devices: worker.finish() });
}

onmessage = ({ data }) => {
  if (data.module) {
    memory = wasm_bindgen.initSync({ module: data.module }).memory;
    worker = new wasm_bindgen.Worker();
  } else if (data.ticket !== undefined) {
    let bytes = new Uint8Array();
    try {
      bytes = worker.answer(data.request);
    } catch (error) {
      postMessage({ broken: message(error) });
    }
    postMessage({ ticket: data.ticket, bytes }, [bytes.buffer]);
  } else if (data.cancel) {
    cancelled = true;
  } else {
    cancelled = false;
    turn = turn
      .then(() => (data.text === undefined ? read(data) : unpack(data)))
      .catch((error) => postMessage({ id: data.id, error: error === null ? null : message(error) }))
      .then(() => postMessage({ id: data.id, over: true }));
  }
};
