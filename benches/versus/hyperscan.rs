//! Bindings to the functions of Hyperscan's C interface used by the comparison, loaded at run time.
//! Interface: `hs_compile.h` and `hs_runtime.h` of Hyperscan 5.4.
#![allow(unsafe_code)] // a C library is called; nothing of this is in the crate

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{null, null_mut};
use std::time::Instant;

use libloading::{Library as Shared, Symbol};

use crate::common::text::Text;
use crate::duel::Engine;

/// Report each expression at most once in a stream.
const SINGLE_MATCH: u32 = 8;

const MODE_STREAM: c_uint = 2;

type OnMatch = extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;
type CompileMulti = unsafe extern "C" fn(
    *const *const c_char,
    *const c_uint,
    *const c_uint,
    c_uint,
    c_uint,
    *const c_void,
    *mut *mut c_void,
    *mut *mut CompileError,
) -> c_int;
type Scan = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    c_uint,
    c_uint,
    *mut c_void,
    OnMatch,
    *mut c_void,
) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void, *mut c_void, OnMatch, *mut c_void) -> c_int;

#[repr(C)]
struct CompileError {
    message: *const c_char,
    expression: c_int,
}

/// A shared library: Vectorscan or Hyperscan.
pub(crate) struct Library {
    shared: Shared,
    /// The name with the version.
    pub(crate) name: String,
}

/// Patterns compiled for streaming.
pub(crate) struct Database<'a> {
    library: &'a Library,
    database: *mut c_void,
    scratch: *mut c_void,
    scan: Scan,
    flags: u32,
    patterns: usize,
    /// Compile time in seconds.
    pub(crate) compiled_in: f64,
}

impl Library {
    /// Returns the installed library and those that `TTSR_LIBHS` names.
    pub(crate) fn all() -> Vec<Library> {
        let installed = ["libhs.so.5", "libhs.so", "libhs.dylib"];
        let mut libraries: Vec<Library> = installed
            .iter()
            .find_map(|name| Library::open(name))
            .into_iter()
            .collect();
        let named = std::env::var("TTSR_LIBHS").unwrap_or_default();
        for path in named.split(':').filter(|path| !path.is_empty()) {
            match Library::open(path) {
                Some(library) => libraries.push(library),
                None => println!("TTSR_LIBHS: {path} cannot be loaded"),
            }
        }
        libraries
    }

    fn open(name: &str) -> Option<Library> {
        // SAFETY: the library's initialisers only detect the processor.
        let shared = unsafe { Shared::new(name) }.ok()?;
        let mut library = Library {
            shared,
            name: String::new(),
        };
        let version: unsafe extern "C" fn() -> *const c_char = library.symbol("hs_version");
        // SAFETY: the version is a static string that ends in NUL.
        let version = unsafe { CStr::from_ptr(version()) }.to_string_lossy();
        // "5.4.0 2023-03-12": Vectorscan forked at 5.4 and counts on from 5.4.6.
        let number = version.split(' ').next().unwrap_or_default();
        let patch = number
            .rsplit('.')
            .next()
            .and_then(|patch| patch.parse().ok());
        let product = if patch.is_some_and(|patch: u32| patch >= 6) {
            "Vectorscan"
        } else {
            "Hyperscan"
        };
        library.name = format!("{product} {number}");
        Some(library)
    }

    fn symbol<T: Copy>(&self, name: &str) -> T {
        // SAFETY: every call below names the function's C type.
        let symbol: Symbol<'_, T> = unsafe { self.shared.get(name.as_bytes()) }.expect(name);
        *symbol
    }

    /// Returns the patterns that the library compiles for streaming.
    pub(crate) fn accepted(&self, mut patterns: Vec<String>) -> Vec<String> {
        while let Err(bad) = self.try_compile(&patterns, 0) {
            patterns.remove(bad);
        }
        patterns
    }

    /// Compiles the patterns twice: unchanged, and with at most one report per pattern and stream.
    pub(crate) fn compile_all(&self, patterns: &[String]) -> [Database<'_>; 2] {
        [0, SINGLE_MATCH].map(|flags| self.compile(patterns, flags))
    }

