//! AWS-LC's functions for certificates, each behind a type that owns what it points to. Every `unsafe` block of this crate
//! is here.
//!
//! Of the library's rules for threads these types need two: reference counts are atomic, and what a certificate, list or
//! store remembers lazily is locked within it. A context belongs to one call.

use aws_lc_sys as c;
use std::ffi::{CString, c_int, c_long, c_ulong, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// What is remembered of the library's errors is this thread's, and of no use: verdicts have numbers.
fn forget_errors() {
    // SAFETY: it takes nothing and changes only the library's memory of this thread.
    unsafe { c::ERR_clear_error() }
}

/// Defines an owner of a value of the library, which frees it.
macro_rules! owner {
    ($(#[$doc:meta])* $name:ident, $of:ident, $free:ident) => {
        $(#[$doc])*
        pub struct $name(NonNull<c::$of>);

        impl $name {
            fn own(pointer: *mut c::$of) -> Option<$name> {
                if pointer.is_null() {
                    forget_errors();
                }
                NonNull::new(pointer).map($name)
            }

            fn raw(&self) -> *mut c::$of {
                self.0.as_ptr()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the pointer came from the library, its reference is this value's and is given back once.
                unsafe { c::$free(self.raw()) }
            }
        }
    };
}

owner!(
    /// A parsed certificate.
    X509, X509, X509_free
);
owner!(
    /// A parsed revocation list.
    Crl, X509_CRL, X509_CRL_free
);
owner!(
    /// Trusted certificates and revocation lists.
    Store, X509_STORE, X509_STORE_free
);
owner!(Context, X509_STORE_CTX, X509_STORE_CTX_free);
owner!(Names, GENERAL_NAMES, GENERAL_NAMES_free);
owner!(Constraints, NAME_CONSTRAINTS, NAME_CONSTRAINTS_free);
owner!(OcspRequest, OCSP_REQUEST, OCSP_REQUEST_free);
owner!(
    /// A parsed OCSP response.
    OcspResponse, OCSP_RESPONSE, OCSP_RESPONSE_free
);
owner!(OcspBasic, OCSP_BASICRESP, OCSP_BASICRESP_free);
owner!(OcspId, OCSP_CERTID, OCSP_CERTID_free);

// SAFETY: see the file's head. Certificates are not changed once they are parsed, besides what they remember of themselves.
unsafe impl Send for X509 {}
// SAFETY: likewise.
unsafe impl Sync for X509 {}
// SAFETY: see the file's head. A store is changed by `&mut self` only; what it looks up is locked within it.
unsafe impl Send for Store {}
// SAFETY: likewise.
unsafe impl Sync for Store {}

/// Reads DER by one of the library's functions; `None` unless it is one whole value.
macro_rules! read {
    ($owner:ident, $function:ident, $der:expr) => {{
        let mut at = $der.as_ptr();
        // SAFETY: `at` points to that many bytes, and the function moves it within them.
        let read = $owner::own(unsafe { c::$function(ptr::null_mut(), &raw mut at, $der.len() as c_long) });
        read.filter(|_| at == $der.as_ptr_range().end)
    }};
}

/// What a `i2d` function writes.
fn written(write: impl FnOnce(*mut *mut u8) -> c_int) -> Option<Vec<u8>> {
    let mut out = ptr::null_mut();
    let len = usize::try_from(write(&raw mut out)).ok()?;
    let start = NonNull::new(out)?;
    // SAFETY: the library has allocated `len` bytes there and written them; nothing else knows of them.
    let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }.to_vec();
    // SAFETY: it is what the library has allocated, freed once.
    unsafe { c::OPENSSL_free(start.as_ptr().cast::<c_void>()) };
    Some(bytes)
}

/// A list of certificates that borrows them.
struct Stack<'a>(NonNull<c::OPENSSL_STACK>, PhantomData<&'a X509>);

impl<'a> Stack<'a> {
    fn of(certs: impl IntoIterator<Item = &'a X509>) -> Option<Stack<'a>> {
        // SAFETY: it takes nothing; the value that owns the list frees it.
        let stack = Stack(NonNull::new(unsafe { c::OPENSSL_sk_new_null() })?, PhantomData);
        for cert in certs {
            // SAFETY: both are valid; the certificate outlives the list, which takes no reference of its own.
            if unsafe { c::OPENSSL_sk_push(stack.0.as_ptr(), cert.raw().cast()) } == 0 {
                return None;
            }
        }
        Some(stack)
    }

    fn raw(&self) -> *mut c::stack_st_X509 {
        self.0.as_ptr().cast()
    }
}

impl Drop for Stack<'_> {
    fn drop(&mut self) {
        // SAFETY: the list is this value's; freeing it leaves its elements alone.
        unsafe { c::OPENSSL_sk_free(self.0.as_ptr()) }
    }
}

/// The number of elements of any list of the library; none for a null pointer.
fn count<T>(stack: *const T) -> usize {
    // SAFETY: all of the library's lists are of this type, and a null pointer is allowed.
    unsafe { c::OPENSSL_sk_num(stack.cast()) }
}

/// What kind of key a certificate has, with its length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// RSA: bits of the modulus.
    Rsa(u32),
    /// An elliptic curve: bits of its order.
    Ec(u32),
    /// Ed25519.
    Ed25519,
    /// One that nothing here is signed by, or that cannot be read.
    Other,
}

