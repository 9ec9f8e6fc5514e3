//! The owners' shares of the kernel side's tables (`bpf/shares.h`), as far as this side has a hand in them.

use std::mem::offset_of;

use libbpf_rs::MapCore;

use super::array::MappedArray;
use super::contract::record::SHARES;
use super::contract::{SyncSkel, types};
use super::globals;

const NEW_ROWS: usize = offset_of!(types::share, new_rows);
const REFUSED: usize = offset_of!(types::share, refused);

fn taken(room: usize) -> usize {
    offset_of!(types::share, taken) + room * size_of::<u64>()
}

pub(super) struct Shares(MappedArray);

impl Shares {
    pub(super) fn new(map: &impl MapCore) -> std::io::Result<Shares> {
        Ok(Shares(MappedArray::new(map, size_of::<types::share>())?))
    }

    /// How much of each share was not kept: (share, how often), of those of which there is any.
    pub(super) fn refused(&mut self) -> std::io::Result<Vec<(u8, u64)>> {
        let mut refused = Vec::new();
        for share in 0..SHARES {
            let n = self.0.read_u64(share, REFUSED)?;
            refused.extend((n > 0).then_some((share as u8, n)));
        }
        Ok(refused)
    }

    /// Every share may make `n` rows more, up to `most` in all.
    pub(super) fn allow_rows(&mut self, n: u32, most: u32) -> std::io::Result<()> {
        for share in 0..SHARES {
            // Below 0 where several processors made one at once.
            let left = self.0.read_u64(share, NEW_ROWS)? as i64;
            let more = i64::from(n).min(i64::from(most) - left).max(0);
            self.0.add_u64(share, NEW_ROWS, more as u64)?;
        }
        Ok(())
    }

    /// What was in a table and is there no more was this share's.
    pub(super) fn give_back(&mut self, skel: &SyncSkel, share: u32, room: usize) -> std::io::Result<()> {
        self.0.add_u64(share, taken(room), u64::MAX)?;
        globals::give_room(skel, room);
        Ok(())
    }

    /// These tables are empty. Only while no program is attached.
    pub(super) fn clear(&mut self, skel: &mut SyncSkel, rooms: &[usize]) -> std::io::Result<()> {
        for &room in rooms {
            (0..SHARES).try_for_each(|share| self.0.write_u64(share, taken(room), 0))?;
            globals::clear_room(skel, room);
        }
        Ok(())
    }

    pub(super) fn unmap(&mut self) {
        self.0.unmap();
    }
}
