//! Work through a list of processes without ever waiting for one: what blocks is left behind on its thread.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Threads that may be left behind in one go; then the rest of the list is given up.
const LEFT_BEHIND_AT_MOST: usize = 8;

/// Calls `work(item, emit)` for each item on a helper thread. `emit` hands a result over, and `emit(None)` says
/// that the work goes on. An item that is silent for longer than `deadline` is skipped with what it had emitted.
/// Returns the results and the number of items that were skipped or given up.
pub fn for_each<T, R, W>(items: Vec<T>, deadline: Duration, work: W) -> (Vec<R>, usize)
where
    T: Send + Sync + 'static,
    R: Send + 'static,
    W: Fn(&T, &mut dyn FnMut(Option<R>)) + Send + Sync + 'static,
{
    let shared = Arc::new((items, work));
    let (mut results, mut left_behind, mut next) = (Vec::new(), 0, 0);
    while next < shared.0.len() {
        if left_behind == LEFT_BEHIND_AT_MOST {
            return (results, left_behind + shared.0.len() - next);
        }
        let (sender, receiver) = mpsc::channel();
        let worker = shared.clone();
        let spawned = thread::Builder::new().name("reader".into()).spawn(move || {
            let (items, work) = &*worker;
            for (index, item) in items.iter().enumerate().skip(next) {
                let mut heard = true;
                work(item, &mut |result| heard &= sender.send((index, result)).is_ok());
                // the item is done; nobody listens any more once this thread was given up
                if !heard || sender.send((index + 1, None)).is_err() {
                    return;
                }
            }
        });
        if spawned.is_err() {
            return (results, left_behind + shared.0.len() - next);
        }
        loop {
            match receiver.recv_timeout(deadline) {
                Ok((index, result)) => {
                    next = index;
                    results.extend(result);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    left_behind += 1;
                    next += 1;
                    break;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) if next >= shared.0.len() => break,
                // the work panicked on this item
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    left_behind += 1;
                    next += 1;
                    break;
                }
            }
        }
    }
    (results, left_behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn an_item_that_blocks_is_skipped_with_what_it_had_said() {
        let started = Instant::now();
        let (results, skipped) = for_each(vec![1, 2, 3], SHORT, |&item, emit| {
            emit(Some(item));
            if item == 2 {
                thread::sleep(Duration::from_secs(3600));
            }
            emit(Some(item * 10));
        });
        assert_eq!(results, [1, 10, 2, 3, 30]);
        assert_eq!(skipped, 1);
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_list_on_which_everything_blocks_is_given_up() {
        let items: Vec<u32> = (0..1000).collect();
        let (results, skipped) = for_each(items, SHORT, |_, _: &mut dyn FnMut(Option<()>)| {
            thread::sleep(Duration::from_secs(3600));
        });
        assert!(results.is_empty());
        assert_eq!(skipped, 1000);
    }

    #[test]
    fn slow_work_that_says_so_is_waited_for() {
        let (results, skipped) = for_each(vec![()], SHORT * 5, |(), emit| {
            for _ in 0..10 {
                thread::sleep(SHORT);
                emit(None);
            }
            emit(Some(7));
        });
        assert_eq!((results, skipped), (vec![7], 0));
    }

    #[test]
    fn an_empty_list_is_done() {
        assert_eq!(for_each(Vec::<u8>::new(), SHORT, |_, emit| emit(Some(1))), (vec![], 0));
    }
}
