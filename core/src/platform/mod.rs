//! The surface between the core and a shell.
//!
//! Values first: a [`Need`] goes out, a [`Reply`] comes back, through a [`Port`]. Traits only
//! where a value cannot do: a [`Codec`] a shell may replace by a faster one, and the [`Opener`]
//! by which a worker opens the units of one source.

pub mod codec;
pub mod opener;
pub mod port;
pub mod wide;

pub use codec::{Codec, CodecError, Decoder, Kit};
pub use opener::{Content, Opener, Opening, Scratch};
pub use port::{DEVICE, Failure, IMAGE, Need, Port, Reply, drive};
pub use wide::{Compress, LANES, Lane, Wide};

/// A boxed future that stays on its thread.
pub type Pending<'a, T> = core::pin::Pin<alloc::boxed::Box<dyn Future<Output = T> + 'a>>;
