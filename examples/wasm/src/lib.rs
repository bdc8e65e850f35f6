//! Rules in a WebAssembly module: a pack is loaded from TOML, text is pushed through a stream, and hits are counted.
//! Everything is exported as C functions, so that any host of WebAssembly can call it; nothing is imported.
//!
//! The host writes bytes into memory that [`ttsr_alloc`] returns and hands over the address and the length.

use ttsr::{Channel, LoadError, Pack, PartId, Stream};

const PART: PartId = PartId(0);

/// A stream of one text part, and what the last push told.
pub struct Reply {
    stream: Stream,
    /// Offset of the byte after the first match of the last push that hit.
    end: u64,
    /// The message of that hit.
    message: String,
}

/// Returns `length` bytes of memory, which the host may fill.
#[unsafe(no_mangle)]
pub extern "C" fn ttsr_alloc(length: usize) -> *mut u8 {
    let bytes = vec![0_u8; length].into_boxed_slice();
    Box::into_raw(bytes).cast()
}

/// Frees memory of [`ttsr_alloc`].
///
/// # Safety
/// `bytes` and `length` are those of one call of [`ttsr_alloc`], and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_free(bytes: *mut u8, length: usize) {
    // SAFETY: the caller's promise; a box of a slice has this layout.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes, length)) });
}

/// Returns a new reply under the rules of `pack` (TOML), or null if the pack does not load.
///
/// # Safety
/// `pack` points to `length` bytes that can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_open(pack: *const u8, length: usize) -> *mut Reply {
    // SAFETY: the caller's promise.
    unsafe { open(pack, length, Pack::from_toml) }
}

/// Returns a new reply under the rules of the built-in pack with that name, or null if there is none.
///
/// # Safety
/// `name` points to `length` bytes that can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_open_builtin(name: *const u8, length: usize) -> *mut Reply {
    // SAFETY: the caller's promise.
    unsafe { open(name, length, |name| Pack::builder().builtin(name).build()) }
}

/// Returns a new reply under the rules that `load` returns for a text, or null if it fails.
///
/// # Safety
/// `text` points to `length` bytes that can be read.
unsafe fn open(
    text: *const u8,
    length: usize,
    load: impl FnOnce(&str) -> Result<Pack, LoadError>,
) -> *mut Reply {
    // SAFETY: the caller's promise.
    let text = unsafe { std::slice::from_raw_parts(text, length) };
    let Ok(Ok(pack)) = std::str::from_utf8(text).map(load) else {
        return std::ptr::null_mut();
    };
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    Box::into_raw(Box::new(Reply {
        stream,
        end: 0,
        message: String::new(),
    }))
}

/// Appends a delta to the reply; returns the number of hits that became certain.
///
/// # Safety
/// `reply` is of [`ttsr_open`] and not closed; `delta` points to `length` bytes that can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_push(reply: *mut Reply, delta: *const u8, length: usize) -> usize {
    // SAFETY: the caller's promise.
    let (reply, delta) = unsafe { (&mut *reply, std::slice::from_raw_parts(delta, length)) };
    let hits = reply.stream.push(PART, delta).to_vec();
    if let Some(hit) = hits.first() {
        reply.end = hit.end;
        let pack = reply.stream.pack();
        reply.message = pack.rules()[hit.rule.index()].description.clone();
    }
    hits.len()
}

/// Returns the offset of the byte after the match of the last hit.
///
/// # Safety
/// `reply` is of [`ttsr_open`] and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_end(reply: *const Reply) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { &*reply }.end
}

/// Returns the address of the description of the rule of the last hit: UTF-8, of [`ttsr_message_length`] bytes, valid
/// until the next call with this reply.
///
/// # Safety
/// `reply` is of [`ttsr_open`] and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_message(reply: *const Reply) -> *const u8 {
    // SAFETY: the caller's promise.
    unsafe { &*reply }.message.as_ptr()
}

/// Returns the number of bytes at [`ttsr_message`].
///
/// # Safety
/// `reply` is of [`ttsr_open`] and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_message_length(reply: *const Reply) -> usize {
    // SAFETY: the caller's promise.
    unsafe { &*reply }.message.len()
}

/// Frees a reply.
///
/// # Safety
/// `reply` is of [`ttsr_open`], not closed, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttsr_close(reply: *mut Reply) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(reply) });
}
