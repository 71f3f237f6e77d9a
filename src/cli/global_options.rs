//! Options of every command, and the settings that follow from them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{exit::Failure, output};
use crate::config::{Flags, SecretUrl, Settings};

/// Heading of its own for the connection options. They are global, and would otherwise be among the options of commands that ask
/// no service.
const CONNECTIONS: &str = "Connections (for commands that ask broker or database)";

#[derive(Debug, Args)]
pub(super) struct Global {
    /// The topology file [default: topology.toml, next to overdue.toml]
    #[arg(long, global = true, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// A settings file other than overdue.toml, also OVERDUE_CONFIG
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// AMQP URI of the broker, also OVERDUE_BROKER__URL
    #[arg(long, global = true, value_name = "URL", help_heading = CONNECTIONS)]
    broker_url: Option<SecretUrl>,
    /// A file with the AMQP URI, which keeps the password out of the command line
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTIONS, conflicts_with = "broker_url")]
    broker_url_file: Option<PathBuf>,
    /// URL of the management API, also OVERDUE_BROKER__MANAGEMENT_URL
    #[arg(long, global = true, value_name = "URL", help_heading = CONNECTIONS)]
    management_url: Option<SecretUrl>,
    /// A file with the URL of the management API
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTIONS, conflicts_with = "management_url")]
    management_url_file: Option<PathBuf>,
    /// URL of the database, also OVERDUE_DATABASE__URL
    #[arg(long, global = true, value_name = "URL", help_heading = CONNECTIONS)]
    database_url: Option<SecretUrl>,
    /// A file with the URL of the database
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTIONS, conflicts_with = "database_url")]
    database_url_file: Option<PathBuf>,
}

impl Global {
    /// Reads every layer of the settings.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let [broker, management, database] = self.urls();
        let flags = Flags {
            topology: self.topology.clone(),
            broker_url: broker.read()?,
            management_url: management.read()?,
            database_url: database.read()?,
            files: self.urls().map(|url| url.file.map(Path::to_owned)),
        };
        Ok(Settings::load(self.config.as_deref(), &flags)?)
    }

    /// Prints a warning for each flag whose value has a password.
    pub(super) fn warn_of_passwords(&self) {
        let shown = self.urls().into_iter().filter(Url::shows_a_password);
        for Url { flag, .. } in shown {
            output::report(format!(
                "warning: the password in {flag} can be read by everybody who lists processes; use {flag}-file, or the \
                 environment"
            ));
        }
    }

    fn urls(&self) -> [Url<'_>; 3] {
        [
            ("--broker-url", &self.broker_url, &self.broker_url_file),
            ("--management-url", &self.management_url, &self.management_url_file),
            ("--database-url", &self.database_url, &self.database_url_file),
        ]
        .map(|(flag, given, file)| Url {
            flag,
            given: given.as_ref(),
            file: file.as_deref(),
        })
    }
}

/// A URL from its flag or its `-file` flag.
struct Url<'a> {
    flag: &'static str,
    given: Option<&'a SecretUrl>,
    file: Option<&'a Path>,
}

impl Url<'_> {
    fn shows_a_password(&self) -> bool {
        self.given.is_some_and(SecretUrl::has_password)
    }

    fn read(&self) -> Result<Option<SecretUrl>, Failure> {
        let Some(path) = self.file else { return Ok(self.given.cloned()) };
        let (flag, shown) = (self.flag, path.display());
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::configuration(format!("cannot read {flag}-file {shown}: {error}"))
        })?;
        match text.trim() {
            line if line.lines().count() == 1 => Ok(Some(line.to_owned().into())),
            _ => Err(Failure::configuration(format!(
                "{flag}-file {shown} has to be one line, a URL"
            ))),
        }
    }
}
