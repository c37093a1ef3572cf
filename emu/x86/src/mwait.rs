//! Instructions that wait.
