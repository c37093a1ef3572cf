//! Tests of the repository as a whole; the tests themselves lie in `tests/`.
