//! Puts the page that `cargo xtask web` has built into the binary, if there is one.

use std::path::Path;

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    println!("cargo::rustc-check-cfg=cfg(page)");
    println!("cargo::rerun-if-changed={}", dist.display());
    let site = dist.join("web");
    if ["index.html", "vramscope.wasm.gz"].iter().all(|name| site.join(name).exists()) {
        println!("cargo::rustc-cfg=page");
    }
}
