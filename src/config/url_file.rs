//! A file with a URL whose user and password change: it is read again when a login is refused.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{secret::Secret, text::percent_decode};

/// User and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

impl Login {
    /// Reads the login before the `@` of a URL's host.
    fn of(url: &str) -> Option<Self> {
        let (_, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let (login, _) = authority.rsplit_once('@')?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        Some(Self { user: percent_decode(user), password: percent_decode(password).into() })
    }
}

/// The file, and the newest login read from it after the start.
#[derive(Debug)]
pub(crate) struct UrlFile {
    path: PathBuf,
    newest: Mutex<Option<Login>>,
}

impl UrlFile {
    /// Creates the state of a file that was read when the program started.
    pub(crate) fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), newest: Mutex::default() })
    }

    /// The current login; `first` until the file was read again.
    pub(crate) fn login(&self, first: Login) -> Login {
        self.newest.lock().clone().unwrap_or(first)
    }

    /// Reads the file again after the broker or database has refused a login. Returns whether the file has another login,
    /// which is used from now on; otherwise another attempt is useless.
    pub(crate) fn read_again(&self, refused: &Login) -> bool {
        let read = fs::read_to_string(&self.path).ok();
        let Some(login) = read.and_then(|text| Login::of(text.trim())) else { return false };
        let is_other = login != *refused;
        if is_other {
            *self.newest.lock() = Some(login);
        }
        is_other
    }
}