impl X509 {
    /// Reads a certificate; `None` if the bytes are none.
    pub fn parse(der: &[u8]) -> Option<X509> {
        read!(X509, d2i_X509, der)
    }

    /// Also reads what OpenSSL writes behind certificates of the label `TRUSTED CERTIFICATE`: for which purposes one is
    /// trusted, and for which it is not.
    pub fn parse_trusted(der: &[u8]) -> Option<X509> {
        read!(X509, d2i_X509_AUX, der)
    }

    /// The certificate as DER.
    pub fn der(&self) -> Option<Vec<u8>> {
        // SAFETY: the certificate is valid, and the function writes to `out` what `written` frees.
        written(|out| unsafe { c::i2d_X509(self.raw(), out) })
    }

    /// Its `signatureAlgorithm` as DER.
    pub fn signature_algorithm(&self) -> Option<Vec<u8>> {
        // SAFETY: the algorithm is part of the certificate, which is valid; `written` frees what is written.
        written(|out| unsafe { c::i2d_X509_ALGOR(c::X509_get0_tbs_sigalg(self.raw()), out) })
    }

    /// The strength of the digest that it is signed over; `None` for algorithms that do not name one by themselves.
    pub fn digest_bits(&self) -> Option<u32> {
        let (mut bits, none) = (-1, ptr::null_mut());
        // SAFETY: the certificate is valid, null pointers are allowed, and `bits` takes one number.
        let found =
            unsafe { c::X509_get_signature_info(self.raw(), none, none, &raw mut bits, ptr::null_mut()) };
        u32::try_from(bits).ok().filter(|_| found == 1)
    }

    /// Its public key.
    pub fn key(&self) -> Key {
        // SAFETY: the certificate is valid; its key, if it has one that can be read, lives as long.
        let (id, bits) = unsafe {
            let key = c::X509_get0_pubkey(self.raw());
            if key.is_null() {
                forget_errors();
                return Key::Other;
            }
            (c::EVP_PKEY_id(key), c::EVP_PKEY_bits(key))
        };
        let bits = u32::try_from(bits).unwrap_or(0);
        match id {
            c::EVP_PKEY_RSA | c::EVP_PKEY_RSA_PSS => Key::Rsa(bits),
            c::EVP_PKEY_EC => Key::Ec(bits),
            c::EVP_PKEY_ED25519 => Key::Ed25519,
            _ => Key::Other,
        }
    }

    /// From when and until when it holds, in seconds since 1970.
    pub fn validity(&self) -> Option<(i64, i64)> {
        let (mut from, mut until) = (0, 0);
        // SAFETY: both times are parts of the certificate, which is valid; each result takes one number.
        let both = unsafe {
            c::ASN1_TIME_to_posix(c::X509_get0_notBefore(self.raw()), &raw mut from) == 1
                && c::ASN1_TIME_to_posix(c::X509_get0_notAfter(self.raw()), &raw mut until) == 1
        };
        both.then_some((from, until))
    }

    /// The most certificates that may follow below, besides the last (RFC 5280 §4.2.1.9).
    pub fn path_len(&self) -> Option<u64> {
        // SAFETY: the certificate is valid.
        u64::try_from(unsafe { c::X509_get_pathlen(self.raw()) }).ok()
    }

