//! Which product a server is, and in which version.

/// "MariaDB 10.11.14".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub product: &'static str,
    /// "9.7.4", "8.0.36-28", "18beta1".
    pub number: String,
}

impl Version {
    /// "9.7" of "9.7.4", as in the names of option groups.
    pub fn series(&self) -> &str {
        self.number.match_indices('.').nth(1).map_or(&self.number, |(at, _)| &self.number[..at])
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.product, self.number)
    }
}

/// Finds the version of one engine's products in the text of an executable.
pub trait VersionFinder {
    /// Returns the version once it is certain. The text comes in overlapping parts.
    fn look_at(&mut self, text: &[u8]) -> Option<Version>;
    /// What is likely once all of the text was seen.
    fn second_best(&self) -> Option<Version> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_what_stands_before_the_second_dot() {
        let series = |number: &str| Version { product: "MySQL", number: number.into() }.series().to_owned();
        assert_eq!(series("10.11.14"), "10.11");
        assert_eq!(series("9.7"), "9.7");
    }
}
