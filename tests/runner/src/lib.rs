//! tests_runner