    /// Whether issuer and subject are the same.
    pub fn is_self_issued(&self) -> bool {
        // SAFETY: the certificate is valid.
        (unsafe { c::X509_get_extension_flags(self.raw()) }) & c::EXFLAG_SI as u32 != 0
    }

    /// The parts of its subject and its alternative names.
    pub fn name_count(&self) -> usize {
        let none = ptr::null_mut();
        // SAFETY: the certificate is valid, null pointers are allowed, and the value is of the type of this extension.
        let (parts, names) = unsafe {
            let parts = c::X509_NAME_entry_count(c::X509_get_subject_name(self.raw()));
            (parts, Names::own(c::X509_get_ext_d2i(self.raw(), c::NID_subject_alt_name, none, none).cast()))
        };
        usize::try_from(parts).unwrap_or(0) + names.map_or(0, |names| count(names.raw()))
    }

    /// The subtrees of its name constraints.
    pub fn constraint_count(&self) -> usize {
        let none = ptr::null_mut();
        // SAFETY: the certificate is valid, null pointers are allowed, and the value is of the type of this extension.
        let constraints = unsafe { c::X509_get_ext_d2i(self.raw(), c::NID_name_constraints, none, none) };
        let Some(constraints) = Constraints::own(constraints.cast()) else { return 0 };
        // SAFETY: the value is valid; either list may be missing.
        let (permitted, excluded) =
            unsafe { ((*constraints.raw()).permittedSubtrees, (*constraints.raw()).excludedSubtrees) };
        count(permitted) + count(excluded)
    }

    /// Whether `issuer` is named as its issuer and has signed it.
    pub fn is_issued_by(&self, issuer: &X509) -> bool {
        // SAFETY: both are valid; the key, if there is one, lives as long as its certificate.
        let is_issued = unsafe {
            let key = c::X509_get0_pubkey(issuer.raw());
            c::X509_check_issued(issuer.raw(), self.raw()) == c::X509_V_OK
                && !key.is_null()
                && c::X509_verify(self.raw(), key) == 1
        };
        forget_errors();
        is_issued
    }

    /// Whether it is for a host of this name: `X509_check_host`.
    pub fn is_for_host(&self, host: &str) -> bool {
        // The library takes a length of 0 for a string that ends with a zero.
        if host.is_empty() {
            return false;
        }
        let start = host.as_ptr().cast();
        // SAFETY: the certificate is valid, `start` points to that many bytes, and no name is asked for in return.
        let matches = unsafe { c::X509_check_host(self.raw(), start, host.len(), 0, ptr::null_mut()) } == 1;
        forget_errors();
        matches
    }

    /// Whether it is for this address: `X509_check_ip_asc`.
    pub fn is_for_address(&self, address: &str) -> bool {
        let Ok(text) = CString::new(address) else { return false };
        // SAFETY: the certificate is valid, and the text ends with a zero.
        let matches = unsafe { c::X509_check_ip_asc(self.raw(), text.as_ptr(), 0) } == 1;
        forget_errors();
        matches
    }
}

impl Crl {
    /// Reads a revocation list; `None` if the bytes are none.
    pub fn parse(der: &[u8]) -> Option<Crl> {
        read!(Crl, d2i_X509_CRL, der)
    }
}

/// What the library says of a chain: its number of the last error, 0 for none, and the chain as far as it was found.
pub struct Outcome {
    /// OpenSSL's number of the last error; 0: none.
    pub code: c_int,
    /// From the certificate to its anchor, as far as it was found.
    pub chain: Vec<X509>,
}

/// How a chain is judged.
pub struct Ask {
    /// The certificate is a client's, not a server's.
    pub is_client: bool,
    /// Intermediate certificates, at most; few enough for a C `int`.
    pub depth: u32,
    /// Seconds since 1970.
    pub now: i64,
}

/// Lets the library go on after an error, as nginx does: the last one is the verdict.
unsafe extern "C" fn go_on(_: c_int, _: *mut c::X509_STORE_CTX) -> c_int {
    1
}

