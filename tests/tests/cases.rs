//! Every case, every archive: what real borg wrote is what packtrain restores, lists, streams and checks.
//!
//! | file | holds |
//! |---|---|
//! | `extract` | trees, at every number of workers and any memory |
//! | `listing` | `list` and `info` against what borg lists |
//! | `streams` | `cat`, `extract --stdout`, `export-tar` through GNU tar |
//! | `checks` | `check` on what is healthy, and what is refused |
//! | `choice` | selections, stripping, dry runs, runs over what is there |
//! | `readback` | `extract --verify` |
//! | `nobody` | extraction by a normal user |

#[path = "cases/checks.rs"]
mod checks;
#[path = "cases/choice.rs"]
mod choice;
#[path = "cases/extract.rs"]
mod extract;
#[path = "cases/listing.rs"]
mod listing;
#[path = "cases/nobody.rs"]
mod nobody;
#[path = "cases/readback.rs"]
mod readback;
#[path = "cases/streams.rs"]
mod streams;
