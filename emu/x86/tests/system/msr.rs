//! Model-specific registers beyond the rows of `privilege.ins`.

use emu_x86::defs::vector;

use crate::world::{CODE, End, World};

#[test]
fn an_unknown_msr_is_reported() {
    let mut world = World::long(&[0x0f, 0x32]);
    world.cpu.state.gpr[1] = 0xdead;
    assert_eq!(world.run(), End::Handler(vector::GP));
    assert_eq!(world.port.unimplemented, [CODE]);
}
