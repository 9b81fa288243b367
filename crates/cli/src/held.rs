//! Answers that are held back until it is certain that they are right.
//!
//! What the cache holds of a file is mapped, not read: that it is damaged, or was cut, shows only when it is touched, and
//! then it is zeros. So an answer is printed when all of it is there and nothing was damaged. Otherwise the
//! file itself is read and the answer worked out again.

use std::io::{self, IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ArgMatches;
use vramscope_files::{distrust_cache, is_cache_damaged};

/// Longer answers are printed piece by piece, each after a look at what it was made from.
const MOST_BYTES: usize = 16 << 20;

/// Verbs that go on after they have answered, or write files.
const OTHERS: &[&str] = &["tui", "view", "serve", "report", "export", "run", "mcp", "skill", "cache"];

static HELD: AtomicBool = AtomicBool::new(false);

/// Whether the answer to this command is held back.
pub(crate) fn is_held() -> bool {
    HELD.load(Ordering::Relaxed)
}

/// Whether the answer to a command line can be.
pub(crate) fn can_be(matches: &ArgMatches) -> bool {
    // Without a verb it is the terminal UI, or a summary where there is no terminal.
    matches.subcommand().map_or(!io::stdout().is_terminal(), |(verb, options)| {
        !OTHERS.contains(&verb) && !options.ids().any(|id| id == "output_file")
    })
}

/// Answers, and once more if the first answer was worked out from a damaged entry of the cache.
pub(crate) fn answer(
    out: &mut dyn Write,
    run: impl Fn(&mut dyn Write) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    HELD.store(true, Ordering::Relaxed);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // What zeros lead to is not worth a report.
        if !is_cache_damaged() {
            before(panic);
        }
    }));
    let mut held = Held { out, bytes: Vec::new(), printed: false };
    let result = catch_unwind(AssertUnwindSafe(|| run(&mut held)));
    if is_cache_damaged() && !held.printed {
        distrust_cache();
        let out = held.out;
        return run(out);
    }
    let result = result.unwrap_or_else(|panic| resume_unwind(panic));
    held.pass_on()?;
    result
}

struct Held<'a> {
    out: &'a mut dyn Write,
    bytes: Vec<u8>,
    printed: bool,
}

impl Held<'_> {
    fn pass_on(&mut self) -> io::Result<()> {
        if is_cache_damaged() {
            return Err(io::Error::other(
                "the cache was damaged while the answer was printed, and the rest of it is missing; run the command again",
            ));
        }
        self.printed |= !self.bytes.is_empty();
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

impl Write for Held<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > MOST_BYTES {
            self.pass_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
