//! The files that settings come from, and those that they name.

use std::path::{Path, PathBuf};

use super::{SecretUrl, Settings, layers};

impl Settings {
    /// The settings file: the one that is named, or the one that is found.
    pub(crate) fn file(named: Option<&Path>) -> Option<PathBuf> {
        named.map(Path::to_owned).or_else(layers::found)
    }

    /// Every file that these settings name: topology, SQL, certificates, and those of alerts.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let urls =
            [Some(&self.broker.url), self.broker.management_url.as_ref(), Some(&self.database.url)];
        let certificates = urls.into_iter().flatten().flat_map(SecretUrl::files);
        let sql = self.effects.values().flat_map(|effect| {
            [Some(&effect.sql), effect.overdue_sql.as_ref(), effect.due_sql.as_ref()]
        });
        let alerts = self.alert.iter().flat_map(|alert| {
            [alert.url_file.as_ref(), alert.secret_file.as_ref(), alert.ca_file.as_ref()]
        });
        let named = sql.chain(alerts).flatten().cloned();
        std::iter::once(self.topology.clone()).chain(named).chain(certificates)
    }
}
