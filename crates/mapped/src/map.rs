//! A file in the address space. The `unsafe` of this crate is in this module.
//!
//! # Why it is sound
//!
//! * The bytes are only ever read as types that any bytes are a value of (`bytemuck::Pod`), so whatever a file holds is
//!   no more than a wrong number.
//! * Nothing in this process writes to the mapping, and it is private: what others write to the file may or may not be
//!   seen, which is again no more than a wrong number. The cache never writes to a file after it has its name.
//! * If the file is cut, touching what is gone raises SIGBUS. The handler maps zeros over it, so the instruction is
//!   repeated and succeeds, and notes the damage.
#![allow(unsafe_code, reason = "mappings and signal handlers have no safe interface")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::chunks::note_damage;

/// A whole file, mapped for reading.
#[derive(Debug)]
pub(crate) struct Map {
    base: NonNull<u8>,
    len: usize,
    slot: &'static Slot,
}

// SAFETY: a `Map` owns its mapping, which is only read.
unsafe impl Send for Map {}
// SAFETY: the same.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `len` bytes of a file; fails if more files are mapped than the handler of signals can know of.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        install_handler()?;
        let slot = Slot::take().ok_or(io::ErrorKind::QuotaExceeded)?;
        // SAFETY: a new mapping at an address of the system's choice touches no memory of this program.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        let found = (base != libc::MAP_FAILED).then(|| NonNull::new(base.cast::<u8>())).flatten();
        let Some(base) = found else {
            slot.give_back();
            return Err(io::Error::last_os_error());
        };
        slot.set(base.as_ptr() as usize, len);
        Ok(Self { base, len, slot })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `base` is a mapping of `len` readable bytes until `self` is dropped; see the top of this file for why
        // it does not matter if they change.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// Makes a part read as zeros. `start` is a multiple of the page size.
    pub(crate) fn clear(&self, start: usize, len: usize) {
        let end = start.saturating_add(len).min(self.len);
        if start < end {
            // SAFETY: the range lies in the mapping that `self` owns.
            unsafe { map_zeros(self.base.as_ptr() as usize + start, end - start) };
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        self.slot.give_back();
        // SAFETY: `self` owns the mapping, and all that was borrowed from it is gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// # Safety
/// The pages of the range must belong to a [`Map`].
unsafe fn map_zeros(start: usize, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the caller owns these pages; they stay readable.
    let zeros = unsafe { libc::mmap(start as *mut libc::c_void, len, libc::PROT_READ, flags, -1, 0) };
    zeros != libc::MAP_FAILED
}

/// A mapping as the handler of signals knows it.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
}

/// Files that can be mapped at the same time. A command opens as many at once as there are processors.
static SLOTS: [Slot; 256] = [const { Slot { start: AtomicUsize::new(FREE), len: AtomicUsize::new(0) } }; 256];

const FREE: usize = 0;
const TAKEN: usize = 1;

impl Slot {
    fn take() -> Option<&'static Self> {
        let take = |slot: &&Self| {
            slot.start.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        SLOTS.iter().find(take)
    }

    fn set(&self, start: usize, len: usize) {
        self.len.store(len, Ordering::Release);
        self.start.store(start, Ordering::Release);
    }

    fn give_back(&self) {
        self.start.store(FREE, Ordering::Release);
    }

    /// Where the mapping ends, if an address lies in it.
    fn end_behind(&self, addr: usize) -> Option<usize> {
        let start = self.start.load(Ordering::Acquire);
        let end = start.checked_add(self.len.load(Ordering::Acquire))?;
        (start > TAKEN && (start..end).contains(&addr)).then_some(end)
    }
}

/// What was there before, and the size of a page.
static BEFORE: OnceLock<(libc::sigaction, usize)> = OnceLock::new();

fn install_handler() -> io::Result<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let install = || {
        // SAFETY: all zeros is a value of these structures; the handler only does what a handler may.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(0);
            if !page.is_power_of_two() || page > crate::CHUNK {
                return false;
            }
            if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) != 0 {
                return false;
            }
            let _ = BEFORE.set((before, page));
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut ours.sa_mask);
            libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) == 0
        }
    };
    if *INSTALLED.get_or_init(install) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Only reads atomics, and calls `mmap` and `sigaction`.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let Some((before, page)) = BEFORE.get() else { return };
    // SAFETY: the system hands over a valid structure, as SA_SIGINFO was asked for.
    let addr = unsafe { (*info).si_addr() } as usize;
    let first = addr & !(page - 1);
    // A file that is cut has nothing behind the place either.
    if let Some(end) = SLOTS.iter().find_map(|slot| slot.end_behind(addr)) {
        // SAFETY: the pages belong to a `Map`: somebody is reading from it right now.
        if unsafe { map_zeros(first, end - first) } {
            note_damage();
            return;
        }
    }
    // Not ours: what was there before deals with it, when the instruction is repeated.
    // SAFETY: `before` is what `sigaction` gave us.
    unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
}
