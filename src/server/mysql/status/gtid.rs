//! How many transactions a set of global transaction identifiers has: `UUID:1-5:7,UUID:tag:1-3`.

/// None: it is no such set.
pub fn count(set: &str) -> Option<u64> {
    let mut count = 0u64;
    for source in set.split(',').map(str::trim).filter(|source| !source.is_empty()) {
        let mut parts = source.split(':').map(str::trim);
        let uuid = parts.next()?;
        if uuid.len() != 36 {
            return None;
        }
        for part in parts {
            // From 8.4 on, a tag may stand before the intervals that it is of.
            if part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                continue;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn intervals_of_all_sources_and_tags_are_added_up() {
        let a = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        assert_eq!(count(""), Some(0));
        assert_eq!(count(&format!("{a}:1-5")), Some(5));
        assert_eq!(count(&format!("{a}:1-5:7,\n{a}:nightly:1-3:_x:9")), Some(10));
        for bad in ["1-5", &format!("{a}:5-1"), &format!("{a}:1-x"), &format!("{a}:0-18446744073709551615")] {
            assert_eq!(count(bad), None, "{bad}");
        }
    }
}
