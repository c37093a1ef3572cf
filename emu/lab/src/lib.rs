//! emu_lab
