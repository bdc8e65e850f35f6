//! The head of a pack: its name, version, purpose and licence.

use std::collections::BTreeMap;

/// The head of a pack: its `[pack]` table.
///
/// # Example: the purpose of a pack
/// ```
/// let pack = ttsr::Pack::builtin("std/secrets")?;
/// let header = &pack.headers()[0];
/// assert_eq!(header.name, "std/secrets");
/// assert!(header.description.as_deref().unwrap().starts_with("Credentials"));
/// assert!(pack.rules().iter().all(|rule| header.owns(&rule.id)));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackHeader {
    /// The name of the pack: the part of a rule's full id before the last `/`.
    pub name: String,
    /// The version.
    pub version: Option<String>,
    /// The purpose.
    pub description: Option<String>,
    /// The licence, as an SPDX expression.
    pub license: Option<String>,
    /// The address of further documentation.
    pub docs: Option<String>,
    /// The packs that it extends, sorted by name.
    pub extends: Vec<String>,
    /// True if the host did not name the pack: it was loaded because another pack extends it.
    pub is_extended: bool,
}

impl PackHeader {
    /// Returns true if the rule with the full id `id` belongs to this pack.
    #[must_use]
    pub fn owns(&self, id: &str) -> bool {
        id.rsplit_once('/')
            .is_some_and(|(pack, _)| pack == self.name)
    }

    /// Fills in the keys that this file does not have from another file of the same pack.
    fn merge(&mut self, other: PackHeader) {
        self.version = self.version.take().max(other.version);
        for (own, other) in [
            (&mut self.description, other.description),
            (&mut self.license, other.license),
            (&mut self.docs, other.docs),
        ] {
            *own = own.take().or(other);
        }
        self.extends.extend(other.extends);
        self.is_extended &= other.is_extended;
    }
}

/// Merges the heads of all files into one per pack, sorted by name.
pub(super) fn merged(files: impl Iterator<Item = PackHeader>) -> Vec<PackHeader> {
    let mut packs: BTreeMap<String, PackHeader> = BTreeMap::new();
    for header in files {
        match packs.get_mut(&header.name) {
            Some(known) => known.merge(header),
            None => {
                packs.insert(header.name.clone(), header);
            }
        }
    }
    let mut headers: Vec<PackHeader> = packs.into_values().collect();
    for header in &mut headers {
        header.extends.sort_unstable();
        header.extends.dedup();
    }
    headers
}
