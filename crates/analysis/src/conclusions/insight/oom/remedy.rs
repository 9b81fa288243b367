//! Settings that might have prevented an out-of-memory error, simulated.

use super::super::Case;
use super::super::trial::{REMEDIES, Tried};
use crate::replay::Oom;
use crate::replay::allocations::Moment;

/// Whether some setting gets past a request.
pub(super) enum Remedy {
    Found(Tried),
    None,
    /// Why that is not known.
    Unknown(String),
}

/// The first setting that gets past a request whatever the device's addresses.
pub(super) fn find(case: &Case<'_>, oom: &Oom) -> Remedy {
    let at = Moment::after(oom.event);
    if case.replay.ooms().first().is_none_or(|first| first.event != oom.event) {
        return Remedy::Unknown("what the program does after an error depends on the error".into());
    }
    for settings in REMEDIES {
        match case.trial.run(settings) {
            Ok(tried) if tried.passes == Some(at) && !tried.unsure => return Remedy::Found(tried),
            Ok(_) => {}
            Err(reason) => return Remedy::Unknown(reason),
        }
    }
    Remedy::None
}
