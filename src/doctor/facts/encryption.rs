//! Encryption as a fact.

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Not at all.
    None,
    /// With whomever: the certificate is not checked.
    Unverified,
    /// The certificate is signed by a trusted CA, and may be for another host.
    ChainVerified,
    /// The certificate is signed by a trusted CA, for this host.
    Verified,
}
