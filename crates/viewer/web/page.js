"use strict";
// The page around the viewer: starts it, brings it files, and carries messages to the workers or the server.
// What the messages mean is known to the module on both ends, not here.

(() => {

const element = (id) => document.getElementById(id);

function say(text) {
  element("message").textContent = text;
  element("message").hidden = false;
}
addEventListener("error", (event) => say("vramscope has stopped: " + event.message));
addEventListener("unhandledrejection", (event) => say("vramscope has stopped: " + event.reason));

// Where the session is: in workers of this page, or in the process that serves it.
const served = document.documentElement.dataset.session === "server";

// ── the module ────────────────────────────────────────────────────────────────────────────────

// It comes packed, beside this page or inside it, so that no server has to know how to pack it.
async function packed() {
  const inside = element("module");
  if (inside) return Uint8Array.from(atob(inside.textContent.trim()), (letter) => letter.charCodeAt(0));
  const answer = await fetch("vramscope.wasm.gz");
  if (!answer.ok) throw new Error("vramscope.wasm.gz: " + answer.status);
  return new Uint8Array(await answer.arrayBuffer());
}

async function compile() {
  const bytes = await packed();
  // A server that knows the ending may have had the browser unpack it already.
  if (bytes[0] === 0) return WebAssembly.compile(bytes);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(stream, { headers: { "content-type": "application/wasm" } }));
}

// ── workers ───────────────────────────────────────────────────────────────────────────────────

const most = Math.max(1, Math.min(navigator.hardwareConcurrency || 2, 16));
const workers = [];
let code = null;
let module = null;
let files = 0;
const waiting = [];
const reading = new Map();
// The link that the page was opened with, until every file that it may mean is there.
let any_opened = false;
let wanted = decodeURIComponent(location.hash.slice(1));

function all_read() {
  wasm_bindgen.idle();
  if (!any_opened) return;
  if (wanted) wasm_bindgen.follow(wanted);
  wanted = "";
}

function new_worker() {
  // One text for every place, also for a page that was opened from a disk and may not load a second file.
  code ??= URL.createObjectURL(new Blob([element("glue").textContent, "\n", element("worker").textContent]));
  const worker = new Worker(code);
  worker.postMessage({ module });
  return worker;
}

function start_worker() {
  const worker = new_worker();
  const number = workers.length;
  worker.onmessage = ({ data }) => hear(number, data);
  worker.onerror = (event) => say("a worker has stopped: " + event.message);
  workers.push({ worker, busy: false });
}

// A worker of its own, which ends with the first file. What it has had compiled stays with the module.
let warming = null;

function cool_down() {
  warming?.terminate();
  warming = null;
}

function warm_up() {
  warming = new_worker();
  warming.onmessage = cool_down;
  warming.onerror = (event) => {
    event.preventDefault();
    cool_down();
  };
  warming.postMessage({ warm: true });
}

// Every file goes to a worker that reads none, so that as many are read at once as there are processors.
function next_file() {
  while (waiting.length > 0) {
    let number = workers.findIndex((worker) => !worker.busy);
    if (number < 0) {
      if (workers.length >= most) return;
      start_worker();
      number = workers.length - 1;
    }
    cool_down();
    const file = waiting.shift();
    reading.set(file.id, file);
    workers[number].busy = true;
    workers[number].worker.postMessage(file);
  }
  if (reading.size === 0) all_read();
}

function hear(number, data) {
  if (data.ticket !== undefined) return wasm_bindgen.answer(data.ticket, data.bytes);
  if (data.broken) return say(data.broken);
  const file = reading.get(data.id);
  if (!file) return;
  if (data.done !== undefined) wasm_bindgen.reading(file.name, data.done, file.bytes);
  if (data.devices !== undefined) {
    any_opened = true;
    wasm_bindgen.opened(file.name, number, data.devices);
  }
  if (data.error) wasm_bindgen.failed(file.name, data.error);
  if (data.over) {
    workers[number].busy = false;
    reading.delete(data.id);
    next_file();
  }
}

function add(file) {
  waiting.push({ id: files++, ...file });
  wasm_bindgen.reading(file.name, 0, file.bytes);
}

// Files with their paths below what was dropped; those of a profile belong together, and a snapshot and its sidecar.
function open(list) {
  for (const [name, rows, profile] of JSON.parse(wasm_bindgen.inputs(list.map((file) => file.name)))) {
    const parts = rows.map((row) => ({ name: list[row].name.split("/").at(-1), blob: list[row].blob }));
    const bytes = parts.reduce((sum, { blob }) => sum + blob.size, 0);
    const named = profile ? !name.includes("/") : list[rows[0]].named ?? true;
    add({ name, parts, bytes, named, profile });
  }
  next_file();
}

// ── files ─────────────────────────────────────────────────────────────────────────────────────

const shows = (name) => !name.startsWith(".");

async function walk(entry, path, list) {
  if (entry.isFile) {
    const blob = await new Promise((done, fail) => entry.file(done, fail));
    list.push({ name: path + entry.name, blob, named: path === "" });
  } else if (entry.isDirectory) {
    const reader = entry.createReader();
    for (;;) {
      // Browsers give a folder in pieces of a hundred or so.
      const entries = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (entries.length === 0) break;
      for (const inside of entries.filter((inside) => shows(inside.name))) {
        await walk(inside, path + entry.name + "/", list);
      }
    }
  }
}

async function dropped(event) {
  // What was dropped is gone when this function first waits.
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  const plain = [...event.dataTransfer.files];
  const list = [];
  // Two folders of the same name are two folders.
  const times = new Map();
  for (const entry of entries) {
    const time = (times.get(entry.name) ?? 0) + 1;
    times.set(entry.name, time);
    await walk(entry, time > 1 && entry.isDirectory ? time + "/" : "", list);
  }
  if (entries.length === 0) list.push(...plain.map((blob) => ({ name: blob.name, blob })));
  open(list);
}

function picked(event) {
  const list = [...event.target.files].filter((blob) => shows(blob.name));
  open(list.map((blob) => ({ name: blob.webkitRelativePath || blob.name, blob, named: !blob.webkitRelativePath })));
  event.target.value = "";
}

// ── a server ──────────────────────────────────────────────────────────────────────────────────

// Requests that the server is answering, so that one that nobody waits for any more can be aborted.
const asked = new Map();

async function post(path, body, signal) {
  const answer = await fetch(path, { method: "POST", body, signal });
  if (!answer.ok) throw new Error(await answer.text());
  return new Uint8Array(await answer.arrayBuffer());
}

const gone = (error) => say("The server does not answer (" + error.message + "). Is `vramscope serve` still running?");

async function hear_server() {
  let seen = 0;
  for (;;) {
    const more = wasm_bindgen.take_news(await post("news", String(seen)));
    any_opened = true;
    if (more === undefined) return all_read();
    seen += more;
    await new Promise((done) => setTimeout(done, 200));
  }
}

// ── what the module calls ─────────────────────────────────────────────────────────────────────

globalThis.vramscope = {
  ask(lane, ticket, request) {
    if (served) {
      const abort = new AbortController();
      asked.set(ticket, abort);
      post("ask", request.slice(), abort.signal)
        .then((bytes) => wasm_bindgen.answer(ticket, bytes))
        .catch((error) => {
          if (!abort.signal.aborted) gone(error);
          wasm_bindgen.answer(ticket, new Uint8Array());
        })
        .finally(() => asked.delete(ticket));
    } else {
      const bytes = request.slice();
      workers[lane]?.worker.postMessage({ ticket, request: bytes }, [bytes.buffer]);
    }
  },
  abort(ticket) {
    asked.get(ticket)?.abort();
  },
  pick(folder) {
    element(folder ? "folder" : "files").click();
  },
  open_demo(name, bytes) {
    open([{ name, blob: new Blob([bytes.slice()]) }]);
  },
  cancel() {
    if (served) post("cancel", "").catch(gone);
    waiting.length = 0;
    for (const { worker } of workers) worker.postMessage({ cancel: true });
  },
  save(name, bytes) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes.slice()]));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  },
  // A page from a disk may have no storage; then nothing is kept.
  store(text) {
    try {
      localStorage.setItem("vramscope", text);
    } catch {}
  },
  stored() {
    try {
      return localStorage.getItem("vramscope") ?? undefined;
    } catch {
      return undefined;
    }
  },
  link: () => decodeURIComponent(location.hash.slice(1)),
  set_link(text) {
    if (!wanted) history.replaceState(null, "", "#" + text);
  },
  // What is on the screen, as JSON; for tests.
  shown: () => wasm_bindgen.shown(),
  say,
  describe(text) {
    element("canvas").setAttribute("aria-label", text);
  },
};

