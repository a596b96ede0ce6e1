//! The command line: exit codes, keys and secrets, machine-readable output, pipes and signals.
//!
//! | file | holds |
//! |---|---|
//! | `codes` | each failure has its exit code and says what to do |
//! | `keys` | where passphrases come from, and that they go nowhere |
//! | `output` | JSON lines, escaped names, pipes that close, help |
//! | `signals` | an interrupted extraction leaves nothing half-done |

#[path = "cli/codes.rs"]
mod codes;
#[path = "cli/keys.rs"]
mod keys;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/signals.rs"]
mod signals;
