//! The log as a server has it open.

use crate::linux::open_files;

/// Open files of the log that makes commits durable, and how many of them are opened so that each write is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct OpenLog {
    pub files: usize,
    pub durable: usize,
}

impl OpenLog {
    /// A file that is open with these flags. To read it says nothing.
    pub fn add(&mut self, flags: u32) {
        if open_files::writes(flags) {
            self.files += 1;
            self.durable += usize::from(open_files::writes_are_durable(flags));
        }
    }

    /// Descriptors that are not durable need syncs.
    pub fn is_durable_by_writes(&self) -> bool {
        self.files > 0 && self.files == self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_durable_by_its_writes_if_all_descriptors_of_it_are() {
        let is_durable = |files, durable| OpenLog { files, durable }.is_durable_by_writes();
        assert!(is_durable(2, 2) && !is_durable(2, 1) && !is_durable(0, 0));
    }
}
