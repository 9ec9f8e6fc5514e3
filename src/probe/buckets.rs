//! Which buckets of a row's histogram are read.

use std::ops::Range;

use super::array::TOGETHER;
use super::contract::Row;
use super::contract::record::HISTOGRAM_BUCKETS;
use crate::model::histogram::bucket_of;

/// Adds the buckets of a row that hold something, as (bucket, count) in ascending order; the two outermost
/// stand in the row. `filled_words` adds those of a range of the histogram's words, `started` is what the row
/// says now.
///
/// A histogram is a page, of which latencies below a millisecond lie in the first third: to read thousands of
/// them each second takes the processor's caches from the database. No bucket above the greatest latency is
/// looked at, if those up to it hold all syncs that have begun. If not, some are in flight, or ended while
/// this was read, or the greatest one was lost to another processor's (`raise` in bpf/rows.h), or an exit was
/// skipped. Both can be, so that the sum is that of what had begun by chance: then more has begun since.
pub(super) fn read(
    row: &Row,
    buckets: &mut Vec<(usize, u64)>,
    mut filled_words: impl FnMut(Range<usize>, &mut Vec<(usize, u64)>) -> std::io::Result<()>,
    started: impl FnOnce() -> std::io::Result<u64>,
) -> std::io::Result<()> {
    let likely = bucket_of(row.max_ns).min(HISTOGRAM_BUCKETS).next_multiple_of(TOGETHER);
    buckets.clear();
    filled_words(0..likely, buckets)?;
    let inner = buckets.iter().fold(0u64, |sum, &(_, n)| sum.wrapping_add(n));
    let counted = [row.under, row.over, row.elsewhere].into_iter().fold(inner, u64::wrapping_add);
    if counted != row.started || started()? != row.started {
        filled_words(likely..HISTOGRAM_BUCKETS, buckets)?;
    }
    number(buckets);
    Ok(())
}

/// The same of a histogram that several rows share, which none of them tells anything of.
pub(super) fn read_shared(
    buckets: &mut Vec<(usize, u64)>,
    filled_words: impl FnOnce(Range<usize>, &mut Vec<(usize, u64)>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    buckets.clear();
    filled_words(0..HISTOGRAM_BUCKETS, buckets)?;
    number(buckets);
    Ok(())
}

/// From the words' places: the bucket before the first word stands in the row.
fn number(buckets: &mut [(usize, u64)]) {
    buckets.iter_mut().for_each(|(word, _)| *word += 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found of syncs with these latencies, and how many words were looked at for it.
    fn found(row: Row, latencies: &[u64]) -> (Vec<(usize, u64)>, usize) {
        found_when(row.started, row, latencies)
    }

    /// `started`: so many have when the lower buckets are read.
    fn found_when(started: u64, row: Row, latencies: &[u64]) -> (Vec<(usize, u64)>, usize) {
        let mut words = vec![0; HISTOGRAM_BUCKETS];
        for &latency in latencies {
            words[bucket_of(latency) - 1] += 1;
        }
        let (mut buckets, mut looked_at) = (vec![(7, 7)], 0);
        let filled_words = |range: Range<usize>, into: &mut Vec<_>| {
            looked_at += range.len();
            into.extend(range.filter(|&word| words[word] != 0).map(|word| (word, words[word])));
            Ok(())
        };
        read(&row, &mut buckets, filled_words, || Ok(started)).unwrap();
        (buckets, looked_at)
    }

    fn row(started: u64, max_ns: u64) -> Row {
        Row { started, max_ns, ..Row::default() }
    }

    #[test]
    fn nothing_above_the_greatest_latency_is_looked_at() {
        for max_ns in (8..40).flat_map(|power| [1 << power, (1 << power) + 1, (2 << power) - 1]) {
            let (buckets, looked_at) = found(row(2, max_ns), &[256, max_ns]);
            assert_eq!(buckets.iter().map(|&(_, n)| n).sum::<u64>(), 2, "{max_ns}");
            assert_eq!(buckets.last().map(|&(bucket, _)| bucket), Some(bucket_of(max_ns)));
            assert!(looked_at < bucket_of(max_ns) + TOGETHER, "{max_ns}: {looked_at}");
        }
    }

    #[test]
    fn what_is_missing_is_looked_for_in_all_of_it() {
        let expected = vec![(bucket_of(1_000), 1), (bucket_of(1_000_000), 1)];
        // Two processors ended a sync at the same moment, and the greater latency was overwritten.
        assert_eq!(found(row(2, 1_000), &[1_000, 1_000_000]), (expected.clone(), HISTOGRAM_BUCKETS));
        // Another one is in flight.
        assert_eq!(found(row(3, 1_000_000), &[1_000, 1_000_000]), (expected.clone(), HISTOGRAM_BUCKETS));
        // The greater one was overwritten, and while this was read one more began and ended: by number it is
        // not missing.
        let (all, most) = found_when(2, row(1, 1_000), &[1_000, 1_000_000]);
        assert_eq!((all, most), (expected, HISTOGRAM_BUCKETS));
    }

    #[test]
    fn the_outermost_ones_stand_in_the_row() {
        let outermost = Row { under: 2, over: 1, ..row(3, 1 << 41) };
        assert_eq!(found(outermost, &[]).0, []);
        let under = Row { under: 2, ..row(2, 255) };
        assert_eq!(found(under, &[]), (vec![], 0));
    }
}
