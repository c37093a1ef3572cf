//! The line protocol on one page: who says what to whom (`engine.md` section 4).
//!
//! Two levels speak the same words: a core to its LLC, and an LLC to the line's home. An LLC is to
//! the home what a core is to the LLC (L9). Values never travel: they live in flat memory and are
//! touched under permission only (V1); a message moves permission and costs time.
//!
//! | message | from, to | meaning |
//! |---|---|---|
//! | `Get { write }` | down to up | GetS or GetM: asks for permission to read, or to write |
//! | `Put { dirty, watch }` | down to up | PutM/PutE: the recorded owner gives the line up |
//! | `Flush` | down to up | CLFLUSH: every copy in the machine ends |
//! | `Snoop { Inv }` | up to down | the copy ends; answered by `Ack` |
//! | `Snoop { Share }` | up to down | Fwd for a reader: the writer keeps a readable copy; `Ack` |
//! | `Snoop { Flush }` | up to down | as Inv, but an armed watch stays recorded |
//! | `Ack { .. }` | down to up | answer to a snoop, with or without the line (L3) |
//! | `Grant { .. }` | up to down, or owner LLC to requesting LLC | permission, with data |
//! | `Done` | down to up | the grant was handled; the line may serve the next request (L1) |
//! | `FlushDone` | up to down | the flush is complete; no `Done` follows |
//! | `Access { write }` | device to home | DMA or far atomic: touches the value at the home |
//! | `AccessDone` | home to device | the value was touched when this left; no `Done` follows |

use emu_sim::{Key, LineAddr, LlcId, NodeRef};

use crate::shadow::Data;

/// What a snoop asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SnoopKind {
    /// End the copy for a writer.
    Inv,
    /// Reduce write permission to read.
    Share,
    /// End the copy for a flush: an armed watch survives.
    Flush,
}

/// Permission that a grant carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Perm {
    /// S or O: may read.
    Read,
    /// E: may read and write, memory is up to date.
    Exclusive,
    /// M: may read and write.
    Modified,
}

impl Perm {
    /// Whether the holder may write.
    #[must_use]
    pub const fn can_write(self) -> bool {
        !matches!(self, Perm::Read)
    }
}

/// One message about one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineMsg {
    /// GetS or GetM.
    Get {
        /// Asks to write.
        write: bool,
    },
    /// The recorded owner gives the line up.
    Put {
        /// The data differ from memory.
        dirty: bool,
        /// The core still watches the line: it stays recorded as a sharer.
        watch: bool,
    },
    /// Ends every copy in the machine.
    Flush,
    /// Order to a holder.
    Snoop {
        /// What to do.
        kind: SnoopKind,
        /// LLC to which an owner LLC sends the data and the permission directly; `None`: the
        /// sender of the snoop waits for the answer and grants itself.
        grant_to: Option<LlcId>,
    },
    /// Answer to a snoop.
    Ack {
        /// A readable copy is left.
        kept: bool,
        /// The copy was modified.
        dirty: bool,
        /// A watch is left: the answerer stays recorded as a sharer.
        watch: bool,
        /// The answerer sent the grant to `grant_to` itself. False when it had given the line up
        /// before the snoop came (L3, L7): then the sender of the snoop grants. Cores never
        /// forward and always say false.
        forwarded: bool,
    },
    /// Permission.
    Grant(Perm),
    /// The grant was handled.
    Done,
    /// The flush is complete.
    FlushDone,
    /// An access at the home, by DMA or as a far atomic.
    Access {
        /// Every copy ends first; else a writer is reduced (V1).
        write: bool,
    },
    /// The access was made in the item in which this left (V2).
    AccessDone,
}

/// A message under way. `key.time` is the arrival in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Order at the receiver.
    pub key: Key,
    /// Receiver.
    pub to: NodeRef,
    /// Sender.
    pub from: NodeRef,
    /// Line.
    pub line: LineAddr,
    /// What is said.
    pub msg: LineMsg,
    /// The line's bytes, in shadow mode.
    pub data: Data,
}
