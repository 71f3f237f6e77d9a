//! How the result of a benchmark that can be drawn is shown.

use std::{fmt::Display, fs, path::PathBuf};

use clap::Args;
use serde::Serialize;

use super::finished::Finished;
use crate::{
    bench::plot::Plot,
    cli::{exit::Failure, output::Output},
};

#[derive(Debug, Args)]
pub(super) struct Shown {
    /// Also draw the result into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Form of the result
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

impl Shown {
    /// Draws it where a picture is asked for, and prints it; fails where something is wrong.
    pub(super) fn show<R: Serialize + Display>(
        &self,
        finished: Finished<R>,
        plot: &Plot,
    ) -> Result<(), Failure> {
        if let Some(file) = &self.svg {
            fs::write(file, plot.svg()).map_err(|error| {
                Failure::failed(format!("cannot write the picture {}: {error}", file.display()))
            })?;
        }
        finished.print(self.output)
    }
}
