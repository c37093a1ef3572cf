//! emu_observe
