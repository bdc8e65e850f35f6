//! Sessions in the memory of the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{SessionStore, StoreFuture, StoredSession};

/// The most bytes of sessions, unless another bound is set.
const BYTES: usize = 64 << 20;

/// Sessions in the memory of the process. The sessions that were used least recently are forgotten for others, and one
/// that was not used for too long is forgotten, too.
pub struct MemoryStore {
    sessions: usize,
    bytes: usize,
    idle_time: Duration,
    known: Mutex<KnownSessions>,
}

#[derive(Default)]
struct KnownSessions {
    /// The sessions by key, each with the number and the time of its last use.
    by_key: HashMap<Arc<str>, (Arc<StoredSession>, u64, Instant)>,
    /// The keys by the number of their last use.
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
    /// The sum of the lengths of keys and states.
    bytes: usize,
}

impl MemoryStore {
    /// Returns a store that keeps at most `sessions` sessions of 64 MiB together, each for `idle_time` after its last use.
    #[must_use]
    pub fn new(sessions: usize, idle_time: Duration) -> MemoryStore {
        MemoryStore {
            sessions: sessions.max(1),
            bytes: BYTES,
            idle_time,
            known: Mutex::default(),
        }
    }

    /// Returns a store that keeps at most so many bytes of keys and states. The session that was used last is kept, however
    /// long it is.
    ///
    /// # Example: a store of 1 GiB
    /// ```
    /// use std::time::Duration;
    /// use ttsr_proxy::MemoryStore;
    /// let store = MemoryStore::new(65536, Duration::from_secs(3600)).with_bytes(1 << 30);
    /// assert!(format!("{store:?}").contains("most_bytes: 1073741824"));
    /// ```
    #[must_use]
    pub fn with_bytes(mut self, bytes: usize) -> MemoryStore {
        self.bytes = bytes;
        self
    }

    /// Returns the session of that key, as the last one that was used.
    pub(super) fn get(&self, key: &str, now: Instant) -> Option<StoredSession> {
        let found = {
            let mut known = self.known();
            known.forget_idle(now, self.idle_time);
            let (key, used) = known.by_key.get_key_value(key)?;
            let (key, found) = (Arc::clone(key), Arc::clone(&used.0));
            known.put(key, Arc::clone(&found), now);
            found
        };
        // Copied while other requests may use the store.
        Some(StoredSession::clone(&found))
    }

    fn known(&self) -> MutexGuard<'_, KnownSessions> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the version of the session, 0 if it is not known.
    pub(super) fn version(&self, key: &str, now: Instant) -> u64 {
        let mut known = self.known();
        known.forget_idle(now, self.idle_time);
        known.version(key)
    }

    /// Writes a session if its version is `expected`.
    pub(super) fn put(&self, key: &str, state: &[u8], expected: u64, now: Instant) -> bool {
        let session = StoredSession {
            version: expected + 1,
            state: state.to_vec(),
        };
        let mut known = self.known();
        known.forget_idle(now, self.idle_time);
        if known.version(key) != expected {
            return false;
        }
        known.put(key.into(), Arc::new(session), now);
        known.forget_oldest(self.sessions, self.bytes);
        true
    }

    /// Adds a session that was written earlier.
    pub(super) fn restore(&self, key: &str, session: StoredSession, now: Instant) {
        let mut known = self.known();
        known.put(key.into(), Arc::new(session), now);
        known.forget_oldest(self.sessions, self.bytes);
    }

    /// Returns all sessions, the one that was used last at the end. Their states are shared and not copied, because
    /// requests wait meanwhile.
    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<StoredSession>)> {
        let known = self.known();
        let session = |key: &Arc<str>| {
            let (session, ..) = known.by_key.get(key)?;
            Some((Arc::clone(key), Arc::clone(session)))
        };
        known.by_use.values().filter_map(session).collect()
    }
}

impl KnownSessions {
    fn version(&self, key: &str) -> u64 {
        self.by_key.get(key).map_or(0, |known| known.0.version)
    }

    fn put(&mut self, key: Arc<str>, session: Arc<StoredSession>, now: Instant) {
        self.uses += 1;
        self.bytes += bytes_of(&key, &session);
        let used = (session, self.uses, now);
        if let Some((replaced, before, _)) = self.by_key.insert(Arc::clone(&key), used) {
            self.bytes -= bytes_of(&key, &replaced);
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, key);
    }

    fn forget_oldest(&mut self, sessions: usize, bytes: usize) {
        while self.by_key.len() > sessions || self.bytes > bytes && self.by_key.len() > 1 {
            let Some((_, key)) = self.by_use.pop_first() else {
                return;
            };
            self.forget(&key);
        }
    }

