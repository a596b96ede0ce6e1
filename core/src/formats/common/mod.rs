//! What several formats share: MessagePack, and Borg's item maps.

pub mod ini;
pub mod item;
pub mod msgpack;
