//! EROFS images: every layout that mkfs.erofs writes, and images that nobody should have written.

#[path = "erofs/damage.rs"]
mod damage;
#[path = "erofs/faults.rs"]
mod faults;
#[path = "erofs/proof.rs"]
mod proof;
#[path = "erofs/whole.rs"]
mod whole;
