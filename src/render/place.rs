//! Where a neighbour syncs, in words.

use super::Style;
use crate::model::Place;

/// ` (on /dev/vda2, the same disk)`; nothing of the device itself.
pub(crate) fn in_words(place: &Place, style: &Style) -> String {
    match place {
        Place::Here => String::new(),
        Place::SameDisk(device) => format!(" (on {}, the same disk)", style.name(device.as_bytes())),
        Place::AnyDevice => " (any device)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_device_of_the_disk_is_named() {
        let place = Place::SameDisk("/dev/vda2".into());
        assert_eq!(in_words(&place, &Style::default()), " (on /dev/vda2, the same disk)");
    }
}