    /// Forgets the session of a key that was removed from [`Self::by_use`].
    fn forget(&mut self, key: &str) {
        if let Some((session, ..)) = self.by_key.remove(key) {
            self.bytes -= bytes_of(key, &session);
        }
    }

    fn forget_idle(&mut self, now: Instant, idle_time: Duration) {
        while let Some(oldest) = self.by_use.first_entry() {
            let used = self.by_key.get(oldest.get()).map(|known| known.2);
            if used.is_some_and(|used| now.duration_since(used) < idle_time) {
                return;
            }
            let key = oldest.remove();
            self.forget(&key);
        }
    }
}

fn bytes_of(key: &str, session: &StoredSession) -> usize {
    key.len() + session.state.len()
}

impl SessionStore for MemoryStore {
    fn load<'s>(&'s self, key: &'s str) -> StoreFuture<'s, Option<StoredSession>> {
        Box::pin(async move { Ok(self.get(key, Instant::now())) })
    }

    fn save<'s>(&'s self, key: &'s str, state: &'s [u8], expected: u64) -> StoreFuture<'s, bool> {
        Box::pin(async move { Ok(self.put(key, state, expected, Instant::now())) })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys are hashes of what identifies a client.
        let known = self.known();
        f.debug_struct("MemoryStore")
            .field("sessions", &known.by_key.len())
            .field("most_sessions", &self.sessions)
            .field("bytes", &known.bytes)
            .field("most_bytes", &self.bytes)
            .field("idle_time", &self.idle_time)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_needs_the_present_version_and_old_sessions_are_forgotten() {
        let store = MemoryStore::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(store.put("a", b"1", 0, at(0)));
        assert!(!store.put("a", b"2", 0, at(0)), "it is known");
        assert!(store.put("a", b"2", 1, at(1)));
        let known = store.get("a", at(2)).unwrap();
        assert_eq!((known.version, &*known.state), (2, &b"2"[..]));
        assert!(store.put("b", b"1", 0, at(3)));
        assert!(store.get("a", at(4)).is_some());
        assert!(store.put("c", b"1", 0, at(5)));
        let is_known = |key, now| store.get(key, now).is_some();
        assert_eq!([is_known("a", at(6)), is_known("b", at(6))], [true, false]);
        assert_eq!(
            [is_known("c", at(14)), is_known("a", at(16))],
            [true, false]
        );
    }

    #[test]
    fn sessions_take_at_most_so_many_bytes_and_the_last_one_stays() {
        // A session has a key of one byte.
        let store = MemoryStore::new(9, Duration::from_secs(10)).with_bytes(10);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let known = |store: &MemoryStore| {
            let keys = store.all().into_iter().map(|(key, _)| key.to_string());
            keys.collect::<String>()
        };
        assert!(store.put("a", b"1234", 0, at(0)));
        assert!(store.put("b", b"1234", 0, at(0)));
        assert_eq!(known(&store), "ab");
        // The bytes of a state that is replaced are free again.
        assert!(store.put("a", b"4321", 1, at(1)));
        assert_eq!(known(&store), "ba");
        assert!(store.put("c", b"", 0, at(1)));
        assert_eq!(known(&store), "ac");
        assert!(store.get("a", at(2)).is_some());
        assert!(store.put("c", b"12345", 1, at(2)));
        assert_eq!(known(&store), "c");
        // A state that grows, and is too long alone.
        assert!(store.put("d", b"1", 0, at(3)));
        assert!(store.put("d", b"12345678901234", 1, at(3)));
        assert_eq!(known(&store), "d");
        store.restore("e", store.get("d", at(3)).unwrap(), at(3));
        assert_eq!(known(&store), "e");
        // So are those of sessions that were not used for too long.
        assert_eq!(store.version("e", at(20)), 0);
        for key in ["f", "g"] {
            assert!(store.put(key, b"1234", 0, at(20)));
        }
        assert_eq!(known(&store), "fg");
    }

    #[test]
    fn all_sessions_are_listed_without_a_copy_of_their_states() {
        let store = MemoryStore::new(2, Duration::from_secs(10));
        let now = Instant::now();
        for key in ["a", "b", "c"] {
            assert!(store.put(key, b"{}", 0, now));
        }
        let lists = [store.all(), store.all()];
        let keys = lists[0].iter().map(|(key, _)| &**key);
        assert_eq!(keys.collect::<Vec<_>>(), ["b", "c"]);
        let pairs = lists[0].iter().zip(&lists[1]);
        for ((_, first), (_, second)) in pairs {
            assert!(Arc::ptr_eq(first, second));
        }
    }
}
