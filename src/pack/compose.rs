//! The composition of packs: where the packs that a pack extends are found, in which order files are read, and what
//! overrides, allowances and grants apply.
//!
//! The result does not depend on the order in which sources were named: a file is read after those of the packs that it
//! extends, and otherwise in the order of names and texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::check::Check;
use super::check::fault::Fault;
use super::check::problems::Span;
use super::diagnostic::code;
use super::escape::quote;
use super::source::Files;
use super::{Pack, builtin, did_you_mean};

mod allow;
mod date;
mod grant;
mod overrides;

pub(crate) use allow::ResolvedAllow;
pub(super) use allow::{WrittenAllow, ended_fault, id_glob, resolve};
pub use date::Date;
pub(super) use grant::{action_after_retries, ungranted, ungranted_in_code};
pub(super) use overrides::{Override, apply};

/// The longest chain of packs that extend each other.
const DEPTH: usize = 16;

/// The text of a rule file that is still to be read.
#[derive(Clone, Debug, Default)]
pub(super) struct PackSource {
    /// The name in messages.
    pub(super) name: String,
    pub(super) text: String,
    /// The folder of the file; `None` for a text that is not a file.
    pub(super) folder: Option<PathBuf>,
    /// True if the source was not named by the host, but is extended by another pack.
    pub(super) is_extended: bool,
    /// The head of the file, once it was needed.
    head: Option<PackHead>,
    /// The length of the longest chain of packs below it.
    rank: usize,
    /// The faults of its `extends`.
    pub(super) faults: Vec<(Fault, Span)>,
}

impl PackSource {
    pub(super) fn new(name: &str, text: &str, folder: Option<&Path>) -> PackSource {
        PackSource {
            name: name.to_owned(),
            text: text.to_owned(),
            folder: folder.map(Path::to_path_buf),
            ..PackSource::default()
        }
    }

    /// Returns the names of the packs that it extends, if the head is known.
    pub(super) fn extends(&self) -> Vec<String> {
        let head = self.head.iter();
        let names = head.flat_map(|head| head.extends.iter().map(|(name, _)| name.clone()));
        names.collect()
    }

    /// Returns true if the head is known and names packs that it extends.
    fn extends_others(&self) -> bool {
        let head = self.head.as_ref();
        head.is_some_and(|head| !head.extends.is_empty())
    }

    /// Reads the head unless it is known. A text that is not TOML has an empty head; its errors are reported when it is
    /// checked.
    fn peek(&mut self) {
        self.head.get_or_insert_with(|| PackHead::new(&self.text));
    }
}

/// The name of a pack and the packs it extends.
#[derive(Clone, Debug, Default)]
struct PackHead {
    pack: String,
    extends: Vec<(String, Span)>,
}

impl PackHead {
    fn new(text: &str) -> PackHead {
        let Ok(root) = DeTable::parse(text) else {
            return PackHead::default();
        };
        let pack = root.get_ref().get("pack");
        let Some(pack) = pack.and_then(|pack| pack.get_ref().as_table()) else {
            return PackHead::default();
        };
        let name = pack.get("name").and_then(|name| name.get_ref().as_str());
        let extends = pack
            .get("extends")
            .and_then(|list| list.get_ref().as_array());
        let extends = extends.into_iter().flatten().filter_map(|entry| {
            let name = entry.get_ref().as_str()?;
            Some((name.to_owned(), entry.span()))
        });
        PackHead {
            pack: name.unwrap_or_default().to_owned(),
            extends: extends.collect(),
        }
    }
}

/// Adds the packs that the sources of `check` extend, and sorts all sources into the order in which they are read.
pub(super) fn gather(check: &mut Check<'_>, files: &mut Files<'_>) {
    check
        .sources
        .sort_by(|a, b| (&a.name, &a.text).cmp(&(&b.name, &b.text)));
    let sources = check.sources.iter_mut();
    let may_extend = sources.filter(|source| source.text.contains("extends"));
    may_extend.for_each(PackSource::peek);
    if check.sources.iter().any(PackSource::extends_others) {
        find(check, files);
        rank(&mut check.sources);
    }
    check
        .sources
        .sort_by(|a, b| (a.rank, &a.name, &a.text).cmp(&(b.rank, &b.name, &b.text)));
}

/// Adds extended packs that are not loaded yet: built-in packs first, then packs beside the file.
fn find(check: &mut Check<'_>, files: &mut Files<'_>) {
    let mut next = 0;
    while next < check.sources.len() {
        check.sources.iter_mut().for_each(PackSource::peek);
        let known: BTreeSet<String> = packs(&check.sources).map(str::to_owned).collect();
        let source = &check.sources[next];
        let wanted = source.head.clone().unwrap_or_default().extends;
        let folder = source.folder.clone();
        for (name, span) in wanted.into_iter().filter(|(name, _)| !known.contains(name)) {
            if packs(&check.sources).any(|pack| pack == name) {
                continue;
            }
            let before = check.sources.len();
            match (builtin::find(&name), &folder) {
                (Some(pack), _) => check.add_builtin(pack),
                (None, Some(folder)) => files.read_in_folder(folder, &name, check),
                (None, None) => {}
            }
            for source in &mut check.sources[before..] {
                source.is_extended = true;
                source.peek();
            }
            if !packs(&check.sources).any(|pack| pack == name) {
                let fault = unknown(&name, &check.sources);
                check.sources[next].faults.push((fault, span));
            }
        }
        next += 1;
    }
}

