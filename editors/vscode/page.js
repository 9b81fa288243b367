"use strict";
// The HTML around the viewer: a frame that fills the editor, or a message.

const escape = (text) => String(text).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

/** The editor with the viewer at an address, which VS Code may have forwarded from another machine. */
function viewer(address) {
  const origin = new URL(address).origin;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; frame-src ${escape(origin)}; style-src 'unsafe-inline'">
<style>html, body, iframe { margin: 0; padding: 0; border: 0; width: 100%; height: 100%; overflow: hidden; }</style>
</head>
<body><iframe src="${escape(address)}" title="vramscope" allow="clipboard-write"></iframe></body>
</html>`;
}

/** A message in place of the viewer. */
function message(text) {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body { padding: 16px; font: var(--vscode-editor-font-size, 13px) var(--vscode-font-family, sans-serif); white-space: pre-wrap; }</style></head>
<body role="alert">${escape(text)}</body>
</html>`;
}

module.exports = { viewer, message };