    fn compile(&self, patterns: &[String], flags: u32) -> Database<'_> {
        let started = Instant::now();
        let database = self
            .try_compile(patterns, flags)
            .expect("the patterns were accepted");
        let compiled_in = started.elapsed().as_secs_f64();
        let mut scratch = null_mut();
        let alloc: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int =
            self.symbol("hs_alloc_scratch");
        // SAFETY: the database is valid, and the scratch space is written before it is used.
        assert_eq!(unsafe { alloc(database, &mut scratch) }, 0);
        Database {
            library: self,
            database,
            scratch,
            scan: self.symbol("hs_scan_stream"),
            flags,
            patterns: patterns.len(),
            compiled_in,
        }
    }

    /// Returns the database, or the index of a pattern that cannot be compiled.
    fn try_compile(&self, patterns: &[String], flags: u32) -> Result<*mut c_void, usize> {
        let texts: Vec<CString> = patterns
            .iter()
            .map(|text| CString::new(text.as_str()).expect("no NUL"))
            .collect();
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let all_flags = vec![flags; patterns.len()];
        let ids: Vec<c_uint> = (0..patterns.len() as c_uint).collect();
        let (mut database, mut error) = (null_mut(), null_mut());
        let compile: CompileMulti = self.symbol("hs_compile_multi");
        // SAFETY: the arrays have as many entries as stated and outlive the call.
        let code = unsafe {
            compile(
                pointers.as_ptr(),
                all_flags.as_ptr(),
                ids.as_ptr(),
                patterns.len() as c_uint,
                MODE_STREAM,
                null(),
                &mut database,
                &mut error,
            )
        };
        if code == 0 {
            return Ok(database);
        }
        // SAFETY: the library sets the error on failure and frees it itself.
        unsafe {
            let index = (*error).expression;
            let free: unsafe extern "C" fn(*mut CompileError) -> c_int =
                self.symbol("hs_free_compile_error");
            free(error);
            Err(usize::try_from(index).expect("the error is about one pattern"))
        }
    }
}

extern "C" fn record_match(
    id: c_uint,
    _from: c_ulonglong,
    end: c_ulonglong,
    _: c_uint,
    firsts: *mut c_void,
) -> c_int {
    // SAFETY: `firsts` is the vector that the caller passes to scan, alive during the call.
    let firsts = unsafe { &mut *firsts.cast::<Vec<Option<u64>>>() };
    let first = &mut firsts[id as usize];
    *first = Some(first.map_or(end, |known| known.min(end)));
    0
}

extern "C" fn count(
    _: c_uint,
    _: c_ulonglong,
    _: c_ulonglong,
    _: c_uint,
    hits: *mut c_void,
) -> c_int {
    // SAFETY: `hits` is the counter that the caller passes to scan, alive during the call.
    unsafe { *hits.cast::<u64>() += 1 };
    0
}

impl Database<'_> {
    fn open(&self) -> *mut c_void {
        let open: unsafe extern "C" fn(*mut c_void, c_uint, *mut *mut c_void) -> c_int =
            self.library.symbol("hs_open_stream");
        let mut stream = null_mut();
        // SAFETY: the database is valid.
        assert_eq!(unsafe { open(self.database, 0, &mut stream) }, 0);
        stream
    }

    fn close(&self, stream: *mut c_void, on: OnMatch, with: *mut c_void) {
        let close: Close = self.library.symbol("hs_close_stream");
        // SAFETY: the stream is open and not used after this.
        assert_eq!(unsafe { close(stream, self.scratch, on, with) }, 0);
    }

    #[inline(always)]
    fn scan(&self, stream: *mut c_void, bytes: &[u8], on: OnMatch, with: *mut c_void) {
        // SAFETY: the stream is open, the bytes are alive, the scratch space is used by one call at a time.
        unsafe {
            (self.scan)(
                stream,
                bytes.as_ptr().cast(),
                bytes.len() as c_uint,
                0,
                self.scratch,
                on,
                with,
            )
        };
    }
}

impl Engine for Database<'_> {
    fn name(&self) -> String {
        let mode = if self.flags == SINGLE_MATCH {
            ", single match"
        } else {
            ""
        };
        format!("{}{mode}", self.library.name)
    }

    fn firsts(&mut self, text: &Text) -> Option<Vec<Option<u64>>> {
        let mut firsts: Vec<Option<u64>> = vec![None; self.patterns];
        let with = (&raw mut firsts).cast();
        let stream = self.open();
        text.deltas()
            .for_each(|delta| self.scan(stream, delta, record_match, with));
        self.close(stream, record_match, with);
        Some(firsts)
    }

    fn seconds(&mut self, text: &Text, streams: usize) -> f64 {
        let open: Vec<*mut c_void> = (0..streams).map(|_| self.open()).collect();
        let mut hits = 0u64;
        let with = (&raw mut hits).cast();
        let mut next = 0;
        let started = Instant::now();
        for delta in text.deltas() {
            self.scan(open[next], delta, count, with);
            next = if next + 1 == streams { 0 } else { next + 1 };
        }
        let seconds = started.elapsed().as_secs_f64();
        open.into_iter()
            .for_each(|stream| self.close(stream, count, with));
        seconds
    }

    fn stream_bytes(&self) -> Option<usize> {
        let size: unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int =
            self.library.symbol("hs_stream_size");
        let mut bytes = 0;
        // SAFETY: the database is valid.
        assert_eq!(unsafe { size(self.database, &mut bytes) }, 0);
        Some(bytes)
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let free_scratch: unsafe extern "C" fn(*mut c_void) -> c_int =
            self.library.symbol("hs_free_scratch");
        let free: unsafe extern "C" fn(*mut c_void) -> c_int =
            self.library.symbol("hs_free_database");
        // SAFETY: both are valid and not used after this.
        unsafe {
            free_scratch(self.scratch);
            free(self.database);
        }
    }
}
