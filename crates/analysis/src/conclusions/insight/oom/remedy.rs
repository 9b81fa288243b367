//! Settings that might have prevented an out-of-memory error, simulated.

use vramscope_replay::{Moment, Oom};

use super::super::Case;
use super::super::trial::{REMEDIES, Tried};

/// Whether some setting gets past a request.
pub(super) enum Remedy {
    Found(Tried),
    None,
    /// Why that is not known.
    Unknown(String),
}

/// The first setting that gets past a request whatever the device's addresses. After an error that the program caught, for a
/// program that does the same whether or not that error happens; of many errors only the first and the last are tried.
pub(super) fn find(case: &Case<'_>, oom: &Oom) -> Remedy {
    let at = Moment::after(oom.event);
    let is = |other: Option<&Oom>| other.is_some_and(|other| other.event == oom.event);
    let ooms = case.replay.ooms();
    let before = if is(ooms.first()) { Moment::START } else { at };
    if before != Moment::START && !is(ooms.last()) {
        return Remedy::Unknown("only the first and the last error are".into());
    }
    for settings in REMEDIES {
        match case.trial.run_with_errors_before(settings, before) {
            Ok(tried) if tried.passes == Some(at) && !tried.unsure => return Remedy::Found(tried),
            Ok(_) => {}
            Err(reason) => return Remedy::Unknown(reason),
        }
    }
    Remedy::None
}
