//! The system half of the cpu on flat memory: translation, exceptions, system registers, waits.
//!
//! Every request is made on memory that answers at once, and again on memory that makes it wait:
//! the outcome must be the same.

mod atomics;
mod code;
mod exceptions;
mod paging;
mod sysregs;
mod waits;
mod world;
