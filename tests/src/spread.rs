//! Many checks at once, and all their failures in one report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that run checks.
const THREADS: usize = 2;
/// Failures that are printed in full.
const SHOWN: usize = 40;

/// Runs `check` on every item, on two threads, and panics at the end if any failed: with the
/// name of each item that did, and what its check said.
///
/// # Panics
/// If a check panicked.
pub fn spread<T: Sync>(items: &[T], name: impl Fn(&T) -> String + Sync, check: impl Fn(&T) + Sync) {
    assert!(!items.is_empty(), "nothing to check");
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(item))) {
                        failures.lock().expect("no panic here").push(format!("{}: {}", name(item), words(&*panic)));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no panic here");
    failures.sort();
    let count = failures.len();
    failures.truncate(SHOWN);
    assert!(count == 0, "{count} of {} failed:\n{}", items.len(), failures.join("\n"));
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named() {
        let result =
            catch_unwind(|| spread(&[1, 2, 3, 4], |n| format!("item {n}"), |n| assert!(n % 2 == 1, "{n} is even")));
        let text = words(&*result.unwrap_err());
        assert!(text.contains("2 of 4") && text.contains("item 2: 2 is even") && text.contains("item 4"), "{text}");
    }
}
