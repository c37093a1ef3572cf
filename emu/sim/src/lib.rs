//! emu_sim
