//! The Pike VM of a pattern, compiled on first use.

use std::sync::OnceLock;

use ttsr_automata::encoding::PatternTree;
use ttsr_automata::pike::{self, PikeVm};

/// The program that finds the full matches of a pattern, or their starts. It is compiled when it is first needed, which
/// cannot fail: most patterns of a pack never match, and compiling all of them took a tenth of a load.
#[derive(Debug)]
pub(crate) struct LazyPike {
    tree: PatternTree,
    /// The capture group that the program records.
    group: Option<u32>,
    vm: OnceLock<PikeVm>,
}

impl LazyPike {
    /// Returns the program of `tree`, which is not compiled yet.
    pub(crate) fn new(tree: PatternTree, group: Option<u32>) -> LazyPike {
        LazyPike {
            tree,
            group,
            vm: OnceLock::new(),
        }
    }

    /// Returns the program.
    pub(crate) fn get(&self) -> &PikeVm {
        let compile = || pike::Compiler::default().compile(&self.tree.get(), self.group);
        self.vm.get_or_init(compile)
    }
}
