//! The files that settings come from, and who else can write or read them.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::doctor::facts::ExposedFile;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsFiles {
    /// `overdue.toml`, or the file that was named; none where only defaults, the environment and flags say something.
    pub settings: Option<PathBuf>,
    /// Those with a password or a key.
    pub secret: Vec<PathBuf>,
}

impl SettingsFiles {
    /// Files with a password or a key that are open to others.
    pub(crate) fn exposed(&self) -> Vec<ExposedFile> {
        self.secret.iter().filter_map(|path| exposed(path)).collect()
    }
}

/// As libpq judges a key: it is its owner's alone, or root's and a group's, which may read it.
/// <https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-CLIENTCERT>
fn exposed(path: &Path) -> Option<ExposedFile> {
    let file = fs::metadata(path).ok().filter(Metadata::is_file)?;
    let mode = file.mode() & 0o777;
    let enough = mode & if file.uid() == 0 { 0o740 } else { 0o700 };
    (mode != enough).then(|| ExposedFile { path: path.display().to_string(), mode, enough })
}

/// Why a settings file that nobody has named is not used: in a folder such as /tmp it may be anybody's, and it names SQL that runs
/// with the user's own login.
pub(super) fn distrusted(path: &Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    let owner = file.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        return Some(format!("it belongs to user {owner}, who is neither you nor root"));
    }
    (file.mode() & 0o002 != 0).then(|| "everybody can write it".to_owned())
}
