"use strict";
// The page around the viewer: starts it, brings it files, and carries messages to the workers or the server.
// What the messages mean is known to the module on both ends, not here.

(() => {

const element = (id) => document.getElementById(id);

function say(text) {
  element("message").textContent = text;
  element("message").hidden = false;
}
function unsay(text) {
  if (element("message").textContent === text) element("message").hidden = true;
}
// Says something that needs no answer.
function mention(text) {
  say(text);
  setTimeout(() => unsay(text), 8000);
}
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
// What stands after the # of the address; one that was cut or mistyped is none.
function hash() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}
addEventListener("error", (event) => say("vramscope has stopped: " + event.message));
addEventListener("unhandledrejection", (event) => say("vramscope has stopped: " + event.reason));

const version = "/*version*/";

// Where the session is: in workers of this page, or in the process that serves it.
const served = document.documentElement.dataset.session === "server";

// ── the module ────────────────────────────────────────────────────────────────────────────────

// It comes packed, beside this page or inside it, so that no server has to know how to pack it.
async function packed() {
  const inside = element("module");
  if (inside) return Uint8Array.from(atob(inside.textContent.trim()), (letter) => letter.charCodeAt(0));
  // With the version, so that an old copy in some cache never meets a newer page.
  const answer = await fetch("vramscope.wasm.gz?" + version);
  if (!answer.ok) throw new Error("vramscope.wasm.gz: " + answer.status);
  const total = Number(answer.headers.get("content-length")) || 0;
  const mb = (bytes) => (bytes / 1e6).toFixed(1);
  return new Uint8Array(await (await fetched(answer, (done) => {
    element("wait").textContent = "vramscope is starting: " + mb(done) + (total ? " of " + mb(total) : "") + " MB";
  })).arrayBuffer());
}

// The body of an answer, with a word about every piece of it.
async function fetched(answer, progress) {
  const chunks = [];
  let done = 0;
  for (const reader = answer.body.getReader(); ; ) {
    const chunk = await reader.read();
    if (chunk.done) return new Blob(chunks);
    chunks.push(chunk.value);
    progress(done += chunk.value.length);
  }
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
let wanted = hash() || (element("link")?.textContent ?? "");

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
    workers[number].worker.postMessage(file.message);
  }
  if (reading.size === 0) all_read();
}

function hear(number, data) {
  if (data.ticket !== undefined) return wasm_bindgen.answer(data.ticket, data.bytes);
  if (data.broken) return say(data.broken);
  const file = reading.get(data.id);
  if (!file) return;
  // A file of another kind in a folder ends without a word.
  if (data.devices !== undefined || data.error) file.drop.came = true;
  if (data.done !== undefined) wasm_bindgen.reading(file.name, data.done, file.bytes);
  if (data.devices !== undefined) {
    // A worker that has read a file to its end does not hear that it was called off.
    any_opened ||= !file.drop.cancelled;
    wasm_bindgen.opened(file.name, number, file.drop.cancelled ? undefined : data.devices);
  }
  if (data.error) wasm_bindgen.failed(file.name, data.error);
  if (data.error !== undefined) known.delete(file.name);
  if (data.over) {
    workers[number].busy = false;
    reading.delete(data.id);
    left(file.drop);
    next_file();
  }
}

// What is opened together: how much of it is on its way, and whether anything came of it.
function left(drop) {
  drop.left -= 1;
  if (drop.left === 0 && !drop.came && !drop.cancelled) {
    mention("No memory snapshot is among " + (drop.all === 1 ? "what was opened" : "these " + drop.all + " files"));
  }
}

// Files that are open or on their way, by the name that they are listed under: what each is.
const known = new Map();

function add(file, drop) {
  const id = files++;
  drop.all += 1;
  drop.left += 1;
  known.set(file.name, { key: file.key, drop });
  const { key, ...message } = file;
  waiting.push({ id, drop, message: { id, ...message }, name: file.name, bytes: file.bytes });
  wasm_bindgen.reading(file.name, 0, file.bytes);
}

// A file that was opened before is only shown, and another one of the same name gets a number. Files that are opened
// together are different ones, however alike they are.
function add_once(file, drop) {
  for (const [name, before] of known) {
    if (before.key && before.key === file.key && before.drop !== drop) {
      wasm_bindgen.show(name);
      drop.came = true;
      return;
    }
  }
  let name = file.name;
  for (let number = 2; file.key && known.has(name); number += 1) name = file.name + " (" + number + ")";
  add({ ...file, name }, drop);
}

