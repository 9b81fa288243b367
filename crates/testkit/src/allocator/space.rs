//! Device addresses: the lowest range that is large enough, so that addresses come back after a free as they
//! do on a real device.

use std::collections::BTreeMap;

/// The addresses that are not reserved.
#[derive(Debug)]
pub(super) struct AddressSpace {
    free: BTreeMap<u64, u64>,
}

impl AddressSpace {
    pub(super) fn new(base: u64, size: u64) -> Self {
        Self { free: BTreeMap::from([(base, size)]) }
    }

    pub(super) fn reserve(&mut self, size: u64) -> u64 {
        let fits = self.free.iter().find(|(_, range)| **range >= size);
        let (addr, range) =
            fits.map(|(addr, range)| (*addr, *range)).expect("the address space is large enough");
        self.free.remove(&addr);
        if range > size {
            self.free.insert(addr + size, range - size);
        }
        addr
    }

    pub(super) fn release(&mut self, mut addr: u64, mut size: u64) {
        if let Some(after) = self.free.remove(&(addr + size)) {
            size += after;
        }
        if let Some((before, range)) = self.free.range(..addr).next_back().map(|(a, r)| (*a, *r))
            && before + range == addr
        {
            addr = before;
            size += range;
        }
        self.free.insert(addr, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_ranges_merge_and_come_back() {
        let mut space = AddressSpace::new(100, 1000);
        let (a, b, c) = (space.reserve(10), space.reserve(20), space.reserve(30));
        assert_eq!((a, b, c), (100, 110, 130));
        space.release(a, 10);
        space.release(b, 20);
        assert_eq!(space.reserve(30), 100);
        space.release(100, 30);
        space.release(c, 30);
        assert_eq!(space.free, BTreeMap::from([(100, 1000)]));
    }
}
