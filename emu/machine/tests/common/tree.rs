//! A reader of flattened device trees, for tests: paths to property bytes.

use std::collections::BTreeMap;

/// Properties of one node by name.
pub(crate) type Properties = BTreeMap<String, Vec<u8>>;

/// All nodes by path; the root is "".
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<String, Properties>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn text(bytes: &[u8], at: usize) -> String {
    let end = bytes[at..].iter().position(|&byte| byte == 0).expect("a NUL") + at;
    String::from_utf8(bytes[at..end].to_vec()).expect("UTF-8")
}

impl Tree {
    /// Reads a blob; panics when it is not well formed.
    pub(crate) fn parse(blob: &[u8]) -> Tree {
        assert_eq!(word(blob, 0), 0xd00d_feed);
        assert_eq!(usize::try_from(word(blob, 4)), Ok(blob.len()));
        let (mut at, strings) = (word(blob, 8) as usize, word(blob, 12) as usize);
        let mut nodes = BTreeMap::new();
        let mut path: Vec<String> = Vec::new();
        loop {
            let token = word(blob, at);
            at += 4;
            match token {
                1 => {
                    let name = text(blob, at);
                    at = (at + name.len() + 1).next_multiple_of(4);
                    path.push(name);
                    let new = nodes.insert(path.join("/"), Properties::new());
                    assert!(new.is_none(), "{} comes twice", path.join("/"));
                }
                2 => drop(path.pop().expect("an open node")),
                3 => {
                    let (len, name) = (word(blob, at) as usize, word(blob, at + 4) as usize);
                    let value = blob[at + 8..at + 8 + len].to_vec();
                    at = (at + 8 + len).next_multiple_of(4);
                    let node = nodes.get_mut(&path.join("/")).expect("an open node");
                    node.insert(text(blob, strings + name), value);
                }
                4 => {}
                9 => return Tree { nodes },
                _ => panic!("token {token} at {at:#x}"),
            }
        }
    }

    /// Returns a property.
    pub(crate) fn get(&self, path: &str, name: &str) -> Option<&[u8]> {
        self.nodes.get(path)?.get(name).map(Vec::as_slice)
    }

    /// Returns a property as 32-bit cells.
    pub(crate) fn cells(&self, path: &str, name: &str) -> Vec<u32> {
        let bytes = self.get(path, name).unwrap_or_else(|| panic!("{path} has no {name}"));
        bytes.chunks_exact(4).map(|cell| word(cell, 0)).collect()
    }

    /// Returns a property as a text.
    pub(crate) fn text(&self, path: &str, name: &str) -> String {
        text(self.get(path, name).unwrap_or_else(|| panic!("{path} has no {name}")), 0)
    }

    /// Returns the path of the node with a phandle.
    pub(crate) fn by_phandle(&self, phandle: u32) -> &str {
        let bytes = phandle.to_be_bytes();
        let mut found =
            self.nodes.iter().filter(|(_, p)| p.get("phandle").is_some_and(|v| **v == bytes));
        let (path, _) = found.next().unwrap_or_else(|| panic!("no phandle {phandle:#x}"));
        path
    }
}
