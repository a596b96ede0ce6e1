//! What is particular to Borg 1.x: damage in the log, archives that must be asked for, refusals, odd items.
//!
//! What it has in common with other formats is tested in `cases.rs`, over all cases that are whole.
//!
//! | file | holds |
//! |---|---|
//! | `damage` | damaged segments and repaired repositories: the rest is exact, the ranges are named |
//! | `chosen` | parts of an archive: later names of hard links, holes, streams |
//! | `asked` | checkpoints, part files, lost archives, what is not authenticated |
//! | `refusals` | what is not opened, and why |
//! | `listing` | entries and archives as borg lists them |
//! | `odd` | items that borg itself would not write |
//!
//! Faults of other readers that became tests here, by the number they are publicly known by: hard links whose
//! first name is not chosen (borg#4350, #4535, #4725, #6037), is not there (#2092), or is another later name;
//! one bad chunk ends a run (#840); replaced or misstated content with exit 0 (#3448, #2157, #5235, #2180);
//! the index file with empty, deleted, missing or false buckets (#9022, #6687), and hints that lie (#4922,
//! #8535); text as an entry's length (#2099); damage in what nothing uses (#5182, #3602, #8576); zero chunks
//! in metadata (#6587); padding (#7559, #8705); times beyond all bounds, before 1970, negative owners, empty
//! attributes, no device number (#2304, #3729, #2674, #2534); links and paths that lead out (#9919, #7099);
//! odd names (#9406, #6151); forged or unauthenticated archives (CVE-2023-36811), empty or lost keys (#7561,
//! #7700), keys that are not UTF-8 (#4845); `--stdout` that makes files (#2645).

#[path = "borg1/asked.rs"]
mod asked;
#[path = "borg1/chosen.rs"]
mod chosen;
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