async function main() {
  module = await compile();
  await wasm_bindgen({ module_or_path: module });
  const canvas = element("canvas");
  // The viewer smooths its own edges; the browser would do it again for every pixel.
  canvas.getContext("webgl2", { antialias: false, depth: false, stencil: false });
  // Instead of the viewer's own, which knows no folders, and draws all the time while something hovers.
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    addEventListener(kind, (event) => {
      event.preventDefault();
      event.stopPropagation();
      if (served) return;
      document.body.classList.toggle("dragging", kind === "dragenter" || kind === "dragover");
      if (kind === "drop") dropped(event).catch((error) => say(String(error)));
    }, true);
  }
  for (const id of ["files", "folder"]) element(id).addEventListener("change", picked);
  addEventListener("hashchange", () => wasm_bindgen.follow(vramscope.link()));
  await wasm_bindgen.start(canvas, served);
  document.body.classList.add("started");
  canvas.focus();
  if (served) hear_server().catch(gone);
  const inside = [...document.querySelectorAll("script[data-snapshot]")];
  if (inside.length > 0) {
    for (const script of inside) {
      add({
        name: script.dataset.snapshot,
        rank: script.dataset.rank,
        role: script.dataset.role,
        text: script.textContent.trim(),
        bytes: Number(script.dataset.bytes),
      });
    }
    next_file();
  } else if (!served && workers.length === 0) {
    start_worker();
    warm_up();
  }
}

main().catch((error) => {
  const gl = document.createElement("canvas").getContext("webgl2");
  say(gl ? "vramscope cannot start: " + (error.message ?? error)
         : "vramscope needs WebGL 2, which this browser does not offer. Is hardware acceleration off?");
});

})();
