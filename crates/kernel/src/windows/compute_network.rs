//! The calls of the Host Networking Service: `computenetwork.dll`, and the version from `vmcompute.dll`. Documents are text here;
//! `portolan-hns` knows what they mean.
//!
//! The libraries are loaded when they are used, from the system's own folder alone, so that the program starts where they are
//! missing.

use std::ffi::{CStr, c_void};
use std::{io, ptr};

use windows_sys::Win32::Foundation::{FreeLibrary, HMODULE};
use windows_sys::Win32::System::Com::CoTaskMemFree;
use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW};
use windows_sys::core::{GUID, PCWSTR, PWSTR};

/// A refusal: the code of the call, and the document that describes the error, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u32,
    pub record: String,
}

/// An identity as its text has it, the first digits first.
pub type Identity = [u8; 16];

type Answer<T> = Result<T, Failure>;
type Handle = *mut c_void;
type Enumerate = unsafe extern "system" fn(PCWSTR, *mut PWSTR, *mut PWSTR) -> i32;
type Open = unsafe extern "system" fn(*const GUID, *mut Handle, *mut PWSTR) -> i32;
type Query = unsafe extern "system" fn(Handle, PCWSTR, *mut PWSTR, *mut PWSTR) -> i32;
type Close = unsafe extern "system" fn(Handle) -> i32;
type Delete = unsafe extern "system" fn(*const GUID, *mut PWSTR) -> i32;
type CreateWithin = unsafe extern "system" fn(Handle, *const GUID, PCWSTR, *mut Handle, *mut PWSTR) -> i32;
type Create = unsafe extern "system" fn(*const GUID, PCWSTR, *mut Handle, *mut PWSTR) -> i32;
type Modify = unsafe extern "system" fn(Handle, PCWSTR, *mut PWSTR) -> i32;
type HnsCall = unsafe extern "system" fn(PCWSTR, PCWSTR, PCWSTR, *mut PWSTR) -> i32;

/// What `ERROR_PROC_NOT_FOUND` is as the result of a call.
const NO_SUCH_CALL: u32 = 0x8007_007f;

/// The kinds of objects, with the names of their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Network,
    Endpoint,
    LoadBalancer,
}

impl Kind {
    fn enumerate(self) -> &'static CStr {
        match self {
            Self::Network => c"HcnEnumerateNetworks",
            Self::Endpoint => c"HcnEnumerateEndpoints",
            Self::LoadBalancer => c"HcnEnumerateLoadBalancers",
        }
    }

    fn open(self) -> &'static CStr {
        match self {
            Self::Network => c"HcnOpenNetwork",
            Self::Endpoint => c"HcnOpenEndpoint",
            Self::LoadBalancer => c"HcnOpenLoadBalancer",
        }
    }

    fn query(self) -> &'static CStr {
        match self {
            Self::Network => c"HcnQueryNetworkProperties",
            Self::Endpoint => c"HcnQueryEndpointProperties",
            Self::LoadBalancer => c"HcnQueryLoadBalancerProperties",
        }
    }

    fn close(self) -> &'static CStr {
        match self {
            Self::Network => c"HcnCloseNetwork",
            Self::Endpoint => c"HcnCloseEndpoint",
            Self::LoadBalancer => c"HcnCloseLoadBalancer",
        }
    }

    fn delete(self) -> &'static CStr {
        match self {
            Self::Network => c"HcnDeleteNetwork",
            Self::Endpoint => c"HcnDeleteEndpoint",
            Self::LoadBalancer => c"HcnDeleteLoadBalancer",
        }
    }
}

/// A loaded library.
struct Library(HMODULE);

// SAFETY: a module is the same for all threads of the process.
unsafe impl Send for Library {}

impl Library {
    fn load(name: &str) -> io::Result<Self> {
        let name = wide(name);
        // SAFETY: the name ends with zero and lives until the call returns.
        let module = unsafe { LoadLibraryExW(name.as_ptr(), ptr::null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32) };
        if module.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(module)) }
    }

    /// # Safety
    ///
    /// `F` is the type of the function of this name.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Answer<F> {
        // SAFETY: the module is loaded, and the name ends with zero.
        let found = unsafe { GetProcAddress(self.0, name.as_ptr().cast()) };
        let missing =
            || Failure { code: NO_SUCH_CALL, record: format!("this Windows has no {}", name.to_string_lossy()) };
        let function = found.ok_or_else(missing)?;
        debug_assert_eq!(size_of::<F>(), size_of_val(&function));
        // SAFETY: both are pointers to functions, and the caller names the type.
        Ok(unsafe { std::mem::transmute_copy(&function) })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the module was loaded by this value, and no function of it is used after this.
        unsafe { FreeLibrary(self.0) };
    }
}

/// The loaded libraries.
pub struct ComputeNetwork {
    networks: Library,
    machines: Library,
}

/// An open object. It is closed when it is dropped.
pub struct Opened<'a> {
    service: &'a ComputeNetwork,
    kind: Kind,
    handle: Handle,
}

impl ComputeNetwork {
    pub fn load() -> io::Result<Self> {
        let load = |name| Library::load(name).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")));
        Ok(Self { networks: load("computenetwork.dll")?, machines: load("vmcompute.dll")? })
    }

