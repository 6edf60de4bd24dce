//! The functions of the libraries.

use std::ffi::c_void;

use portolan_hns::{Error, ErrorKind, Guid, Hns};
use windows_sys::core::{GUID, PCWSTR, PWSTR};

use crate::documents::{Kind, content, enumerate, parse};
use crate::state::call;
use crate::text;

type Handle = *mut c_void;

/// What a handle leads to.
struct Opened {
    kind: Kind,
    id: Guid,
}

/// The result of a call, and its error record.
///
/// # Safety
///
/// `record` is null, or leads to a place for a pointer.
unsafe fn finish(outcome: Result<(), Error>, record: *mut PWSTR) -> i32 {
    let Err(error) = outcome else { return 0 };
    let code = if error.code() & 0x8000_0000 == 0 { 0x8007_0000 | error.code() } else { error.code() };
    let document = serde_json::json!({"Success": false, "Error": error.to_string(), "ErrorCode": code});
    // SAFETY: the caller's promise.
    unsafe { text::give(&document.to_string(), record) };
    code.cast_signed()
}

unsafe fn do_enumerate(name: &str, kind: Kind, query: PCWSTR, to: *mut PWSTR, record: *mut PWSTR) -> i32 {
    // SAFETY: the pointers are those of the caller of the library.
    unsafe {
        let query = text::read(query);
        let found = call(name, &query, |hns| enumerate(hns, kind, &query));
        finish(found.map(|found| text::give(&found, to)), record)
    }
}

unsafe fn do_open(name: &str, kind: Kind, id: *const GUID, to: *mut Handle, record: *mut PWSTR) -> i32 {
    // SAFETY: the pointers are those of the caller of the library.
    unsafe {
        let id = text::identity(id);
        let found = call(name, &id.to_string(), |hns| content(hns, kind, id));
        finish(found.map(|_| *to = Box::into_raw(Box::new(Opened { kind, id })).cast()), record)
    }
}

unsafe fn do_query(name: &str, handle: Handle, to: *mut PWSTR, record: *mut PWSTR) -> i32 {
    // SAFETY: the handle is one that `do_open` gave, and the pointers are those of the caller.
    unsafe {
        let Opened { kind, id } = *handle.cast::<Opened>();
        let found = call(name, &id.to_string(), |hns| content(hns, kind, id));
        finish(found.map(|found| text::give(&found, to)), record)
    }
}

unsafe fn do_close(handle: Handle) -> i32 {
    if !handle.is_null() {
        // SAFETY: the handle is one that `do_open` or a creation gave, and is not used again.
        drop(unsafe { Box::from_raw(handle.cast::<Opened>()) });
    }
    0
}

/// All zeros: HNS chooses the identity.
fn chosen(id: Guid) -> Guid {
    if id != Guid::default() {
        return id;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Guid::of(&format!("{} {}", now.as_nanos(), std::process::id()))
}

macro_rules! kind {
    ($kind:expr, $enumerate:ident, $open:ident, $query:ident, $close:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $enumerate(query: PCWSTR, to: *mut PWSTR, record: *mut PWSTR) -> i32 {
            unsafe { do_enumerate(stringify!($enumerate), $kind, query, to, record) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $open(id: *const GUID, to: *mut Handle, record: *mut PWSTR) -> i32 {
            unsafe { do_open(stringify!($open), $kind, id, to, record) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $query(handle: Handle, _: PCWSTR, to: *mut PWSTR, record: *mut PWSTR) -> i32 {
            unsafe { do_query(stringify!($query), handle, to, record) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $close(handle: Handle) -> i32 {
            unsafe { do_close(handle) }
        }
    };
}

kind!(Kind::Network, HcnEnumerateNetworks, HcnOpenNetwork, HcnQueryNetworkProperties, HcnCloseNetwork);
kind!(Kind::Endpoint, HcnEnumerateEndpoints, HcnOpenEndpoint, HcnQueryEndpointProperties, HcnCloseEndpoint);
kind!(
    Kind::LoadBalancer,
    HcnEnumerateLoadBalancers,
    HcnOpenLoadBalancer,
    HcnQueryLoadBalancerProperties,
    HcnCloseLoadBalancer
);

#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnCreateEndpoint(
    network: Handle,
    id: *const GUID,
    settings: PCWSTR,
    to: *mut Handle,
    record: *mut PWSTR,
) -> i32 {
    unsafe {
        let network = (*network.cast::<Opened>()).id;
        let (id, settings) = (chosen(text::identity(id)), text::read(settings));
        let made = call("HcnCreateEndpoint", &settings, |hns| hns.create_endpoint(network, id, &parse(&settings)?));
        finish(made.map(|()| *to = Box::into_raw(Box::new(Opened { kind: Kind::Endpoint, id })).cast()), record)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnDeleteEndpoint(id: *const GUID, record: *mut PWSTR) -> i32 {
    unsafe {
        let id = text::identity(id);
        finish(call("HcnDeleteEndpoint", &id.to_string(), |hns| hns.delete_endpoint(id)), record)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnCreateLoadBalancer(
    id: *const GUID,
    settings: PCWSTR,
    to: *mut Handle,
    record: *mut PWSTR,
) -> i32 {
    unsafe {
        let (id, settings) = (chosen(text::identity(id)), text::read(settings));
        let made = call("HcnCreateLoadBalancer", &settings, |hns| hns.create_load_balancer(id, &parse(&settings)?));
        finish(made.map(|()| *to = Box::into_raw(Box::new(Opened { kind: Kind::LoadBalancer, id })).cast()), record)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnModifyLoadBalancer(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> i32 {
    unsafe {
        let (id, settings) = ((*handle.cast::<Opened>()).id, text::read(settings));
        let made = call("HcnModifyLoadBalancer", &settings, |hns| hns.modify_load_balancer(id, &parse(&settings)?));
        finish(made, record)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnDeleteLoadBalancer(id: *const GUID, record: *mut PWSTR) -> i32 {
    unsafe {
        let id = text::identity(id);
        finish(call("HcnDeleteLoadBalancer", &id.to_string(), |hns| hns.delete_load_balancer(id)), record)
    }
}

/// The older interface: the version, and lists of policies, which kube-proxy reads to see whether this interface works.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HNSCall(_method: PCWSTR, path: PCWSTR, _request: PCWSTR, to: *mut PWSTR) -> i32 {
    unsafe {
        let path = text::read(path);
        let output = call("HNSCall", &path, |hns| match path.trim_matches('/') {
            "globals/version" => hns.version().map(|it| serde_json::json!({"Major": it.major, "Minor": it.minor})),
            "policylists" => Ok(serde_json::json!([])),
            _ => Err(Error::of(ErrorKind::NotImplemented, format!("asking for {path}"))),
        });
        let answer = match output {
            Ok(output) => serde_json::json!({"Success": true, "Output": output}),
            Err(error) => serde_json::json!({"Success": false, "Error": error.to_string()}),
        };
        text::give(&answer.to_string(), to);
        0
    }
}
