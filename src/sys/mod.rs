//! Every `unsafe` of the crate, behind safe functions; each block says why it is sound.

pub mod machine;
