//! In place of `src/wire`.

use lapin::types::FieldTable;

pub(crate) const PERSISTENT: u8 = 2;

#[derive(Clone, Debug, Default)]
pub struct Properties {
    pub(crate) content_encoding: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) reply_to: Option<String>,
    pub(crate) expiration: Option<String>,
    pub(crate) timestamp_s: Option<u64>,
    pub(crate) kind: Option<String>,
    pub(crate) app_id: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Message {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) message_id: String,
    pub(crate) content_type: Option<String>,
    pub(crate) headers: FieldTable,
    pub(crate) properties: Properties,
    pub(crate) body: Vec<u8>,
    pub(crate) needs_no_route: bool,
}

impl Message {
    pub(crate) fn unencodable(&self) -> Option<String> {
        None
    }
}
