//! What the tests share: real repositories, the real command, and an outside tool that looks at trees.
//!
//! | room | holds |
//! |---|---|
//! | [`folder`] | temporary folders, copies, what they can hold here |
//! | [`cases`] | the table of cases, read from `cases/*/*/case.json` |
//! | [`images`] | the table of EROFS images, and the tree that they are of |
//! | [`image_writer`] | a writer of small EROFS images, for what no tool would write |
//! | [`tree`] | what `tools/tree.py` says of a folder, and comparing it |
//! | [`snapshot`] | a digest of a whole folder, to prove that nothing changed |
//! | [`command`] | runs the `packtrain` command in a clean environment |
//! | [`repository`] | surgery on copies of repositories: objects, keys, names |
//! | [`middlemen`] | stores that delay, count or damage reads |
//! | [`inside`] | runs packtrain as a library, in this process |
//! | [`spread`](mod@spread) | many checks on two threads, every failure named |
//! | [`writer`] | a writer of small Borg 2 repositories, for what no case holds |
//! | [`log_writer`] | the same for Borg 1.x |
//!
//! Nothing here decides what is right: that is in the cases, in `tree.py`, and in the tests.

pub mod cases;
pub mod command;
pub mod folder;
pub mod fuzzing;
pub mod image_writer;
pub mod images;
pub mod inside;
pub mod log_writer;
pub mod middlemen;
pub mod repository;
pub mod snapshot;
pub mod spread;
pub mod tree;
pub mod writer;
