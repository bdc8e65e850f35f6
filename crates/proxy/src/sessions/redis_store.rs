//! Sessions in a Redis or Valkey server, which any number of proxies share.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, TlsCertificates,
};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::{SessionError, SessionStore, StoreFuture, StoredSession};

/// The longest time to connect to the server, and to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest time of one use of the store, in which a connection is waited for and used. Without it, requests would wait
/// one after the other for a connection to a server that is silent.
const MOST_PATIENCE: Duration = Duration::from_secs(5);

const SILENT: &str = "the store of sessions does not answer";

/// Returns the version and the state, and resets the idle time.
const LOAD: &str = "local found = redis.call('HMGET', KEYS[1], 'version', 'state') \
    if found[1] then redis.call('EXPIRE', KEYS[1], ARGV[1]) end \
    return found";

/// Writes the state if the stored version is the expected one. Returns 1 if it was written, otherwise 0.
const SAVE: &str = "local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0') \
    if version ~= tonumber(ARGV[2]) then return 0 end \
    redis.call('HSET', KEYS[1], 'version', version + 1, 'state', ARGV[3]) \
    redis.call('EXPIRE', KEYS[1], ARGV[1]) \
    return 1";

/// Sessions in a Redis or Valkey server, as hashes named `ttsr:session:KEY`, each until it was not used for the idle time.
///
/// Proxies that share the server decide as one. The server's own limit on memory bounds the number of sessions.
pub struct RedisStore {
    client: Client,
    idle_seconds: u64,
    /// `None` until the first use, and after an error.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl RedisStore {
    /// Returns a store in the server of a URL such as `redis://127.0.0.1:6379/0`, or `rediss://HOST/0` for TLS with the
    /// certificate authorities of this system. No connection is made yet.
    ///
    /// # Errors
    /// If it is not such a URL. The error names it without its password.
    pub fn new(url: &str, idle_time: Duration) -> Result<RedisStore, SessionError> {
        let client = Client::open(url).map_err(|error| not_opened(url, &error))?;
        Ok(RedisStore::of_client(client, idle_time))
    }

    /// Returns a store in the server of a `rediss://` URL whose certificate one of these authorities has signed. They are
    /// certificates in PEM.
    ///
    /// # Errors
    /// If it is not such a URL, or if the PEM has no certificate.
    pub fn with_authorities(
        url: &str,
        idle_time: Duration,
        authorities: &[u8],
    ) -> Result<RedisStore, SessionError> {
        if !url.starts_with("rediss://") {
            let message =
                "authorities are of use only for a store with TLS, whose URL begins with rediss://";
            return Err(SessionError::new(message));
        }
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authorities).collect();
        if !found.is_ok_and(|found| !found.is_empty()) {
            let message =
                "the authorities of the store of sessions: there is no certificate in PEM";
            return Err(SessionError::new(message));
        }
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: Some(authorities.to_vec()),
        };
        let client =
            Client::build_with_tls(url, certificates).map_err(|error| not_opened(url, &error))?;
        Ok(RedisStore::of_client(client, idle_time))
    }

    fn of_client(client: Client, idle_time: Duration) -> RedisStore {
        RedisStore {
            client,
            idle_seconds: idle_time.as_secs().max(1),
            connection: Mutex::new(None),
        }
    }

    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, SessionError> {
        let answered = timeout(MOST_PATIENCE, self.query_once(command)).await;
        answered.unwrap_or_else(|_| Err(SessionError::new(SILENT)))
    }

    async fn query_once<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, SessionError> {
        let mut connection = self.connected().await.map_err(|error| lost(&error))?;
        let answered = command.query_async(&mut connection).await;
        if answered.is_err() {
            // The connection may be broken. The next use makes another one.
            *self.connection.lock().await = None;
        }
        answered.map_err(|error| lost(&error))
    }

    async fn connected(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut connection = self.connection.lock().await;
        if let Some(known) = &*connection {
            return Ok(known.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let made = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(connection.insert(made).clone())
    }
}

fn not_opened(url: &str, error: &RedisError) -> SessionError {
    let error = error.to_string();
    // The kind of the error follows the description, and then the value of a member of the query.
    let problem = error.split(" - ").next().unwrap_or_default();
    SessionError::new(format!(
        "the store of sessions {}: {problem}; its URL has the form redis://HOST:PORT/DB",
        without_password(url)
    ))
}

/// Returns a URL, which may not be a valid one, with `***` instead of the name and the password of the user, the query,
/// and a port that is no number: it may be a password without a host.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let (rest, query) = match rest.split_once(['?', '#']) {
        Some((rest, _)) => (rest, "?***"),
        None => (rest, ""),
    };
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = match host.rsplit_once(':') {
        Some((name, port))
            if !port
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b']') =>
        {
            format!("{name}:***")
        }
        _ => host.to_owned(),
    };
    let scheme = match scheme {
        "" => String::new(),
        scheme => format!("{scheme}://"),
    };
    format!("{scheme}{user}{host}{path}{query}")
}

/// Returns the error without the address of the server, which a client needs not know.
fn lost(error: &RedisError) -> SessionError {
    SessionError::new(match error.kind() {
        ErrorKind::AuthenticationFailed => "the store of sessions refuses the password",
        _ if error.is_timeout() => SILENT,
        _ if error.is_io_error() => "the store of sessions cannot be reached",
        _ => "the store of sessions answers with an error",
    })
}

fn redis_key(key: &str) -> String {
    format!("ttsr:session:{key}")
}

impl SessionStore for RedisStore {
    fn load<'s>(&'s self, key: &'s str) -> StoreFuture<'s, Option<StoredSession>> {
        Box::pin(async move {
            let mut command = redis::cmd("EVAL");
            command
                .arg(LOAD)
                .arg(1)
                .arg(redis_key(key))
                .arg(self.idle_seconds);
            let found: (Option<u64>, Option<Vec<u8>>) = self.query(&command).await?;
            Ok(match found {
                (Some(version), Some(state)) => Some(StoredSession { version, state }),
                _ => None,
            })
        })
    }

    fn save<'s>(&'s self, key: &'s str, state: &'s [u8], expected: u64) -> StoreFuture<'s, bool> {
        Box::pin(async move {
            let mut command = redis::cmd("EVAL");
            command
                .arg(SAVE)
                .arg(1)
                .arg(redis_key(key))
                .arg(self.idle_seconds);
            command.arg(expected).arg(state);
            self.query(&command).await
        })
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may have a password.
        f.debug_struct("RedisStore")
            .field("idle_seconds", &self.idle_seconds)
            .finish_non_exhaustive()
    }
}
