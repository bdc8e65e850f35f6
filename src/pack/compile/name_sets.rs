//! The name sets that the rules of a pack share: one for each list, however many rules have it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::rule::KnownList;
use ttsr_views::detect::unknown_name::{KnownNames, NameSet, name_set};

/// The name sets made so far.
#[derive(Debug, Default)]
pub(super) struct NameSetCache {
    /// By the address of the list, which the rules keep alive.
    by_address: HashMap<*const String, Arc<NameSet>>,
    by_content: HashMap<Arc<[String]>, Arc<NameSet>>,
}

impl NameSetCache {
    /// Returns the names in `known`, building the sets that do not exist yet.
    pub(super) fn get_or_build(&mut self, known: &KnownList) -> Arc<KnownNames> {
        let sets = known.lists().iter().map(|list| self.set(list));
        Arc::new(KnownNames::shared(sets.collect()))
    }

    fn set(&mut self, list: &Arc<[String]>) -> Arc<NameSet> {
        let NameSetCache {
            by_address,
            by_content,
        } = self;
        let from_content = || {
            let shared = by_content.entry(Arc::clone(list));
            let set = shared.or_insert_with(|| Arc::new(name_set(list.iter().map(String::as_str))));
            Arc::clone(set)
        };
        Arc::clone(by_address.entry(list.as_ptr()).or_insert_with(from_content))
    }
}
