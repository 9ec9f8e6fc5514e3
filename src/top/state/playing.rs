//! How a recording is played.

/// Intervals a second that one can choose.
const SPEEDS: [u32; 6] = [1, 2, 5, 10, 30, 60];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Playing {
    pub is_on: bool,
    /// Intervals a second.
    pub speed: u32,
}

impl Playing {
    pub(super) fn new() -> Playing {
        Playing { is_on: false, speed: SPEEDS[0] }
    }

    /// False: there is none beyond.
    pub(super) fn change_speed(&mut self, faster: bool) -> bool {
        let next = match faster {
            true => SPEEDS.into_iter().find(|choice| *choice > self.speed),
            false => SPEEDS.into_iter().rev().find(|choice| *choice < self.speed),
        };
        self.speed = next.unwrap_or(self.speed);
        next.is_some()
    }
}
