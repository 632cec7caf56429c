//! Work that shares nothing, on every core.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What `work` makes of each of `items`, in their order, whichever thread has made it. `done` hears of
/// each when it is finished.
pub(in crate::commands) fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    done: impl Fn(&T) + Sync,
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else {
                        return;
                    };
                    let result = work(item);
                    done(item);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_work() {
        let finished = AtomicUsize::new(0);
        let items: Vec<usize> = (0..100).collect();
        let doubled = each(
            &items,
            |item| item * 2,
            |_| {
                finished.fetch_add(1, Ordering::Relaxed);
            },
        );
        assert!(
            doubled
                .iter()
                .enumerate()
                .all(|(at, twice)| *twice == at * 2)
        );
        assert_eq!((doubled.len(), finished.into_inner()), (100, 100));
        assert!(each(&[] as &[u8], |_| 0, |_| ()).is_empty());
    }
}