// The recordings in a report of vramscope; none of any other page. Nothing in it runs.
async function carried({ name, blob, named }) {
  if (named === false || !/\.html?$/i.test(name) || blob.size > LARGEST_REPORT) return [];
  const text = await blob.text();
  if (!text.includes("data-snapshot=")) return [];
  const page = new DOMParser().parseFromString(text, "text/html");
  return [...page.querySelectorAll("script[data-snapshot]")].map((script) => inside(script));
}
// A longer text is more than browsers can hold.
const LARGEST_REPORT = 400e6;

// What a report carries in an element.
function inside(script) {
  const { snapshot: name, rank, role, bytes } = script.dataset;
  return { name, rank, role, text: script.textContent.trim(), bytes: Number(bytes) };
}

// Files with their paths below what was dropped; those of a profile belong together, and a snapshot and its sidecar.
async function open(list) {
  const drop = { all: 0, left: 0, came: false, cancelled: false };
  const plain = [];
  for (const file of list) {
    const recordings = await carried(file);
    for (const recording of recordings) {
      add_once({ ...recording, key: [recording.name, recording.bytes, recording.text.length].join("|") }, drop);
    }
    if (recordings.length === 0) plain.push(file);
  }
  const found = JSON.parse(wasm_bindgen.inputs(plain.map((file) => file.name)));
  if (list.length === 0) {
    mention("That was not a file. Drop memory snapshots, or a folder of them");
  } else if (found.length === 0 && drop.all === 0 && !drop.came) {
    mention("There is no memory snapshot in it");
  }
  for (const [name, rows, profile] of found) {
    const parts = rows.map((row) => ({ name: plain[row].name.split("/").at(-1), blob: plain[row].blob }));
    const bytes = parts.reduce((sum, { blob }) => sum + blob.size, 0);
    const named = profile ? !name.includes("/") : plain[rows[0]].named ?? true;
    // A file of a disk is known by its date; bytes of the same name from elsewhere take the place of those before.
    const dates = parts.map(({ blob }) => blob.lastModified);
    const key = dates.includes(undefined) ? undefined : [name.split("/").at(-1), bytes, ...dates].join("|");
    add_once({ name, parts, bytes, named, profile, key }, drop);
  }
  next_file();
}

// ── files ─────────────────────────────────────────────────────────────────────────────────────

const shows = (name) => !name.startsWith(".");