impl Store {
    /// One that trusts nobody.
    pub fn new() -> Store {
        // SAFETY: it takes nothing; the value that owns the store frees it.
        let store = Store::own(unsafe { c::X509_STORE_new() }).expect("there is memory");
        store.add_flags(c::X509_V_FLAG_TRUSTED_FIRST);
        store
    }

    fn add_flags(&self, flags: c_int) {
        // SAFETY: the store is valid.
        unsafe { c::X509_STORE_set_flags(self.raw(), flags as c_ulong) };
    }

    /// Trusts a certificate; another of the same bytes changes nothing. The store takes a reference of its own.
    pub fn add(&mut self, cert: &X509) -> bool {
        // SAFETY: both are valid.
        let is_added = unsafe { c::X509_STORE_add_cert(self.raw(), cert.raw()) } == 1;
        forget_errors();
        is_added
    }

    /// Adds a revocation list; from now on every certificate of a chain needs one.
    pub fn add_crl(&mut self, crl: &Crl) -> bool {
        self.add_flags(c::X509_V_FLAG_CRL_CHECK | c::X509_V_FLAG_CRL_CHECK_ALL);
        // SAFETY: both are valid; the store takes a reference of its own.
        let is_added = unsafe { c::X509_STORE_add_crl(self.raw(), crl.raw()) } == 1;
        forget_errors();
        is_added
    }

    /// Looks for a chain from `leaf` to a trusted certificate and checks it: `X509_verify_cert`.
    pub fn verify(&self, leaf: &X509, extra: &[X509], ask: &Ask) -> Outcome {
        let failed = || Outcome { code: c::X509_V_ERR_UNSPECIFIED, chain: Vec::new() };
        // The list is made before the context, so that it is freed after it.
        let Some(stack) = Stack::of(extra) else { return failed() };
        // SAFETY: it takes nothing; the value that owns the context frees it.
        let Some(context) = Context::own(unsafe { c::X509_STORE_CTX_new() }) else { return failed() };
        let purpose = if ask.is_client { c::X509_PURPOSE_SSL_CLIENT } else { c::X509_PURPOSE_SSL_SERVER };
        // SAFETY: the context is valid and unused; store, leaf and list outlive it.
        let (done, code) = unsafe {
            let raw = context.raw();
            if c::X509_STORE_CTX_init(raw, self.raw(), leaf.raw(), stack.raw()) != 1
                || c::X509_STORE_CTX_set_purpose(raw, purpose) != 1
            {
                forget_errors();
                return failed();
            }
            c::X509_STORE_CTX_set_depth(raw, ask.depth as c_int);
            c::X509_STORE_CTX_set_time_posix(raw, 0, ask.now);
            c::X509_STORE_CTX_set_verify_cb(raw, Some(go_on));
            (c::X509_verify_cert(raw), c::X509_STORE_CTX_get_error(raw))
        };
        forget_errors();
        // Both must say so: an error that was passed over stays in the context.
        let code = if done != 1 && code == c::X509_V_OK { c::X509_V_ERR_UNSPECIFIED } else { code };
        Outcome { code, chain: context.chain() }
    }
}

impl Context {
    fn chain(&self) -> Vec<X509> {
        // SAFETY: the context is valid; it owns the list, which may be missing.
        let chain = unsafe { c::X509_STORE_CTX_get0_chain(self.raw()) };
        let each = (0..count(chain)).filter_map(|index| {
            // SAFETY: the list has that many certificates, and each stays valid by the reference that is taken.
            let cert = unsafe {
                let cert: *mut c::X509 = c::OPENSSL_sk_value(chain.cast(), index).cast();
                c::X509_up_ref(cert);
                cert
            };
            X509::own(cert)
        });
        each.collect()
    }
}

/// The digests that name a certificate in OCSP.
#[derive(Clone, Copy, Debug)]
pub enum OcspDigest {
    /// SHA-1, which all responders know.
    Sha1,
    /// SHA-256.
    Sha256,
}

fn ocsp_id(cert: &X509, issuer: &X509, digest: OcspDigest) -> Option<OcspId> {
    // SAFETY: digests are constants of the library, both certificates are valid, and the value is owned.
    OcspId::own(unsafe {
        let digest = match digest {
            OcspDigest::Sha1 => c::EVP_sha1(),
            OcspDigest::Sha256 => c::EVP_sha256(),
        };
        c::OCSP_cert_to_id(digest, cert.raw(), issuer.raw())
    })
}

