//! What HNS answers when it refuses.

/// A refusal: what was attempted, and the code that HNS gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{attempted}: {text} (0x{code:08x})")]
pub struct Error {
    attempted: String,
    code: u32,
    text: String,
}

/// The refusals that a proxy treats in a special way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    NetworkNotFound,
    EndpointNotFound,
    /// The policy, port or object that a call names.
    ObjectNotFound,
    /// Another load balancer has the same front end, or an object the same identity.
    AlreadyExists,
    NotImplemented,
    InvalidDocument,
    InvalidAddress,
    /// The service does not run.
    NotRunning,
    Other,
}

const NETWORK_NOT_FOUND: u32 = 0x803b_0001;
const ENDPOINT_NOT_FOUND: u32 = 0x803b_0002;
const PORT_NOT_FOUND: u32 = 0x803b_0007;
const POLICY_NOT_FOUND: u32 = 0x803b_0008;
const POLICY_ALREADY_EXISTS: u32 = 0x803b_0012;
const PORT_ALREADY_EXISTS: u32 = 0x803b_0013;
const INVALID_JSON: u32 = 0x803b_001b;
const INVALID_IP: u32 = 0x803b_001e;
const NOT_IMPLEMENTED: u32 = 0x8000_4001;
/// Codes of Win32 come with and without the facility.
const ELEMENT_NOT_FOUND: u32 = 1168;
const FILE_EXISTS: u32 = 0xb7;
const UNKNOWN_INTERFACE: u32 = 0x6b5;
const WIN32_FACILITY: u32 = 0x8007_0000;

impl Error {
    pub fn new(attempted: impl Into<String>, code: u32, text: impl Into<String>) -> Self {
        Self { attempted: attempted.into(), code, text: text.into() }
    }

    /// The error of a kind, with the code that HNS has for it.
    pub fn of(kind: ErrorKind, attempted: impl Into<String>) -> Self {
        let (code, text) = match kind {
            ErrorKind::NetworkNotFound => (NETWORK_NOT_FOUND, "the network was not found"),
            ErrorKind::EndpointNotFound => (ENDPOINT_NOT_FOUND, "the endpoint was not found"),
            ErrorKind::ObjectNotFound => (WIN32_FACILITY | ELEMENT_NOT_FOUND, "element not found"),
            ErrorKind::AlreadyExists => (PORT_ALREADY_EXISTS, "the port already exists"),
            ErrorKind::NotImplemented => (NOT_IMPLEMENTED, "not implemented"),
            ErrorKind::InvalidDocument => (INVALID_JSON, "the JSON document is invalid"),
            ErrorKind::InvalidAddress => (INVALID_IP, "the IP address is invalid"),
            ErrorKind::NotRunning => (UNKNOWN_INTERFACE, "the Host Networking Service does not run"),
            ErrorKind::Other => (0x8000_4005, "unspecified error"),
        };
        Self::new(attempted, code, text)
    }

    pub fn code(&self) -> u32 {
        self.code
    }

    pub fn kind(&self) -> ErrorKind {
        let is_win32 = self.code & 0xffff_0000 == WIN32_FACILITY;
        match if is_win32 { self.code & 0xffff } else { self.code } {
            NETWORK_NOT_FOUND => ErrorKind::NetworkNotFound,
            ENDPOINT_NOT_FOUND => ErrorKind::EndpointNotFound,
            PORT_NOT_FOUND | POLICY_NOT_FOUND | ELEMENT_NOT_FOUND => ErrorKind::ObjectNotFound,
            POLICY_ALREADY_EXISTS | PORT_ALREADY_EXISTS | FILE_EXISTS => ErrorKind::AlreadyExists,
            NOT_IMPLEMENTED => ErrorKind::NotImplemented,
            INVALID_JSON => ErrorKind::InvalidDocument,
            INVALID_IP => ErrorKind::InvalidAddress,
            UNKNOWN_INTERFACE => ErrorKind::NotRunning,
            _ => ErrorKind::Other,
        }
    }

    /// What a deletion attempts to bring about is so already.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind(), ErrorKind::EndpointNotFound | ErrorKind::ObjectNotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_win32_are_known_with_and_without_their_facility() {
        for code in [0xb7, 0x8007_00b7, 0x803b_0013, 0x803b_0012] {
            assert_eq!(Error::new("creating", code, "").kind(), ErrorKind::AlreadyExists, "{code:x}");
        }
        assert!(Error::new("deleting", 0x8007_0490, "").is_not_found());
        assert_eq!(Error::new("creating", 0x8007_0005, "access is denied").kind(), ErrorKind::Other);
    }

    #[test]
    fn each_kind_has_a_code_that_leads_back_to_it() {
        for kind in [
            ErrorKind::NetworkNotFound,
            ErrorKind::EndpointNotFound,
            ErrorKind::ObjectNotFound,
            ErrorKind::AlreadyExists,
            ErrorKind::NotImplemented,
            ErrorKind::InvalidDocument,
            ErrorKind::InvalidAddress,
            ErrorKind::NotRunning,
            ErrorKind::Other,
        ] {
            assert_eq!(Error::of(kind, "calling").kind(), kind);
        }
    }
}
