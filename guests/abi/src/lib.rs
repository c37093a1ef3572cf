//! The contract between guest images and the machine that runs them.
//!
//! Both sides import this crate and nothing else of each other: the guest kernel (`guests/kern`)
//! and the host crates that load it, answer its device accesses, read its counters and hold it at
//! its points. It is data and pure functions, no behaviour of either side. Reading order:
//! [`layout`] (where things lie at hand-over), [`device`] (the test device), [`exit`] (what the
//! exit register says), [`class`] (line classes), [`counter`] (guest-kept counters),
//! [`block`] (blocks that the machine reads out of guest memory), [`points`] (marked steps),
//! [`note`] (source hash in the image), [`switch`] (boot switches),
//! [`preset`] (sets of them).
#![no_std]

pub mod layout;

pub mod device;

pub mod dma;

pub mod exit;

pub mod class;

pub mod counter;

pub mod block;

pub mod points;

pub mod rtapp;

pub mod note;

pub mod switch;

pub mod preset;
