"use strict";
// Without VS Code: the server with a program that stands in for vramscope, or with the real one if VRAMSCOPE names it,
// and the extension with an editor that stands in for VS Code's.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const { chmodSync, mkdtempSync, readFileSync, writeFileSync } = require("node:fs");
const Module = require("node:module");
const { tmpdir } = require("node:os");
const { basename, join } = require("node:path");
const test = require("node:test");
const { gzipSync } = require("node:zlib");

const { contributes } = require("../package.json");
const { start, serve_arguments } = require("../server");
const { viewer, message } = require("../page");

const ADDRESS = "http://127.0.0.1:41234/0123456789abcdef/";

/** A program that says something and then waits, as `vramscope serve` does. */
function program(script) {
  const path = join(mkdtempSync(join(tmpdir(), "vramscope-")), "vramscope");
  writeFileSync(path, `#!/usr/bin/env node\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

const SERVES = `
if (process.argv.slice(2, 4).join(" ") !== "serve --embed") process.exit(9);
console.log("${ADDRESS}\\nFrom another machine, first: ssh -L 41234:127.0.0.1:41234 node");
setInterval(() => {}, 1000);`;

test("the address is the first line that the server prints", async () => {
  const server = await start(program(SERVES), "/runs/oom.pickle");
  assert.deepEqual([server.address, server.port], [ADDRESS, 41234]);
  server.stop();
  assert.match(await server.ended, /SIGTERM/);
});

test("no server outlives the editor", async () => {
  // An editor that is told to end while a server runs: the host of extensions ends by itself then.
  const script = `
    const { start } = require(${JSON.stringify(join(__dirname, "../server"))});
    start(process.argv[1], "/runs/oom.pickle").then(() => process.exit(0));`;
  const named = program(`require("node:fs").writeFileSync(__filename + ".pid", String(process.pid));${SERVES}`);
  spawnSync(process.execPath, ["-e", script, named]);
  const pid = Number(readFileSync(`${named}.pid`, "utf8"));
  const is_alive = () => { try { process.kill(pid, 0); return true; } catch { return false; } };
  while (is_alive()) await new Promise((done) => setTimeout(done, 20));
});

test("behind a proxy the server answers to its name", () => {
  const plain = ["serve", "--embed", "--port", "41234"];
  for (const local of ["127.0.0.1:50000", "localhost", "[::1]:8080"]) assert.deepEqual(serve_arguments(41234, local), plain);
  assert.deepEqual(serve_arguments(41234, "code.example:8443"), [...plain, "--allow-host", "code.example"]);
});

test("what goes wrong is said in words", async () => {
  await assert.rejects(start("vramscope-that-is-not-there", "x"), /was not found.*vramscope\.program/);
  const fails = program(`console.error("oom.pickle: not a snapshot"); process.exit(2);`);
  await assert.rejects(start(fails, "oom.pickle"), /oom\.pickle: not a snapshot/);
  const silent = program("setInterval(() => {}, 1000);");
  await assert.rejects(start(silent, "x", { timeout: 300 }), /no address within/);
});

test("the page frames the server and nothing else", () => {
  const html = viewer(ADDRESS);
  assert.match(html, /frame-src http:\/\/127\.0\.0\.1:41234;/);
  assert.match(html, /<iframe src="http:\/\/127\.0\.0\.1:41234\/0123456789abcdef\/"/);
  assert.doesNotMatch(message(`<script>alert("x")</script>`), /<script>/);
});

/** The extension, with an editor that stands in for VS Code's. */
function activate(name) {
  const registered = {};
  const vscode = {
    workspace: { getConfiguration: () => ({ get: () => name }) },
    env: {
      asExternalUri: async ({ text }) => {
        const port = /^http:\/\/127\.0\.0\.1:(\d+)\/$/.exec(text)[1];
        return { authority: "code.example", toString: () => `https://code.example/proxy/${port}/` };
      },
    },
    Uri: { parse: (text) => ({ text }) },
    ViewColumn: { Active: -1 },
    window: { registerCustomEditorProvider: (kind, provider) => { registered[kind] = provider; } },
    commands: { registerCommand: (kind, action) => { registered[kind] = action; } },
  };
  const load = Module._load;
  Module._load = (request, ...rest) => (request === "vscode" ? vscode : load(request, ...rest));
  try {
    delete require.cache[require.resolve("../extension")];
    require("../extension").activate({ subscriptions: [] });
  } finally {
    Module._load = load;
  }
  return registered;
}