/// An OCSP request about `cert` as DER.
pub fn ocsp_request(cert: &X509, issuer: &X509) -> Option<Vec<u8>> {
    let id = ocsp_id(cert, issuer, OcspDigest::Sha1)?;
    // SAFETY: it takes nothing; the value that owns the request frees it.
    let request = OcspRequest::own(unsafe { c::OCSP_REQUEST_new() })?;
    // SAFETY: both are valid; the request owns the identifier if it takes it.
    if unsafe { c::OCSP_request_add0_id(request.raw(), id.raw()) }.is_null() {
        return None;
    }
    std::mem::forget(id);
    // SAFETY: the request is valid, and the function writes to `out` what `written` frees.
    written(|out| unsafe { c::i2d_OCSP_REQUEST(request.raw(), out) })
}

/// What a response says of one certificate. Times are in seconds since 1970.
pub struct OcspStatus {
    /// 0 is good, 1 revoked, 2 unknown.
    pub status: c_int,
    /// Since when the status holds (`thisUpdate`).
    pub from: i64,
    /// When there is a newer one (`nextUpdate`), if that is said.
    pub until: Option<i64>,
}

impl OcspResponse {
    /// Reads a response; `None` if the bytes are none.
    pub fn parse(der: &[u8]) -> Option<OcspResponse> {
        read!(OcspResponse, d2i_OCSP_RESPONSE, der)
    }

    /// Whether the responder has answered at all: 0, or why not (RFC 6960 §4.2.1).
    pub fn status(&self) -> c_int {
        // SAFETY: the response is valid.
        unsafe { c::OCSP_response_status(self.raw()) }
    }

    /// What is signed in it; `None` if the responder has not answered.
    pub fn basic(&self) -> Option<OcspBasic> {
        // SAFETY: the response is valid; the value is owned.
        OcspBasic::own(unsafe { c::OCSP_response_get1_basic(self.raw()) })
    }
}

impl OcspBasic {
    /// Whether the issuer itself or a certificate that it has issued for this purpose has signed it.
    pub fn is_signed(&self, issuer: &X509, now: i64) -> bool {
        let mut store = Store::new();
        store.add_flags(c::X509_V_FLAG_PARTIAL_CHAIN);
        let Some(stack) = Stack::of([issuer]).filter(|_| store.add(issuer)) else { return false };
        // SAFETY: the store's parameters live as long as the store; the response, the list and the store are valid.
        let verdict = unsafe {
            let params = c::X509_STORE_get0_param(store.raw());
            // The responder's certificate is the issuer's own or one below it.
            c::X509_VERIFY_PARAM_set_depth(params, 0);
            c::X509_VERIFY_PARAM_set_time_posix(params, now);
            c::OCSP_basic_verify(self.raw(), stack.raw(), store.raw(), c::OCSP_NOEXPLICIT as c_ulong)
        };
        forget_errors();
        verdict == 1
    }

    /// What it says of `cert`, which `issuer` has issued.
    pub fn status_of(&self, cert: &X509, issuer: &X509, digest: OcspDigest) -> Option<OcspStatus> {
        let id = ocsp_id(cert, issuer, digest)?;
        let (mut status, mut from, mut until) =
            (c::V_OCSP_CERTSTATUS_UNKNOWN, ptr::null_mut(), ptr::null_mut());
        let (none, no_time) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: both are valid; null pointers are allowed, and the times are parts of the response.
        unsafe {
            let found = c::OCSP_resp_find_status(
                self.raw(),
                id.raw(),
                &raw mut status,
                none,
                no_time,
                &raw mut from,
                &raw mut until,
            );
            if found != 1 {
                return None;
            }
        }
        let until = if until.is_null() { None } else { Some(seconds(until)?) };
        Some(OcspStatus { status, from: seconds(from)?, until })
    }
}

fn seconds(time: *const c::ASN1_TIME) -> Option<i64> {
    let mut secs = 0;
    // SAFETY: callers pass a time of a response that they hold, or null; the result takes one number.
    let is_read = !time.is_null() && unsafe { c::ASN1_TIME_to_posix(time, &raw mut secs) } == 1;
    is_read.then_some(secs)
}
