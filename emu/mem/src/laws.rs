//! Laws of lines at a cut: what the cores hold against what the directories record (L11).
//!
//! A record may name more than there is, since S is dropped silently and messages are under way;
//! never less. So the laws hold at every cut, whatever is under way: the LLC's record is changed
//! by the messages that its cores' permissions follow, and a home's record of a line is compared
//! only while no transaction of it is under way there.

use std::fmt;

use emu_sim::{CoreId, LineAddr};

use crate::home::Home;
use crate::llc::Llc;
use crate::msg::Perm;
use crate::paths::Paths;

/// A law of lines that does not hold: a bug of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A core may write a line while another holds it (L2).
    Writers {
        /// Line.
        line: LineAddr,
        /// Everybody who holds it.
        holders: Vec<(CoreId, Perm)>,
    },
    /// A core has a copy or a watch that its LLC does not know (L11, W3).
    Unrecorded {
        /// Line.
        line: LineAddr,
        /// Core.
        core: CoreId,
        /// What it holds; `None` is a watch.
        perm: Option<Perm>,
        /// What the LLC has recorded.
        record: String,
    },
    /// An LLC has more than its home has recorded (L9, L11).
    Ungranted {
        /// Line.
        line: LineAddr,
        /// What the LLC has recorded.
        record: String,
        /// What the home has recorded.
        home: String,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Writers { line, holders } => {
                write!(f, "line {line} has a writer beside others:")?;
                holders.iter().try_for_each(|(core, perm)| write!(f, " {core} {perm:?}"))
            }
            Breach::Unrecorded { line, core, perm: None, record } => {
                write!(f, "line {line}: {core} watches it, its LLC knows only {record}")
            }
            Breach::Unrecorded { line, core, perm: Some(perm), record } => {
                write!(f, "line {line}: {core} holds {perm:?}, its LLC knows only {record}")
            }
            Breach::Ungranted { line, record, home } => {
                write!(f, "line {line}: an LLC has {record}, its home knows only {home}")
            }
        }
    }
}

/// Checks one cut: every line that a core holds, every watch that is armed, every line of an LLC.
///
/// # Errors
/// The first law that does not hold, in order of lines.
pub fn check(
    mut held: Vec<(LineAddr, CoreId, Perm)>,
    watched: &[(LineAddr, CoreId)],
    llcs: &[Llc],
    homes: &[Home],
    paths: &Paths,
) -> Result<(), Breach> {
    held.sort_unstable();
    for of_line in held.chunk_by(|a, b| a.0 == b.0) {
        if of_line.len() > 1 && of_line.iter().any(|h| h.2.can_write()) {
            let holders = of_line.iter().map(|h| (h.1, h.2)).collect();
            return Err(Breach::Writers { line: of_line[0].0, holders });
        }
    }
    let copies = held.into_iter().map(|(line, core, perm)| (line, core, Some(perm)));
    let watches = watched.iter().map(|(line, core)| (*line, *core, None));
    for (line, core, perm) in copies.chain(watches) {
        let llc = &llcs[paths.llc_of_core[core.index()].index()];
        if !llc.knows(line, core, perm, paths) {
            let record = format!("{:?}", llc.record(line, paths));
            return Err(Breach::Unrecorded { line, core, perm, record });
        }
    }
    for llc in llcs {
        for (line, up) in llc.granted_lines() {
            let home = &homes[paths.home_of(line.base()).index()];
            if !home.knows(line, llc.id(), up) {
                let record = format!("{:?}", llc.record(line, paths));
                let home = format!("{:?}", home.record(line));
                return Err(Breach::Ungranted { line, record, home });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::{Envelope, LineMsg};
    use crate::shadow::Data;
    use emu_sim::mutant::Mutation;
    use emu_sim::{Chance, HomeId, Key, LlcId, NodeRef, Phase};

    const LINE: LineAddr = LineAddr(3);

    /// Two LLCs of two cores each, one home, no latencies.
    fn paths() -> Paths {
        Paths {
            llc_of_core: [0, 0, 1, 1].map(LlcId).to_vec(),
            cores_of_llc: [[0, 1], [2, 3]].map(|c| c.map(CoreId).to_vec()).to_vec(),
            core_llc: vec![0; 4],
            llc_core: vec![0; 4],
            llc_lookup: 0,
            llc_service: 0,
            llc_home: vec![vec![0]; 2],
            home_llc: vec![vec![0; 2]],
            home_device: vec![0],
            llc_llc: vec![vec![0; 2]; 2],
            home_lookup: 0,
            home_service: 0,
            memory: 0,
            llc_geometry: vec![(1, 1); 2],
            has_owned_state: false,
            home_ends: vec![u64::MAX],
            mutation: Mutation::default(),
        }
    }

    /// LLCs and home after core 0 has got the line to write.
    fn written(paths: &Paths) -> (Vec<Llc>, Vec<Home>) {
        let mut llcs: Vec<Llc> = (0..2).map(|l| Llc::new(LlcId(l), paths)).collect();
        let mut homes = vec![Home::new(HomeId(0), paths)];
        let core = NodeRef::Core(CoreId(0));
        let to_llc = |msg| Envelope {
            key: Key::at(0, Phase::Request),
            to: NodeRef::Llc(LlcId(0)),
            from: core,
            line: LINE,
            msg,
            data: Data::default(),
        };
        let mut under_way = vec![to_llc(LineMsg::Get { write: true })];
        while let Some(e) = under_way.pop() {
            match e.to {
                NodeRef::Llc(l) => {
                    llcs[l.index()].handle(&e, paths, Chance::new(0), &mut under_way);
                }
                NodeRef::Home(_) => homes[0].handle(&e, paths, Chance::new(0), &mut under_way),
                _ => under_way.push(to_llc(LineMsg::Done)),
            }
        }
        (llcs, homes)
    }

    #[test]
    fn each_law_has_its_breach() {
        let paths = paths();
        let (llcs, homes) = written(&paths);
        let held = |core, perm| (LINE, CoreId(core), perm);
        let check = |held: &[_], watched: &[_], homes: &[Home]| {
            let watched: Vec<_> = watched.iter().map(|core| (LINE, CoreId(*core))).collect();
            let found = super::check(held.to_vec(), &watched, &llcs, homes, &paths);
            found.map_err(|breach| breach.to_string().split(" Llc").next().unwrap_or("").to_owned())
        };
        let writer = held(0, Perm::Modified);
        assert_eq!(check(&[writer], &[0], &homes), Ok(()));
        assert_eq!(check(&[], &[], &homes), Ok(()), "a copy may have gone");
        let beside = check(&[held(2, Perm::Read), writer], &[], &homes);
        assert_eq!(
            beside,
            Err("line 0x3 has a writer beside others: core0 Modified core2 Read".into())
        );
        let unknown = check(&[held(1, Perm::Read)], &[], &homes);
        assert_eq!(unknown, Err("line 0x3: core1 holds Read, its LLC knows only".into()));
        let unwatched = check(&[], &[3], &homes);
        assert_eq!(unwatched, Err("line 0x3: core3 watches it, its LLC knows only".into()));
        let ungranted = check(&[writer], &[], &[Home::new(HomeId(0), &paths)]);
        assert_eq!(ungranted, Err("line 0x3: an LLC has".into()));
    }
}