test("an editor shows the forwarded page and ends the server when it is closed", async () => {
  const editor = activate(program(SERVES))["vramscope.snapshot"];
  const closed = [];
  const panel = { webview: {}, onDidDispose: (action) => closed.push(action) };
  const document = editor.openCustomDocument({ fsPath: "/runs/oom.pickle" });
  await editor.resolveCustomEditor(document, panel);
  assert.match(panel.webview.html, /iframe src="https:\/\/code\.example\/proxy\/\d+\/0123456789abcdef\/"/);
  assert.match(panel.webview.html, /frame-src https:\/\/code\.example;/);
  assert.equal(closed.length, 2);
  closed.forEach((action) => action());
});

test("an editor without the program says what to do", async () => {
  const editor = activate("vramscope-that-is-not-there")["vramscope.snapshot"];
  const panel = { webview: {}, onDidDispose() {} };
  await editor.resolveCustomEditor(editor.openCustomDocument({ fsPath: "x" }), panel);
  assert.match(panel.webview.html, /Install vramscope/);
});

test("packed snapshots open in the editor, and have a menu", () => {
  // VS Code matches the pattern with the file's name, and the menu with what follows its last dot.
  const patterns = contributes.customEditors[0].selector.map(({ filenamePattern }) => filenamePattern);
  const menu = /resourceExtname =~ \/(.*)\/$/.exec(contributes.menus["explorer/context"][0].when)[1];
  const opens = (name) => patterns.some((pattern) => name.endsWith(pattern.replace(/^\*/, "")));
  const has_menu = (name) => new RegExp(menu).test(name.slice(name.lastIndexOf(".")));
  for (const end of ["", ".gz", ".xz", ".zst"]) {
    const name = `rank0_memory_snapshot.pickle${end}`;
    assert.deepEqual([opens(name), has_menu(name)], [true, true], name);
  }
  assert.deepEqual([opens("model.safetensors"), has_menu("model.safetensors")], [false, false]);
});

/** Starts the real program for a file, and says what its page shows once the file is read. */
async function real(path) {
  const server = await start(process.env.VRAMSCOPE, path);
  const answer = await fetch(server.address);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("x-frame-options"), null, "the page may be framed");
  assert.match(await answer.text(), /data-session="server"/);
  assert.equal((await fetch(new URL("/0/", server.address))).status, 403);
  const news = await (await fetch(new URL("news", server.address), { method: "POST", body: "0" })).text();
  assert.ok(news.includes(basename(path)), `${news} is about another file`);
  server.stop();
  await server.ended;
}

test("the real program answers", { skip: !process.env.VRAMSCOPE }, () => real(process.env.VRAMSCOPE_FILE));

test("the real program reads what is packed", { skip: !process.env.VRAMSCOPE }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "vramscope-"));
  const packed = join(folder, `${basename(process.env.VRAMSCOPE_FILE)}.gz`);
  const bytes = readFileSync(process.env.VRAMSCOPE_FILE);
  writeFileSync(packed, gzipSync(bytes));
  await real(packed);
  await real(join(__dirname, "../../../testdata/recordings/leak_graph.pickle.xz"));
  // What is not whole, and what is no snapshot: the editor says why, and there is no server.
  const cut = join(folder, "cut.pickle.gz");
  writeFileSync(cut, gzipSync(bytes).subarray(0, 20));
  await assert.rejects(start(process.env.VRAMSCOPE, cut), /cut\.pickle\.gz/);
  const other = join(folder, "notes.pickle.gz");
  writeFileSync(other, gzipSync("no snapshot"));
  await assert.rejects(start(process.env.VRAMSCOPE, other), /notes\.pickle\.gz: not a memory snapshot/);
});
