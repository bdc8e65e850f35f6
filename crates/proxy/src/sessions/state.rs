//! The states that a store keeps, in JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{SessionError, SessionStore};

/// The most attempts to write a state that others write at the same time.
pub(crate) const ATTEMPTS: usize = 64;

pub(crate) const CONTENTION: &str = "too many requests write the session at the same time";

/// Returns the state under a key, and its version, which is 0 if the key is not known.
///
/// # Errors
/// If the store cannot be read, or the state has another form.
pub(crate) async fn load<S: DeserializeOwned + Default>(
    store: &dyn SessionStore,
    key: &str,
) -> Result<(S, u64), SessionError> {
    let Some(stored) = store.load(key).await? else {
        return Ok((S::default(), 0));
    };
    let state = serde_json::from_slice(&stored.state)
        .map_err(|_| SessionError::new("the state of the session has another form"))?;
    Ok((state, stored.version))
}

/// Writes a state. Returns false, and writes nothing, if it has another version than `expected`.
///
/// # Errors
/// If the store cannot be written.
pub(crate) async fn save<S: Serialize>(
    store: &dyn SessionStore,
    key: &str,
    state: &S,
    expected: u64,
) -> Result<bool, SessionError> {
    let state = serde_json::to_vec(state)
        .map_err(|_| SessionError::new("the session cannot be written"))?;
    store.save(key, &state, expected).await
}

/// Changes the state under a key. It is changed again if others have written it meanwhile.
///
/// # Errors
/// If the store cannot be read or written.
pub(crate) async fn update<S: Serialize + DeserializeOwned + Default>(
    store: &dyn SessionStore,
    key: &str,
    change: impl Fn(&mut S),
) -> Result<(), SessionError> {
    for _ in 0..ATTEMPTS {
        let (mut state, version) = load(store, key).await?;
        change(&mut state);
        if save(store, key, &state, version).await? {
            return Ok(());
        }
    }
    Err(SessionError::new(CONTENTION))
}
