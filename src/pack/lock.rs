//! `ttsr.lock`: the names, versions and hashes of loaded packs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::compiled::{Encode, PackReader, PackWriter};
use ttsr_automata::encoding::{MalformedBytes, write_number};

/// The name of the hash function in the file, so that another function can be added later.
const HASH_PREFIX: &str = "fnv1a128:";

/// The names, versions and content hashes of the packs of a load. With a lock, a later load of other packs is an error.
///
/// The hash is FNV-1a with 128 bits. It detects accidental changes. It is **not** cryptographic: an attacker can make
/// another file with the same hash.
///
/// # Example: a load with another pack than the locked one
/// ```
/// use ttsr::pack::Lock;
/// use ttsr::Pack;
/// let locked = Pack::builtin("std/secrets")?.lock().to_string();
/// let lock = Lock::parse(&locked).expect("a lock that was just written");
/// assert!(Pack::builder().builtin("std/secrets").lock(lock.clone()).build().is_ok());
/// let error = Pack::builder().builtin("lang/rust").lock(lock).build().unwrap_err();
/// assert_eq!(error.diagnostics()[0].code(), "lock-mismatch");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    packs: BTreeMap<String, Locked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Locked {
    version: Option<String>,
    hash: u128,
}

/// The TOML form of a lock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    #[serde(default)]
    pack: BTreeMap<String, LockEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockEntry {
    version: Option<String>,
    hash: String,
}

impl Lock {
    /// Returns the lock of `files`: the pack, its version and the text of each file, in any order.
    pub(super) fn new<'t>(
        files: impl Iterator<Item = (&'t str, Option<&'t str>, &'t str)>,
    ) -> Lock {
        let mut texts: BTreeMap<String, (Option<String>, Vec<u128>)> = BTreeMap::new();
        for (pack, version, text) in files {
            let entry = texts.entry(pack.to_owned()).or_default();
            entry.0 = entry.0.take().max(version.map(str::to_owned));
            entry.1.push(hash(text.as_bytes()));
        }
        let locked = texts.into_iter().map(|(pack, (version, mut hashes))| {
            hashes.sort_unstable();
            let all: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_be_bytes()).collect();
            let hash = hash(&all);
            (pack, Locked { version, hash })
        });
        Lock {
            packs: locked.collect(),
        }
    }

    /// Reads a lock as [`Display`](fmt::Display) writes it.
    ///
    /// # Errors
    /// A sentence that describes the first fault of the text.
    pub fn parse(text: &str) -> Result<Lock, String> {
        let File { schema, pack } =
            toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if schema != 1 {
            return Err(format!("schema {schema} of a lock is not supported"));
        }
        let read = |(name, LockEntry { version, hash }): (String, LockEntry)| {
            let digits = hash
                .strip_prefix(HASH_PREFIX)
                .filter(|digits| digits.len() == 32);
            let hash = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
            let hash = hash.ok_or_else(|| {
                format!("the hash of pack `{}` is not valid", name.escape_debug())
            })?;
            Ok((name, Locked { version, hash }))
        };
        let packs = pack.into_iter().map(read).collect::<Result<_, String>>()?;
        Ok(Lock { packs })
    }

    /// Returns the differences of `found` from this lock, one sentence per pack.
    pub(super) fn differences(&self, found: &Lock) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, locked) in &self.packs {
            match found.packs.get(name) {
                None => differences.push(format!("pack `{name}` is locked, but was not loaded")),
                Some(now) if now.version != locked.version => differences.push(format!(
                    "pack `{name}` is locked at version {}, this is {}",
                    version_text(locked.version.as_ref()),
                    version_text(now.version.as_ref())
                )),
                Some(now) if now.hash != locked.hash => {
                    differences.push(format!("pack `{name}` has changed since it was locked"));
                }
                Some(_) => {}
            }
        }
        let new = found
            .packs
            .keys()
            .filter(|name| !self.packs.contains_key(*name));
        differences.extend(new.map(|name| format!("pack `{name}` is not locked")));
        differences
    }
}

impl Encode for Lock {
    fn encode(&self, out: &mut PackWriter) {
        write_number(&mut out.bytes, self.packs.len() as u64);
        for (name, Locked { version, hash }) in &self.packs {
            name.encode(out);
            version.encode(out);
            hash.encode(out);
        }
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Lock, MalformedBytes> {
        let packs = (0..from.bytes.length()?).map(|_| {
            let name = Encode::decode(from)?;
            let (version, hash) = (Encode::decode(from)?, Encode::decode(from)?);
            Ok((name, Locked { version, hash }))
        });
        let packs = packs.collect::<Result<_, _>>()?;
        Ok(Lock { packs })
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schema = 1")?;
        for (name, Locked { version, hash }) in &self.packs {
            writeln!(f, "\n[pack.\"{name}\"]")?;
            if let Some(version) = version {
                writeln!(f, "version = \"{version}\"")?;
            }
            writeln!(f, "hash = \"{HASH_PREFIX}{hash:032x}\"")?;
        }
        Ok(())
    }
}

fn version_text(version: Option<&String>) -> String {
    version.map_or_else(
        || "none".to_owned(),
        |version| version.escape_debug().to_string(),
    )
}

/// Returns the 128-bit FNV-1a hash of `bytes`.
fn hash(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(BASIS, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(hash(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn files_of_a_pack_have_no_order_and_every_change_is_told() {
        let files = [
            ("a", Some("1.0.0"), "x"),
            ("a", Some("1.0.0"), "y"),
            ("b", None, "z"),
        ];
        let lock = Lock::new(files.into_iter());
        assert_eq!(lock, Lock::new(files.into_iter().rev()));
        assert_eq!(Lock::parse(&lock.to_string()).as_ref(), Ok(&lock));
        assert_eq!(lock.differences(&lock), [""; 0]);
        let now = [("a", Some("1.1.0"), "x"), ("b", None, "Z"), ("c", None, "")];
        assert_eq!(
            lock.differences(&Lock::new(now.into_iter())),
            [
                "pack `a` is locked at version 1.0.0, this is 1.1.0",
                "pack `b` has changed since it was locked",
                "pack `c` is not locked",
            ]
        );
        assert!(Lock::parse("schema = 2").is_err());
        assert!(Lock::parse("schema = 1\n[pack.a]\nhash = 'fnv1a128:12'").is_err());
        assert!(Lock::parse("schema = 1\nnonsense = 1").is_err());
    }
}
