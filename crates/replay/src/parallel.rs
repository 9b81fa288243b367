//! Work that a caller with threads does side by side.

/// Does two things, in any order or at once.
pub type Both<'a> = &'a (dyn Fn(&mut (dyn FnMut() + Send), &mut (dyn FnMut() + Send)) + Sync);

/// One after the other, for a caller without threads.
pub const IN_TURN: Both<'static> = &|one, other| {
    one();
    other();
};
