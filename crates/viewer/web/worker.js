"use strict";
// A session in a Web Worker. Questions are answered between the chunks of a file that is being read.

// Bytes of a file that are parsed at once, and characters of a report that are decoded.
const PIECE = 1 << 20;
// Milliseconds that code is made fast before there is a file.
const WARM = 1500;
// Milliseconds between two words about progress: each one has the page drawn anew, which takes a core from reading
// where there is no graphics processor.
const PROGRESS = 250;
let worker = null;
let memory = null;
let cancelled = false;
// Whether there was a file.
let used = false;
let turn = Promise.resolve();

// A trap leaves the module of no more use: every later call says so.
const message = (error) =>
  error instanceof WebAssembly.RuntimeError || error instanceof RangeError
    ? "the browser gave this page no more memory, or the reader has a fault (" + error.message + ")"
    : String(error && error.message ? error.message : error);

// What is being read from. Chromium forgets a stream that nothing but a promise waits for.
let source = null;

// Gives the bytes of a file to `use`, piece by piece, until it says that this is enough. All pieces lie in the same
// memory where the browser can do that: new memory for each costs half as much as parsing it.
async function each_piece(blob, use) {
  let memory = new ArrayBuffer(PIECE);
  let next = () => source.read(new Uint8Array(memory), { min: PIECE });
  try {
    source = blob.stream().getReader({ mode: "byob" });
  } catch {
    source = blob.stream().getReader();
    next = () => source.read();
  }
  for (;;) {
    // The last piece may come together with the end.
    const { done, value } = await next();
    if (value?.length && !use(value)) return source.cancel();
    if (done) return;
    memory = value.buffer;
  }
}

async function read({ id, name, parts, bytes, named, profile }) {
  const [{ blob }] = parts;
  if (!named && !profile) {
    const head = await blob.slice(0, wasm_bindgen.Worker.probe_bytes()).arrayBuffer();
    if (!wasm_bindgen.Worker.looks_like_snapshot(new Uint8Array(head))) throw null;
  }
  const start = performance.now();
  if (profile) worker.begin_profile(name, parts.map((part) => part.name), parts.map((part) => part.blob.size));
  else worker.begin(name, bytes, named);
  let parsing = 0;
  let told = start;
  let done = 0;
  for (let place; (place = worker.next_file()) !== undefined; ) {
    await each_piece(parts[place].blob, (piece) => {
      const before = performance.now();
      worker.feed(piece);
      const now = performance.now();
      parsing += now - before;
      done += piece.length;
      if (now - told > PROGRESS) {
        postMessage({ id, done: Math.min(done, bytes) });
        told = now;
      }
      return !cancelled;
    });
    if (cancelled) return worker.stop();
  }
  performance.measure("read", { start });
  performance.measure("parse", { start, duration: parsing });
  postMessage({ id, devices: worker.finish() });
  performance.measure("open", { start });
}

// Base64 in pieces: one call for all of it would need a string as long again.
function* decoded(text) {
  for (let at = 0; at < text.length; at += PIECE) {
    yield Uint8Array.from(atob(text.slice(at, at + PIECE)), (letter) => letter.charCodeAt(0));
  }
}

// What a report carries: Arrow IPC, packed with gzip, as base64.
async function unpack({ id, name, rank, role, text, bytes }) {
  worker.begin_arrow(name, rank, role, bytes);
  const pieces = [...decoded(text)];
  source = new Blob(pieces).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  for (;;) {
    const { done, value } = await source.read();
    if (done) break;
    if (cancelled) return worker.stop();
    worker.feed(value);
  }
  postMessage({ id, done: bytes });
  postMessage({ id, devices: worker.finish() });
}

// Ends when somebody has a file, or after a while.
async function warm() {
  const warm = new wasm_bindgen.Warm();
  for (const end = performance.now() + WARM; performance.now() < end && !used; ) {
    warm.run();
    await new Promise((done) => setTimeout(done));
  }
  warm.free();
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
  } else if (data.warm) {
    turn = turn.then(warm);
  } else if (data.cancel) {
    cancelled = true;
  } else {
    cancelled = false;
    used = true;
    turn = turn
      .then(() => (data.text === undefined ? read(data) : unpack(data)))
      .catch((error) => postMessage({ id: data.id, error: error === null ? null : message(error) }))
      .then(() => postMessage({ id: data.id, over: true }));
  }
};