    /// The answer of the older interface, which has the version.
    pub fn legacy(&self, method: &str, path: &str) -> Answer<String> {
        let (method, path, request) = (wide(method), wide(path), wide(""));
        let mut answer = ptr::null_mut();
        // SAFETY: the type is that of the function; the texts end with zero, and the answer is a pointer to fill in.
        let code = unsafe {
            let call: HnsCall = self.machines.function(c"HNSCall")?;
            call(method.as_ptr(), path.as_ptr(), request.as_ptr(), &raw mut answer)
        };
        check(code, ptr::null_mut())?;
        Ok(taken(answer))
    }

    /// The list of identities, a JSON document.
    pub fn enumerate(&self, kind: Kind, query: &str) -> Answer<String> {
        let query = wide(query);
        let (mut answer, mut record) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as for `legacy`.
        let code = unsafe {
            let call: Enumerate = self.networks.function(kind.enumerate())?;
            call(query.as_ptr(), &raw mut answer, &raw mut record)
        };
        let answer = taken(answer);
        check(code, record).map(|()| answer)
    }

    pub fn open(&self, kind: Kind, id: Identity) -> Answer<Opened<'_>> {
        let id = guid(id);
        let (mut handle, mut record) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as for `legacy`.
        let code = unsafe {
            let call: Open = self.networks.function(kind.open())?;
            call(&raw const id, &raw mut handle, &raw mut record)
        };
        check(code, record).map(|()| Opened { service: self, kind, handle })
    }

    pub fn create_load_balancer(&self, id: Identity, settings: &str) -> Answer<()> {
        let (id, settings) = (guid(id), wide(settings));
        let (mut handle, mut record) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as for `legacy`.
        let code = unsafe {
            let call: Create = self.networks.function(c"HcnCreateLoadBalancer")?;
            call(&raw const id, settings.as_ptr(), &raw mut handle, &raw mut record)
        };
        self.close(Kind::LoadBalancer, handle);
        check(code, record)
    }

    pub fn delete(&self, kind: Kind, id: Identity) -> Answer<()> {
        let id = guid(id);
        let mut record = ptr::null_mut();
        // SAFETY: as for `legacy`.
        let code = unsafe {
            let call: Delete = self.networks.function(kind.delete())?;
            call(&raw const id, &raw mut record)
        };
        check(code, record)
    }

    fn close(&self, kind: Kind, handle: Handle) {
        if handle.is_null() {
            return;
        }
        // SAFETY: the handle is one that the library gave, and is not used again.
        unsafe {
            if let Ok(call) = self.networks.function::<Close>(kind.close()) {
                call(handle);
            }
        }
    }
}

impl Opened<'_> {
    /// All properties, a JSON document.
    pub fn query(&self, query: &str) -> Answer<String> {
        let query = wide(query);
        let (mut answer, mut record) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the handle is open, and the rest is as for `legacy`.
        let code = unsafe {
            let call: Query = self.service.networks.function(self.kind.query())?;
            call(self.handle, query.as_ptr(), &raw mut answer, &raw mut record)
        };
        let answer = taken(answer);
        check(code, record).map(|()| answer)
    }

    /// Creates an endpoint on this network.
    pub fn create_endpoint(&self, id: Identity, settings: &str) -> Answer<()> {
        let (id, settings) = (guid(id), wide(settings));
        let (mut handle, mut record) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as for `query`.
        let code = unsafe {
            let call: CreateWithin = self.service.networks.function(c"HcnCreateEndpoint")?;
            call(self.handle, &raw const id, settings.as_ptr(), &raw mut handle, &raw mut record)
        };
        self.service.close(Kind::Endpoint, handle);
        check(code, record)
    }

    /// Changes this load balancer.
    pub fn modify(&self, settings: &str) -> Answer<()> {
        let settings = wide(settings);
        let mut record = ptr::null_mut();
        // SAFETY: as for `query`.
        let code = unsafe {
            let call: Modify = self.service.networks.function(c"HcnModifyLoadBalancer")?;
            call(self.handle, settings.as_ptr(), &raw mut record)
        };
        check(code, record)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.service.close(self.kind, self.handle);
    }
}

/// An error record counts as an error, whatever the code.
fn check(code: i32, record: PWSTR) -> Answer<()> {
    let record = taken(record);
    if code >= 0 && record.is_empty() { Ok(()) } else { Err(Failure { code: code.cast_unsigned(), record }) }
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// The text that the library has allocated, which is freed.
fn taken(text: PWSTR) -> String {
    // SAFETY: the pointer is null, or leads to a text with its terminating zero; it was allocated for the caller.
    unsafe {
        let owned = super::addresses::text(text);
        CoTaskMemFree(text.cast());
        owned
    }
}

fn guid(id: Identity) -> GUID {
    let [a, b, c, d, e, f, g, h, data4 @ ..] = id;
    GUID {
        data1: u32::from_be_bytes([a, b, c, d]),
        data2: u16::from_be_bytes([e, f]),
        data3: u16::from_be_bytes([g, h]),
        data4,
    }
}
