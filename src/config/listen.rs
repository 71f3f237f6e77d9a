//! Where the worker listens for those who look at it.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Not one of the ports that are given to outgoing connections.
const PORT: u16 = 9632;

/// Address and port, e.g. `127.0.0.1:9632`; nothing for an empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Listen(Option<SocketAddr>);

impl Listen {
    /// The address; `None` where it does not listen.
    #[must_use]
    pub const fn address(self) -> Option<SocketAddr> {
        self.0
    }
}

impl Default for Listen {
    /// Whoever is on this machine may look.
    fn default() -> Self {
        Self(Some((Ipv4Addr::LOCALHOST, PORT).into()))
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        text.parse().map(|address| Self(Some(address))).map_err(|_| {
            format!(
                "`{text}` is not an address with a port: write {} or [::1]:{PORT}, with 0.0.0.0 for everybody, or \
                 nothing in order not to listen",
                String::from(Self::default())
            )
        })
    }
}

impl From<Listen> for String {
    fn from(Listen(address): Listen) -> Self {
        address.map(|address| address.to_string()).unwrap_or_default()
    }
}
