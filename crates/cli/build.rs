//! Puts the page that `cargo xtask web` has built into the binary, if there is one.

use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(page)");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    // In the packaged crate the page lies beside the sources; in the repository where it was built.
    let (packaged, built) = (package.join("page"), package.join("../../dist"));
    let (watched, site) =
        if packaged.exists() { (&packaged, packaged.clone()) } else { (&built, built.join("web")) };
    // Not the folder of the site: a path that is not there would count as changed every time.
    println!("cargo::rerun-if-changed={}", watched.display());
    if ["index.html", "vramscope.wasm.gz"].iter().all(|name| site.join(name).exists()) {
        println!("cargo::rustc-cfg=page");
        println!("cargo::rustc-env=VRAMSCOPE_PAGE={}", site.display());
    }
}
