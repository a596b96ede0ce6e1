//! What is particular to Borg 1.x: damage in the log, archives that must be asked for, refusals, odd items.
//!
//! What it has in common with other formats is tested in `cases.rs`, over all cases that are whole.
//!
//! | file | holds |
//! |---|---|
//! | `damage` | damaged segments and repaired repositories: the rest is exact, the ranges are named |
//! | `asked` | checkpoints, part files, lost archives, what is not authenticated |
//! | `refusals` | what is not opened, and why |
//! | `listing` | entries and archives as borg lists them |
//! | `odd` | items that borg itself would not write |

#[path = "borg1/asked.rs"]
mod asked;
#[path = "borg1/damage.rs"]
mod damage;
#[path = "borg1/listing.rs"]
mod listing;
#[path = "borg1/odd.rs"]
mod odd;
#[path = "borg1/refusals.rs"]
mod refusals;

use packtrain_tests::cases::{Archive, Case};
use packtrain_tests::command::{Call, Run};
use packtrain_tests::folder::Temp;
use packtrain_tests::tree::{self, Tree};

/// One extraction with these options: the run and the tree it made.
fn extract(case: &Case, archive: &Archive, options: &[&str]) -> (Run, Tree, Temp) {
    let temp = Temp::new();
    temp.folder("out");
    let call = Call::new(["extract", "-C", "out", "-r"]).args([case.repo()]).args([archive.spec()]).args(options);
    let run = call.opening(case).within(temp.path()).run();
    let tree = tree::print(&temp.path().join("out"), &archive.tree_options());
    (run, tree, temp)
}

/// The tree that borg wrote, or that is right.
fn expected(archive: &Archive) -> Tree {
    tree::kept(&archive.file("expect").unwrap_or_else(|| panic!("{}: no expected tree", archive.name)))
}
