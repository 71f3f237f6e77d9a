//! The files of settings, and other users' access to them.

use std::{
    env,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::doctor::facts::ExposedFile;

/// Paths of the files that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsFiles {
    /// `overdue.toml`, or the file that was named; `None` if all settings come from defaults, environment and flags.
    pub settings: Option<PathBuf>,
    /// Files with a password or a key.
    pub secret: Vec<PathBuf>,
    /// Files with the URLs of broker, management API and database, if flags name them.
    pub urls: [Option<PathBuf>; 3],
}

impl SettingsFiles {
    /// Files with a password or a key that are open to others.
    pub(crate) fn exposed(&self) -> Vec<ExposedFile> {
        self.secret.iter().filter_map(|path| exposed(path)).collect()
    }
}

/// Accepts the same modes as libpq for a key: private to its owner, or owned by root and readable by a group.
/// <https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-CLIENTCERT>
fn exposed(path: &Path) -> Option<ExposedFile> {
    let file = fs::metadata(path).ok().filter(Metadata::is_file)?;
    let mode = file.mode() & 0o777;
    let enough = mode & if file.uid() == 0 { 0o740 } else { 0o700 };
    (mode != enough).then(|| ExposedFile { path: path.display().to_string(), mode, enough })
}

/// Why a settings file that was found in a folder or above it, and not named, is not used. In a folder such as /tmp any user
/// may have written it. It names SQL that runs with the user's own login, and files that only the user can read.
///
/// In a CI job, a container's root works in the folder of another user. The file may belong to that user, if no other user
/// can write to the folder. Outside of a job this is refused, as in git: an attacker may have led the user into the folder.
pub(super) fn distrusted(path: &Path, current: &Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    let owner = file.uid();
    let is_open = |it: &Metadata| it.mode() & 0o002 != 0;
    let is_of_workspace = || {
        let folder = fs::metadata(current).ok().filter(|folder| !is_open(folder));
        path.parent() == Some(current) && folder.is_some_and(|folder| folder.uid() == owner)
    };
    let is_own = owner == 0 || owner == geteuid().as_raw();
    let is_trusted = is_own || is_ci_job() && is_of_workspace();
    if !is_trusted {
        return Some(format!("it belongs to user {owner}, who is neither you nor root"));
    }
    is_open(&file).then(|| "everybody can write it".to_owned())
}

/// CI systems set this variable in their jobs.
fn is_ci_job() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}
