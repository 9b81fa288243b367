"use strict";
// Memory snapshots in VS Code: a custom editor that runs `vramscope serve` where the files are (also on Remote-SSH, in
// WSL and in containers) and shows its page. The files stay there; pictures and tables go over the line.

const vscode = require("vscode");
const { start, stop_all, free_port, serve_arguments } = require("./server");
const { viewer, message } = require("./page");

/** Shows a file or a folder in a panel, until the panel is closed. */
async function show(panel, path) {
  panel.webview.options = { enableScripts: true };
  panel.webview.html = message("vramscope is starting…");
  const program = vscode.workspace.getConfiguration("vramscope").get("program") || "vramscope";
  let is_closed = false;
  panel.onDidDispose(() => { is_closed = true; });
  try {
    // Before the server starts: where the editor runs on another machine or behind a proxy, the page has another address,
    // and the server must be told the host that is in it.
    const port = await free_port();
    const external = await vscode.env.asExternalUri(vscode.Uri.parse(`http://127.0.0.1:${port}/`));
    const server = await start(program, path, { args: serve_arguments(port, external.authority) });
    if (is_closed) return server.stop();
    panel.onDidDispose(server.stop);
    server.ended.then((why) => {
      if (!is_closed) panel.webview.html = message(`${why}\n\nClose this editor and open the file again.`);
    });
    if (!is_closed) panel.webview.html = viewer(new URL(`${server.token}/`, external.toString(true)).href);
  } catch (error) {
    if (!is_closed) panel.webview.html = message(error.message);
  }
}

/** A snapshot is never changed by the editor: there is nothing to save, and no text to load. */
class SnapshotEditor {
  openCustomDocument(uri) {
    return { uri, dispose() {} };
  }

  resolveCustomEditor(document, panel) {
    return show(panel, document.uri.fsPath);
  }
}

function activate(context) {
  const options = { webviewOptions: { retainContextWhenHidden: true }, supportsMultipleEditorsPerDocument: true };
  context.subscriptions.push(
    vscode.window.registerCustomEditorProvider("vramscope.snapshot", new SnapshotEditor(), options),
    vscode.commands.registerCommand("vramscope.open", async (chosen) => {
      const picked = chosen ? [chosen] : await vscode.window.showOpenDialog({ canSelectFolders: true, canSelectFiles: true });
      if (!picked?.length) return;
      const title = picked[0].path.split("/").at(-1);
      const panel = vscode.window.createWebviewPanel("vramscope.panel", title, vscode.ViewColumn.Active, {
        enableScripts: true,
        retainContextWhenHidden: true,
      });
      await show(panel, picked[0].fsPath);
    }),
  );
}

module.exports = { activate, deactivate: stop_all };
