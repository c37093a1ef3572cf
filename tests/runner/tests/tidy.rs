//! The rules of the repository, as part of the gate.

use tools_xtask::{repository_root, tidy};

#[test]
fn the_repository_is_tidy() {
    let findings = tidy::check_repository(&repository_root()).expect("the files can be read");
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
}
