"use strict";
// A session in a Web Worker. Questions are answered between the chunks of a file that is being read.

// Bytes of a file that are parsed at once, and characters of a report that are decoded.
const PIECE = 1 << 20;
// Bytes that a report of this length may unpack to: recordings shrink 10 to 50 times.
const MOST_UNPACKED = (length) => (32 << 20) + 200 * length;
// Milliseconds that code is made fast before there is a file.
const WARM = 1500;
// Milliseconds between two words about progress: each one has the page drawn anew, which takes a core from reading
// where there is no graphics processor.
const PROGRESS = 250;
// Milliseconds after which questions are let in: bytes that are already there would never let them.
const TURN = 30;
let worker = null;
let memory = null;
// What is to be read, or is being read; each can be called off, also before its turn.
let jobs = [];
let turn = Promise.resolve();

// A trap leaves the module of no more use: every later call says so.
const message = (error) =>
  error instanceof WebAssembly.RuntimeError || error instanceof RangeError
    ? "the browser gave this page no more memory, or the reader has a fault (" + error.message + ")"
    : String(error && error.message ? error.message : error);

// Lets messages in that have come meanwhile; a timer would wait longer.
const door = new MessageChannel();
const let_in = () =>
  new Promise((done) => {
    door.port1.onmessage = done;
    door.port2.postMessage(null);
  });

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
  let since = performance.now();
  for (;;) {
    if (performance.now() - since > TURN) {
      await let_in();
      since = performance.now();
    }
    // The last piece may come together with the end.
    const { done, value } = await next();
    if (value?.length && !use(value)) return source.cancel();
    if (done) return;
    memory = value.buffer;
  }
}

async function read({ id, name, parts, bytes, named, profile }, job) {
  if (!named && !profile) {
    const head = await parts[0].blob.slice(0, wasm_bindgen.Worker.probe_bytes()).arrayBuffer();
    if (!wasm_bindgen.Worker.looks_like_snapshot(new Uint8Array(head))) throw null;
  }
  const start = performance.now();
  if (profile) {
    const [names, sizes] = [parts.map((part) => part.name), parts.map((part) => part.blob.size)];
    worker.begin_profile(name, names, sizes, named);
  } else {
    worker.begin(name, parts[0].blob.size, named, parts.length > 1);
  }
  let parsing = 0;
  let told = start;
  let done = 0;
  for (let place; (place = worker.next_file()) !== undefined; ) {
    const feed = (piece) => {
      const before = performance.now();
      worker.feed(piece);
      const now = performance.now();
      parsing += now - before;
      done += piece.length;
      if (now - told > PROGRESS) {
        postMessage({ id, done: Math.min(done, bytes) });
        told = now;
      }
      return !job.cancelled;
    };
    try {
      await each_piece(parts[place].blob, feed);
    } catch (error) {
      // Without a file that the browser cannot read, a profile is still one.
      if (!profile || !(error instanceof DOMException)) throw error;
      worker.lose(error.message);
    }
    if (job.cancelled) return worker.stop();
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

// The data of a report: columns, packed with gzip, as base64.
async function unpack({ id, name, rank, role, text, bytes }, job) {
  worker.begin_embedded(name, rank, role, bytes);
  const pieces = [...decoded(text)];
  const most = MOST_UNPACKED(text.length);
  let unpacked = 0;
  source = new Blob(pieces).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  for (;;) {
    const { done, value } = await source.read();
    if (done) break;
    if (job.cancelled) return worker.stop();
    unpacked += value.length;
    if (unpacked > most) throw new Error("it unpacks to far more than any recording does");
    worker.feed(value);
  }
  postMessage({ id, done: bytes });
  postMessage({ id, devices: worker.finish() });
}

// The page ends this worker when it hears from it, and as soon as there is a file.
function warm() {
  const warm = new wasm_bindgen.Warm();
  for (const end = performance.now() + WARM; performance.now() < end; ) warm.run();
  postMessage({ warm: true });
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
    warm();
  } else if (data.close !== undefined) {
    worker.close(data.close);
  } else if (data.cancel) {
    for (const job of jobs) job.cancelled = true;
  } else {
    const job = { cancelled: false };
    jobs.push(job);
    const start = data.text === undefined ? read : unpack;
    turn = turn
      .then(() => (job.cancelled ? undefined : start(data, job)))
      .catch((error) => postMessage({ id: data.id, error: error === null ? null : message(error) }))
      .then(() => {
        jobs = jobs.filter((other) => other !== job);
        postMessage({ id: data.id, over: true });
      });
  }
};
