//! The binary `overdue`; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    overdue::main()
}
