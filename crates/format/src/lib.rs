//! How vramscope writes things: amounts, times, places, names, and text that is safe where it goes.
//!
//! Every surface uses these functions, so that a number or a name reads the same in the command line, its JSON,
//! the terminal UI, the window, the page and a report. The crate depends on nothing of vramscope: it takes plain
//! numbers and strings, and the crates above it say what those mean.

mod amount;
pub mod color;
mod escape;
mod names;
mod place;
pub mod table;
pub mod ticks;
mod time;
mod tokens;
mod width;

pub use amount::{Units, bytes, change, count, parse_bytes, percent, plural, share, signed, size};
pub use escape::{Formulas, csv, html, is_hidden, printable};
pub use names::{device, phase, pool, pool_and_stream, stream, words};
pub use place::{autograd_node, backward_function, elide_place, frame_text, place};
pub use time::{clock, duration, seconds, since, time};
pub use tokens::tokens;
pub use width::{fit, fit_end, fit_middle, width, wrap};