async function walk(entry, path, list) {
  if (entry.isFile) {
    try {
      const blob = await new Promise((done, fail) => entry.file(done, fail));
      list.push({ name: path + entry.name, blob, named: path === "" });
    } catch (error) {
      // One that the browser may not read takes nothing else with it.
      wasm_bindgen.failed(path + entry.name, error.message);
    }
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
  await open(list);
}

function picked(event) {
  const list = [...event.target.files].filter((blob) => shows(blob.name));
  open(list.map((blob) => ({ name: blob.webkitRelativePath || blob.name, blob, named: !blob.webkitRelativePath })));
  event.target.value = "";
}

// ── files from elsewhere ──────────────────────────────────────────────────────────────────────

// Files that the address names: ?url=https://host/snapshot.pickle. Their server must allow it (CORS).
async function download(url) {
  const name = decodeURI(new URL(url, location.href).pathname.split("/").at(-1)) || url;
  try {
    const answer = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer" });
    if (!answer.ok) throw new Error("the server answers " + answer.status);
    const total = Number(answer.headers.get("content-length")) || 0;
    const blob = await fetched(answer, (done) => wasm_bindgen.reading(name, done, Math.max(total, done)));
    await open([{ name, blob }]);
  } catch (error) {
    const why = error instanceof TypeError
      ? "it cannot be fetched. Is the address right, and does its server allow other pages (Access-Control-Allow-Origin)?"
      : error.message;
    wasm_bindgen.failed(name, why);
  }
}

// Another page or program hands over bytes, as with Perfetto: it sends "PING" until this page says "PONG", and then
// { vramscope: { name, buffer } } or { vramscope: { files: [{ name, buffer }, …] } }.
function handed(event) {
  const { data, origin, source } = event;
  if (data === "PING") {
    source?.postMessage("PONG", { targetOrigin: origin === "null" ? "*" : origin });
    return;
  }
  const offer = data?.vramscope;
  if (!offer || typeof offer !== "object") return;
  const list = (Array.isArray(offer.files) ? offer.files : [offer])
    .filter(({ buffer }) => buffer instanceof ArrayBuffer || ArrayBuffer.isView(buffer) || buffer instanceof Blob)
    .map(({ name, buffer }) => ({ name: String(name || "snapshot.pickle"), blob: new Blob([buffer]) }));
  if (list.length === 0) return say("Another page handed over a message without bytes");
  const host = URL.canParse(origin) ? new URL(origin) : null;
  const known = origin === location.origin || host?.protocol === "vscode-webview:"
    || ["localhost", "127.0.0.1"].includes(host?.hostname);
  if (known || confirm(origin + " hands over " + list.map(({ name }) => name).join(", ") + ". Open it?")) open(list);
}

// ── a server ──────────────────────────────────────────────────────────────────────────────────

// Requests that the server is answering, so that one that nobody waits for any more can be aborted.
const asked = new Map();

async function post(path, body, signal) {
  const answer = await fetch(path, { method: "POST", body, signal });
  if (answer.status === 403) {
    throw new Error("This page belongs to a `vramscope serve` that has ended. Open the address that the new one prints.");
  }
  // A proxy in front is there, and the server behind it is not.
  if ([502, 503, 504].includes(answer.status)) throw new TypeError(answer.statusText);
  if (!answer.ok) throw new Error(await answer.text());
  return new Uint8Array(await answer.arrayBuffer());
}

function gone(error) {
  wasm_bindgen.set_lost(true);
  say(error.message);
}
const LOST = "The connection to `vramscope serve` is lost. What is pale is not up to date. Trying again …";

// Milliseconds: after which the server is asked whether it is still there, how long that may take, and between attempts.
const SILENCE = 10_000;
const LONGEST_SIGN = 5_000;
const [FIRST_WAIT, LONGEST_WAIT] = [500, 8_000];

// Which process answers: one that was started anew has read its files anew, and so does the page.
let process = null;

async function sign_of_life() {
  const answer = new TextDecoder().decode(await post("started", "", AbortSignal.timeout(LONGEST_SIGN)));
  process ??= answer;
  if (answer !== process) location.reload();
}

// While the line is cut, one attempt at a time for all that wait.
let back = null;

function reconnect() {
  back ??= (async () => {
    say(LOST);
    wasm_bindgen.set_lost(true);
    for (let wait = FIRST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
      await Promise.race([sleep(wait), new Promise((done) => addEventListener("online", done, { once: true }))]);
      const error = await sign_of_life().catch((error) => error);
      if (!error || !is_cut(error)) break;
    }
    back = null;
    unsay(LOST);
    wasm_bindgen.set_lost(false);
  })();
  return back;
}

// Whether a request failed because of the line. `fetch` says so in two ways, and a sign of life in a third.
const is_cut = (error) => error instanceof TypeError || ["TimeoutError", "AbortError"].includes(error?.name);

// The same with patience: a cut line, a laptop that slept or a tunnel that comes back lose nothing.
async function patient(path, body, signal) {
  for (;;) {
    await back;
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal?.addEventListener("abort", stop);
    // A line can be cut without a word; an answer can take long.
    const watch = setInterval(() => sign_of_life().catch(stop), SILENCE);
    try {
      return await post(path, body, attempt.signal);
    } catch (error) {
      if (signal?.aborted || !is_cut(error)) throw error;
      await reconnect();
    } finally {
      clearInterval(watch);
      signal?.removeEventListener("abort", stop);
    }
  }
}

async function hear_server() {
  await sign_of_life().catch(() => {});
  let seen = 0;
  for (;;) {
    const more = wasm_bindgen.take_news(await patient("news", String(seen)));
    any_opened = true;
    if (more === undefined) return all_read();
    seen += more;
    await sleep(200);
  }
}

// ── what the module calls ─────────────────────────────────────────────────────────────────────

globalThis.vramscope = {
  ask(lane, ticket, request) {
    if (served) {
      const abort = new AbortController();
      asked.set(ticket, abort);
      patient("ask", request.slice(), abort.signal)
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
    for (const { drop, name } of [...waiting, ...reading.values()]) {
      drop.cancelled = true;
      known.delete(name);
    }
    waiting.length = 0;
    for (const { worker } of workers) worker.postMessage({ cancel: true });
  },
  close(lane, file, name) {
    known.delete(name);
    workers[lane]?.worker.postMessage({ close: file });
  },
  has_summary: () => element("summary") !== null,
  show_summary() {
    document.body.classList.remove("started");
    element("to-viewer").hidden = false;
    element("to-viewer").focus();
    scrollTo(0, 0);
  },
  set_title(title) {
    document.title = title;
  },
  leave() {
    document.activeElement?.blur();
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
  takes_files: () => !served && !document.querySelector("script[data-snapshot]"),
  reduced_motion: () => matchMedia("(prefers-reduced-motion: reduce)").matches,
  link: hash,
  address: (link) => location.href.split("#", 1)[0] + "#" + link,
  set_link(text) {
    if (wanted) return;
    // A frame that has its page as a text may have no address.
    try {
      history.replaceState(null, "", "#" + text);
    } catch {}
  },
  // What is on the screen, as JSON; for tests.
  shown: () => wasm_bindgen.shown(),
  say,
  // The same in words, for screen readers and for find-in-page.
  describe(text) {
    element("canvas").setAttribute("aria-label", text.split("\n", 1)[0]);
    element("words").textContent = text;
  },
};

// A key means something here or to the browser, never both.
function keep_apart(event) {
  const ctrl = event.ctrlKey || event.metaKey;
  if (event.key === "Tab" && event.shiftKey && !ctrl && !event.altKey) {
    // Backwards out of the canvas, unless a widget in it has the focus.
    if (!wasm_bindgen.is_focused()) event.stopImmediatePropagation();
  } else if (ctrl || event.altKey) {
    const key = event.key.length === 1 ? event.key.toUpperCase() : event.key;
    if (wasm_bindgen.takes_key(key, ctrl, event.altKey, event.shiftKey)) event.preventDefault();
    // The window's own toolkit would take these from the browser.
    else if (ctrl && ",OPS".includes(key)) event.stopImmediatePropagation();
  }
}

function begin(canvas) {
  document.body.classList.add("started");
  canvas.focus();
}

// A report shows its summary until there is a picture, and as long as it is being read. A frame can be too small for
// any picture: a second after the last file the viewer comes without one.
async function after_summary(canvas) {
  element("to-viewer").addEventListener("click", () => begin(canvas));
  for (let left = 20; left > 0 && !JSON.parse(wasm_bindgen.shown() || "null")?.painted; ) {
    await sleep(50);
    if (reading.size + waiting.length === 0) left -= 1;
  }
  element("wait").hidden = true;
  element("to-viewer").hidden = false;
  if (scrollY === 0 && getSelection().isCollapsed) begin(canvas);
}

// Keeps this page and its module in the browser, so that both open without a network; see offline.js. Not what has data
// inside or comes from a `vramscope serve`: these never come here.
function keep() {
  if (isSecureContext && location.protocol.startsWith("http")) {
    navigator.serviceWorker?.register("offline.js").catch(() => {});
  }
}

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
  addEventListener("keydown", keep_apart, true);
  for (const id of ["files", "folder"]) element(id).addEventListener("change", picked);
  addEventListener("hashchange", () => wasm_bindgen.follow(vramscope.link()));
  canvas.addEventListener("webglcontextlost", (event) => {
    event.preventDefault();
    say("The browser has taken the graphics away from this page. Reload it: the address keeps what is shown.");
  });
  await wasm_bindgen.start(canvas, served);
  const recordings = [...document.querySelectorAll("script[data-snapshot]")];
  if (recordings.length > 0) {
    const drop = { all: 0, left: 0, came: false, cancelled: false };
    for (const script of recordings) add(inside(script), drop);
    next_file();
    return after_summary(canvas);
  }
  begin(canvas);
  if (served) hear_server().catch(gone);
  if (served) return;
  keep();
  addEventListener("message", handed);
  const named = new URLSearchParams(location.search).getAll("url");
  if (named.length > 0) {
    await Promise.all(named.map(download));
  } else if (workers.length === 0) {
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
