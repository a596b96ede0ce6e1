//! Faults that other programs were reported for, each played with a repository of the own writer.
//! The number of a test is its row in the project's log of public faults.
//!
//! Rows that another file plays, so that nothing is said twice:
//!
//! | row | where |
//! |---|---|
//! | 8 size differs from the chunks | `hostile_values.rs`, `sizes_that_lie` |
//! | 31 read-only folder, normal user | `hostile.rs`, `read_only_folders_of_a_normal_user` |
//! | 32 path through a link | `hostile.rs`, `nothing_is_written_through_a_link_*` |
//! | 45 key that is not UTF-8 | `hostile_values.rs`, `keys_and_values_of_no_sense_are_passed_over` |
//! | 69 memory of what is not wanted | `limits.rs`, `what_is_not_wanted_takes_no_memory` |
//! | 121 hard-linked symbolic link | `hostile.rs`, `link_groups_do_without_a_first_name` |

#[path = "log/damage.rs"]
mod damage;
#[path = "log/ends.rs"]
mod ends;
#[path = "log/entries.rs"]
mod entries;
#[path = "log/names.rs"]
mod names;

use packtrain_tests::writer::Stage;
use std::path::Path;

/// Bytes that no codec makes smaller, from a seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    core::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    })
    .take(len)
    .collect()
}

/// `REPOSITORY::aid:ARCHIVE` of a stage.
fn source(stage: &Stage) -> String {
    format!("{}::aid:{}", stage.repository().display(), stage.archive)
}

/// Every name below a folder that looks unfinished.
fn unfinished(folder: &Path) -> Vec<String> {
    packtrain_tests::folder::files(folder).into_iter().filter(|name| name.contains(".packtrain-")).collect()
}
