//! What a pack says of itself, for people who choose one.

use std::collections::BTreeMap;

/// The head of a pack: its `[pack]` table.
///
/// # Example: what a pack is for
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
    /// The pack's name: the part of a rule's full id before the last `/`.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Its licence, as an SPDX expression.
    pub license: Option<String>,
    /// Where to read more.
    pub docs: Option<String>,
    /// The packs whose rules are part of it, in the order of their names.
    pub extends: Vec<String>,
    /// Nobody named it: it was loaded because another one extends it.
    pub is_extended: bool,
}

impl PackHeader {
    /// Whether the rule of that full id is written in this pack.
    #[must_use]
    pub fn owns(&self, id: &str) -> bool {
        id.rsplit_once('/')
            .is_some_and(|(pack, _)| pack == self.name)
    }

    /// Takes what another file of the same pack says and this one does not.
    fn join(&mut self, other: PackHeader) {
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

/// One header a pack, by name, from those of all files.
pub(super) fn joined(files: impl Iterator<Item = PackHeader>) -> Vec<PackHeader> {
    let mut packs: BTreeMap<String, PackHeader> = BTreeMap::new();
    for header in files {
        match packs.get_mut(&header.name) {
            Some(known) => known.join(header),
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
