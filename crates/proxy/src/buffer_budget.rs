//! The bound on the bytes of all bodies that are in memory at the same time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::body::Bytes;

/// The bytes that bodies may take together. Nothing waits for them, so that no two bodies can wait for each other: a body
/// that does not fit is refused.
#[derive(Debug)]
pub(crate) struct BufferBudget {
    most: usize,
    taken: AtomicUsize,
}

/// There is no room for further bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferFull;

impl fmt::Display for BufferFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bodies in progress have as many bytes as the proxy may store")
    }
}

impl std::error::Error for BufferFull {}

impl BufferBudget {
    pub(crate) fn new(most: usize) -> Arc<BufferBudget> {
        Arc::new(BufferBudget {
            most,
            taken: AtomicUsize::new(0),
        })
    }

    /// Returns the most bytes that can be taken.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the bytes of a body, of which there are none yet.
    pub(crate) fn begin(self: &Arc<Self>) -> BufferedBytes {
        BufferedBytes {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }
}

/// Bytes that were taken from a budget. They are given back when the value is dropped.
#[derive(Debug)]
pub(crate) struct BufferedBytes {
    budget: Arc<BufferBudget>,
    bytes: usize,
}

impl BufferedBytes {
    /// Takes more bytes.
    ///
    /// # Errors
    /// If there are not as many. None is taken then.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BufferFull> {
        let most = self.budget.most;
        let add = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= most);
        let taken = &self.budget.taken;
        let added = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.map_err(|_| BufferFull)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes or gives back bytes, so that it has as many as `bytes`.
    ///
    /// # Errors
    /// If there are not as many. Nothing changes then.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), BufferFull> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.give_back(self.bytes - bytes);
        Ok(())
    }

    fn give_back(&mut self, bytes: usize) {
        if bytes > 0 {
            self.budget.taken.fetch_sub(bytes, Ordering::Relaxed);
            self.bytes -= bytes;
        }
    }

    /// Returns the body. The bytes are given back when its last copy is dropped.
    pub(crate) fn into_body(self, body: Vec<u8>) -> Bytes {
        Bytes::from_owner(BufferedBody {
            body: body.into_boxed_slice(),
            _bytes: self,
        })
    }
}

impl Drop for BufferedBytes {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

struct BufferedBody {
    body: Box<[u8]>,
    _bytes: BufferedBytes,
}

impl AsRef<[u8]> for BufferedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_up_to_the_bound_and_given_back_with_the_last_copy() {
        let budget = BufferBudget::new(10);
        let mut first = budget.begin();
        assert_eq!((first.grow(4), first.grow(7)), (Ok(()), Err(BufferFull)));
        let mut second = budget.begin();
        assert_eq!((second.set(7), second.set(6)), (Err(BufferFull), Ok(())));
        assert_eq!(second.grow(usize::MAX), Err(BufferFull));
        assert_eq!((second.set(2), budget.taken()), (Ok(()), 6));
        drop(second);
        let body = first.into_body(b"body".to_vec());
        let part = body.slice(1..2);
        drop(body);
        assert_eq!((budget.taken(), &part[..]), (4, &b"o"[..]));
        drop(part);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_thread_that_panics_gives_its_bytes_back() {
        let budget = BufferBudget::new(10);
        let mut bytes = budget.begin();
        let panicked = std::thread::spawn(move || {
            bytes.grow(10).unwrap();
            std::panic::resume_unwind(Box::new(bytes));
        });
        drop(panicked.join().unwrap_err());
        assert_eq!(budget.taken(), 0);
    }
}
