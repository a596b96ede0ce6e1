//! Damage of every kind at every place: named, never silent, never more than what is hit.
//!
//! | file | holds |
//! |---|---|
//! | `victim` | a repository to damage, with what is right, and the rules that hold for any damage |
//! | `matrix` | actions crossed with places |
//! | `fallbacks` | damage that changes nothing: everything is restored and the exit code is 0 |

#[path = "damage/fallbacks.rs"]
mod fallbacks;
#[path = "damage/matrix.rs"]
mod matrix;
#[path = "damage/victim.rs"]
mod victim;
