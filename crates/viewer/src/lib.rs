//! The window: every view of a memory snapshot, on the desktop and in the browser.
//!
//! [`App`] is all of it. It asks the engine through a [`Host`], which is the only thing that differs between
//! places: `native` brings threads, files and a clipboard; tests answer at once. Views say every frame what they
//! want to show and draw the best answer that has come, so no frame waits for anything.

mod app;
mod camera;
mod color;
mod commands;
mod devices;
mod history;
mod isolate;
#[cfg(all(not(target_arch = "wasm32"), feature = "window"))]
mod keeper;
mod link;
#[cfg(all(not(target_arch = "wasm32"), feature = "window"))]
mod native;
mod notes;
mod picture;
mod remember;
mod requests;
mod save;
mod select;
#[cfg(test)]
mod tests;
mod theme;
#[cfg(not(target_arch = "wasm32"))]
mod threads;
mod view;
mod views;
#[cfg(target_arch = "wasm32")]
mod web;
mod words;

pub use app::App;
#[cfg(all(not(target_arch = "wasm32"), feature = "window"))]
pub use native::{NoWindow, Options, app, run};
pub use requests::{Host, Slot};
#[cfg(not(target_arch = "wasm32"))]
pub use threads::Threads;
