"use strict";
// Memory snapshots in VS Code: a custom editor that runs `vramscope serve` where the files are (also on Remote-SSH, in
// WSL and in containers) and shows its page. The files stay there; pictures and tables go over the line.

const vscode = require("vscode");
const { start } = require("./server");
const { viewer, message } = require("./page");

/** Shows a file or a folder in a panel, until the panel is closed. */
async function show(panel, path) {
  panel.webview.options = { enableScripts: true };
  panel.webview.html = message("vramscope is starting…");
  const program = vscode.workspace.getConfiguration("vramscope").get("program") || "vramscope";
  let is_closed = false;
  panel.onDidDispose(() => { is_closed = true; });
  try {
    const server = await start(program, path);
    if (is_closed) return server.stop();
    panel.onDidDispose(server.stop);
    server.ended.then((why) => {
      if (!is_closed) panel.webview.html = message(`${why}\n\nClose this editor and open the file again.`);
    });
    // On another machine the port is forwarded, and the address is another one.
    const external = await vscode.env.asExternalUri(vscode.Uri.parse(server.address));
    if (!is_closed) panel.webview.html = viewer(external.toString(true));
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

module.exports = { activate, deactivate() {} };
