//! Completions and man page, made from the flags.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::output::{Outcome, print_bytes};

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "crosscall", &mut script);
    print_bytes(&script)?;
    Ok(0)
}

/// Prints the man page; subcommands follow the command.
pub(crate) fn man() -> Outcome {
    let mut page = Vec::new();
    let mut command = Args::command();
    command.build();
    render(&command, &mut page)?;
    print_bytes(&page)?;
    Ok(0)
}

fn render(command: &clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    clap_mangen::Man::new(command.clone()).render(page)?;
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.filter(|command| command.get_name() != "help").try_for_each(|one| render(one, page))
}
