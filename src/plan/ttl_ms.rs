//! A TTL in JSON: a number of milliseconds, as in `x-message-ttl`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::topology::level::Ttl;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it like this")]
pub(super) fn serialize<S: Serializer>(ttl: &Ttl, to: S) -> Result<S::Ok, S::Error> {
    ttl.as_millis().serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Ttl, D::Error> {
    let ms = u64::deserialize(from)?;
    Ttl::from_millis(ms).ok_or_else(|| D::Error::custom(format!("{ms} ms is not a valid TTL")))
}
