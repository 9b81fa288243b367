//! Large tables in large pages.
//!
//! Opening a file fills tens of megabytes once. In pages of 4 KiB a fifth of the whole time goes into the kernel's
//! page faults; asked for huge pages it takes a twentieth as many. Where the system has none to give, nothing
//! changes.

#![allow(unsafe_code, reason = "an allocator is; opening big.pickle takes 20 % less with it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap};

/// The usual size of a huge page. On machines where it is another the advice is of less use, and as safe.
const HUGE_PAGE: usize = 2 << 20;

/// What is at least so large has a mapping of its own: half of a huge page may be wasted, not more.
const LARGE: usize = HUGE_PAGE / 2;

/// No page is smaller, so every mapping is aligned to it.
const PAGE: usize = 4096;

/// The system's allocator for what is small, mappings with advice for what is large.
#[derive(Debug)]
pub struct Memory;

/// Whether memory of a layout is a mapping of its own, of [`mapped`] bytes. Depends on the layout alone, so
/// freeing comes to the same answer as allocating.
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE && mapped(layout.size()).is_some()
}

fn mapped(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(HUGE_PAGE)
}

// SAFETY: memory is a mapping exactly if `is_large` says so of its layout, else it is the system allocator's and
// handled by it alone. A mapping is private, fresh, zeroed, aligned to a page and at least as long as asked for;
// it is given back or moved with the length that its layout implies, which is the one it was made with. No
// function here allocates or panics.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_large(layout) {
            // SAFETY: as promised to us.
            return unsafe { System.alloc(layout) };
        }
        let Some(len) = mapped(layout.size()) else { return ptr::null_mut() };
        // SAFETY: the address is the kernel's choice, so nothing that exists is mapped over.
        let made = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let Ok(start) = made else { return ptr::null_mut() };
        // SAFETY: the range is the mapping just made, and this advice does not change what is in it.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        start.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // SAFETY: as promised to us; a fresh mapping is zero.
            unsafe { self.alloc(layout) }
        } else {
            // SAFETY: as promised to us.
            unsafe { System.alloc_zeroed(layout) }
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        match mapped(layout.size()) {
            // SAFETY: `alloc` mapped that many bytes for this layout, and they are no longer used.
            Some(len) if is_large(layout) => drop(unsafe { munmap(start.cast(), len) }),
            // SAFETY: it came from there.
            _ => unsafe { System.dealloc(start, layout) },
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        match (is_large(layout), is_large(wanted), mapped(layout.size()), mapped(size)) {
            // SAFETY: it came from there, and stays there.
            (false, false, ..) => unsafe { System.realloc(start, layout, size) },
            (true, true, Some(old), Some(new)) if old == new => start,
            (true, true, Some(old), Some(new)) => {
                // SAFETY: the mapping is `old` long and ours; the caller gives up the old address.
                let moved = unsafe { mremap(start.cast(), old, new, MremapFlags::MAYMOVE) };
                moved.map_or(ptr::null_mut(), <*mut _>::cast)
            }
            _ => {
                // SAFETY: the layout is valid and not empty, as promised to us.
                let moved = unsafe { self.alloc(wanted) };
                if !moved.is_null() {
                    // SAFETY: both hold as many bytes, and the new one is nobody's yet.
                    unsafe {
                        ptr::copy_nonoverlapping(start, moved, layout.size().min(size));
                        self.dealloc(start, layout);
                    }
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static MEMORY: Memory = Memory;

    #[test]
    fn a_table_keeps_its_rows_while_it_grows_and_shrinks() {
        // Through every way there is: small to large, large to larger, down again, and back to small.
        let mut table: Vec<u64> = Vec::new();
        for rows in [10, LARGE / 8, LARGE, 9 * LARGE, 3 * LARGE, LARGE / 8, 100] {
            table.truncate(rows);
            table.shrink_to_fit();
            table.reserve_exact(rows - table.len());
            table.extend(table.len() as u64..rows as u64);
            assert_eq!(table.len(), rows);
            assert!(table.iter().enumerate().all(|(row, &value)| value == row as u64), "{rows} rows");
        }
    }

    #[test]
    fn zeroed_memory_is_zero_and_more_than_there_is_can_be_refused() {
        assert!(vec![0_u8; 3 * LARGE].iter().all(|&byte| byte == 0));
        let mut table: Vec<u8> = vec![7; LARGE];
        assert!(table.try_reserve_exact(isize::MAX as usize - LARGE).is_err());
        assert!(table.iter().all(|&byte| byte == 7));
    }
}
