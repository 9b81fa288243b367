"use strict";
// The page without a network: this worker keeps the page and its module, both of one version, and hands them out when the
// network does not. Nothing else passes through it: no snapshot, and nothing of a server at another path of this host.

const version = "/*version*/";
const cache = "vramscope " + version;
const page = new URL("./", location.href);
const module = new URL("vramscope.wasm.gz?" + version, page);

async function keep() {
  const fresh = await fetch(page, { cache: "reload" });
  const text = await fresh.clone().text();
  // Another version was put on the server just now: its own worker will keep it.
  if (!fresh.ok || !text.includes(version)) throw new Error("another version");
  const kept = await caches.open(cache);
  await Promise.all([kept.put(page, fresh), kept.add(module)]);
}

async function forget() {
  for (const name of await caches.keys()) {
    if (name.startsWith("vramscope ") && name !== cache) await caches.delete(name);
  }
}

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(keep());
});
addEventListener("activate", (event) => event.waitUntil(forget()));

addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== page.origin) return;
  const is_page = url.pathname === page.pathname || url.pathname === page.pathname + "index.html";
  if (request.mode === "navigate" && is_page) {
    // The newest page, as long as there is a network.
    event.respondWith(fetch(request).catch(() => caches.match(page)));
  } else if (url.href === module.href) {
    event.respondWith(caches.match(module).then((kept) => kept ?? fetch(request)));
  }
});
