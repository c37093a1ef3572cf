//! The line protocol with a rule broken (`engine.md` section 12): the testers of this crate see
//! it, and pass the rules as written.

mod model;

use std::panic::catch_unwind;

use emu_sim::mutant::{Mutant, Mutation};
use emu_sim::{CoreId, LineAddr};
use model::{Legs, Op, World, paths};

/// Readers on both levels, then a writer: the panic's text, if it ends in one.
fn write_beside_readers(shape: (u32, u32, u32), mutation: Mutation) -> Result<(), String> {
    let run = || {
        let mut w = World::new(paths(shape, Legs { mutation, ..Legs::default() }), 1);
        let cores = w.cores.len() as u32;
        // The farthest reader answers late: a grant that does not wait overtakes its answer.
        w.answer_delay[cores as usize - 1] = 100;
        for core in 0..cores {
            w.op(0, CoreId(core), LineAddr(1), Op::Load);
        }
        w.op(1000, CoreId(0), LineAddr(1), Op::Store);
        w.run();
    };
    catch_unwind(run).map_err(|panic| *panic.downcast::<String>().expect("a formatted message"))
}

#[test]
fn a_write_granted_before_the_answers_is_caught() {
    for shape in [(1, 2, 1), (2, 1, 1), (3, 2, 1)] {
        assert_eq!(write_beside_readers(shape, Mutation::default()), Ok(()), "{shape:?}");
        let text = write_beside_readers(shape, Mutation::of(Mutant::EarlyGrant));
        let text = text.expect_err("the mutant passed");
        assert!(text.contains("may write beside"), "{shape:?}: {text}");
    }
}