fn packs(sources: &[PackSource]) -> impl Iterator<Item = &str> {
    let heads = sources.iter().filter_map(|source| source.head.as_ref());
    heads.map(|head| head.pack.as_str())
}

fn unknown(name: &str, sources: &[PackSource]) -> Fault {
    let mut known: Vec<&str> = packs(sources).collect();
    for name in Pack::builtin_names() {
        known.push(name);
    }
    known.sort_unstable();
    known.dedup();
    let message = format!("there is no pack {}", quote(name));
    let near = did_you_mean::nearest(name, &known);
    Fault::new(&code::UNKNOWN_PACK, message).with_help(format!(
        "a pack is built in, given beside this one, or lies next to this file as `{}.toml`{}",
        name.escape_debug(),
        near.map_or_else(String::new, |near| format!(
            "; did you mean {}?",
            quote(near)
        )),
    ))
}

/// Sets the rank of every source to the length of the longest chain below it. Packs in a circle, and those above them,
/// are reported and keep rank zero.
fn rank(sources: &mut [PackSource]) {
    let graph = graph(sources);
    let mut ranks: BTreeMap<&str, usize> = BTreeMap::new();
    loop {
        let before = ranks.len();
        for (pack, extended) in &graph {
            let known: Option<Vec<usize>> = extended
                .iter()
                .map(|one| ranks.get(one.as_str()).copied())
                .collect();
            if let Some(known) = known {
                let rank = known.into_iter().max().map_or(0, |rank| rank + 1);
                ranks.entry(pack).or_insert(rank);
            }
        }
        if ranks.len() == before {
            break;
        }
    }
    let cycles = cycles(&graph, &ranks);
    for source in sources {
        let PackHead { pack, extends } = source.head.clone().unwrap_or_default();
        source.rank = ranks.get(pack.as_str()).copied().unwrap_or_default();
        let Some((_, span)) = extends.first() else {
            continue;
        };
        if let Some(cycle) = cycles.iter().find(|cycle| cycle.contains(&pack)) {
            source
                .faults
                .push((cycle_fault(&pack, cycle), span.clone()));
        } else if source.rank == DEPTH {
            let message = format!("a chain of `extends` has more than {DEPTH} packs");
            let fault = Fault::new(&code::EXTENDS_TOO_DEEP, message);
            source.faults.push((
                fault.with_help("extend the packs at the end of the chain directly"),
                span.clone(),
            ));
        }
    }
}

/// Returns the loaded packs that each pack extends.
fn graph(sources: &[PackSource]) -> BTreeMap<String, BTreeSet<String>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for head in sources.iter().filter_map(|source| source.head.as_ref()) {
        let extended = graph.entry(head.pack.clone()).or_default();
        extended.extend(head.extends.iter().map(|(name, _)| name.clone()));
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    for extended in graph.values_mut() {
        extended.retain(|name| known.contains(name));
    }
    graph
}

/// Returns the circles among the packs without a rank, each in its order. Every pack is visited once.
fn cycles(
    graph: &BTreeMap<String, BTreeSet<String>>,
    ranks: &BTreeMap<&str, usize>,
) -> Vec<Vec<String>> {
    let unranked = graph
        .keys()
        .filter(|pack| !ranks.contains_key(pack.as_str()));
    let mut left: BTreeSet<&String> = unranked.collect();
    let mut cycles = Vec::new();
    while let Some(start) = left.pop_first() {
        let mut path = vec![start.clone()];
        let mut pack = start;
        // Follow packs that were not visited yet. A pack that is already on the path closes a circle.
        loop {
            if let Some(at) = path.iter().position(|known| graph[pack].contains(known)) {
                cycles.push(path.split_off(at));
                break;
            }
            let Some(next) = graph[pack].iter().find(|extended| left.contains(extended)) else {
                break;
            };
            left.remove(next);
            path.push(next.clone());
            pack = next;
        }
    }
    cycles
}

fn cycle_fault(pack: &str, cycle: &[String]) -> Fault {
    let start = cycle.iter().position(|one| one == pack).unwrap_or_default();
    let names = cycle.iter().cycle().skip(start).take(cycle.len() + 1);
    let chain: Vec<String> = names.map(|name| quote(name)).collect();
    let message = format!("packs extend each other in a cycle: {}", chain.join(" → "));
    Fault::new(&code::CYCLIC_EXTENDS, message).with_help("remove one of these `extends`")
}

/// Returns the packs below a pack, without the pack itself.
pub(super) fn closure(
    extends: &BTreeMap<String, BTreeSet<String>>,
    pack: &str,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&str> = vec![pack];
    while let Some(pack) = left.pop() {
        for extended in extends.get(pack).into_iter().flatten() {
            if found.insert(extended.clone()) {
                left.push(extended);
            }
        }
    }
    found
}
