"use strict";
// `vramscope serve` as a child process: started for a path, ended with the editor that shows it.

const { spawn } = require("node:child_process");
const { createServer } = require("node:net");

/** What the first line that `vramscope serve` prints must be: an address of this machine with its token. */
const ADDRESS = /^http:\/\/127\.0\.0\.1:(\d+)\/([0-9a-f]+)\/$/m;

/** Servers that run. None outlives the editor, however it ends: a panel is not always closed before. */
const running = new Set();
function stop_all() {
  for (const child of running) child.kill();
}
process.on("exit", stop_all);

/** A port that nothing listens on. */
function free_port() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** What `vramscope` is started with, for a page that the editor reaches at this host. */
function serve_arguments(port, authority) {
  const host = authority.replace(/:\d+$/, "");
  const is_local = ["127.0.0.1", "localhost", "[::1]"].includes(host);
  return ["serve", "--embed", "--port", String(port), ...(is_local ? [] : ["--allow-host", host])];
}

/**
 * Starts a server for a file or a folder.
 * @returns {Promise<{ address: string, port: number, token: string, stop: () => void, ended: Promise<string> }>}
 */
function start(program, path, { timeout = 20_000, args = ["serve", "--embed"] } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args, "--", path], { stdio: ["ignore", "pipe", "pipe"] });
    running.add(child);
    child.on("exit", () => running.delete(child));
    let said = "";
    let complaint = "";
    let is_started = false;
    const ended = new Promise((done) => {
      child.on("exit", (code, signal) => done(complaint.trim() || `${program} ended (${signal ?? code})`));
    });
    const stop = () => child.kill();
    const fail = (message) => {
      clearTimeout(timer);
      stop();
      reject(new Error(message));
    };
    const timer = setTimeout(() => fail(`${program} serve printed no address within ${timeout / 1000} s`), timeout);
    child.on("error", (error) => {
      fail(error.code === "ENOENT"
        ? `'${program}' was not found. Install vramscope on this machine, or name it in the setting vramscope.program`
        : `${program}: ${error.message}`);
    });
    child.stderr.on("data", (bytes) => { complaint = (complaint + bytes).slice(-4000); });
    child.stdout.on("data", (bytes) => {
      said = (said + bytes).slice(0, 4000);
      const found = ADDRESS.exec(said);
      if (!found || is_started) return;
      is_started = true;
      clearTimeout(timer);
      resolve({ address: found[0], port: Number(found[1]), token: found[2], stop, ended });
    });
    ended.then((why) => { if (!is_started) fail(why); });
  });
}

module.exports = { start, stop_all, free_port, serve_arguments, ADDRESS };
