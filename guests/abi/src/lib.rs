//! guests_abi
