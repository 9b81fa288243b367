//! Tells the program which machine it is built for: its linker lies in a folder of that name.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=HOST_TRIPLE={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
