//! What several formats share: record encodings, the item stream, the chunk index.

pub mod audit;
pub mod fetch;
pub mod index;
pub mod ini;
pub mod item;
pub mod keyfile;
pub mod msgpack;
pub mod stream;
pub mod time;
pub mod zeros;
