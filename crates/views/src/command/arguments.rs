//! Lists of words that a text sets and runs: arrays, the positional parameters, and the arguments of functions.

use super::event::WordTraits;
use super::program::ProgramAction;

/// The most bytes of the elements of a list, and of the name of a function.
const BYTES: usize = 256;

/// The name of the list of the positional parameters, which no array can have.
pub(super) const POSITIONAL: &[u8] = b"@";

/// The arrays of constants, and the functions that run their arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct WordLists {
    arrays: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    functions: Vec<(Vec<u8>, ProgramAction)>,
    /// The variables of `for` with their values. A word that is nothing but such a variable stands for each of them.
    loops: Vec<(Vec<u8>, Vec<LoopValue>)>,
}

/// A value of the variable of a loop.
#[derive(Clone, Debug)]
pub(super) struct LoopValue {
    pub(super) text: Vec<u8>,
    pub(super) traits: WordTraits,
}

/// A function whose body is being read.
#[derive(Clone, Debug)]
pub(super) struct FunctionBody {
    pub(super) name: Vec<u8>,
    /// The number of compound commands that were open at its definition.
    pub(super) depth: usize,
    /// The number of arguments that `shift` has removed.
    pub(super) shifts: u32,
}

impl WordLists {
    /// Sets an array. Returns false if there are already `most`, or its elements are too long.
    pub(super) fn set(&mut self, name: &[u8], elements: Vec<Vec<u8>>, most: usize) -> bool {
        self.remove(name);
        let bytes: usize = elements.iter().map(Vec::len).sum();
        let fits = self.arrays.len() < most && bytes + name.len() <= BYTES;
        if fits {
            self.arrays.push((name.to_vec(), elements));
        }
        fits
    }

    /// Forgets an array.
    pub(super) fn remove(&mut self, name: &[u8]) {
        self.arrays.retain(|(known, _)| known != name);
    }

    /// Returns the elements of an array.
    pub(super) fn get(&self, name: &[u8]) -> Option<&[Vec<u8>]> {
        let mut arrays = self.arrays.iter();
        let (_, elements) = arrays.find(|(known, _)| known == name)?;
        Some(elements)
    }

    /// Sets the values of the variable of a loop. Returns false if there are too many loops, or the values are too long.
    pub(super) fn set_loop(&mut self, name: &[u8], values: Vec<LoopValue>, most: usize) -> bool {
        self.take_loop(name);
        let bytes: usize = values.iter().map(|value| value.text.len() + 1).sum();
        let fits = self.loops.len() < most && name.len() + bytes <= BYTES;
        if fits {
            self.loops.push((name.to_vec(), values));
        }
        fits
    }

    /// Forgets the values of the variable of a loop, and returns them.
    pub(super) fn take_loop(&mut self, name: &[u8]) -> Option<Vec<LoopValue>> {
        let known = self.loops.iter().position(|(known, _)| known == name)?;
        Some(self.loops.swap_remove(known).1)
    }

    /// Returns the values of the variable of a loop, if the word is nothing but that variable.
    pub(super) fn loop_values(&self, word: &[u8]) -> Option<&[LoopValue]> {
        let name = word.strip_prefix(b"$").filter(|_| !self.loops.is_empty())?;
        let braced = name.strip_prefix(b"{").and_then(|it| it.strip_suffix(b"}"));
        let name = braced.unwrap_or(name);
        let mut loops = self.loops.iter();
        let (_, values) = loops.find(|(known, _)| known == name)?;
        Some(values)
    }

    /// Records that a function runs its arguments.
    pub(super) fn add_function(&mut self, name: &[u8], action: ProgramAction, most: usize) -> bool {
        self.functions.retain(|(known, _)| known != name);
        let fits = self.functions.len() < most && name.len() <= BYTES;
        if fits {
            self.functions.push((name.to_vec(), action));
        }
        fits
    }

    /// Returns the words that a function runs, if it runs its arguments.
    pub(super) fn function(&self, name: &[u8]) -> Option<ProgramAction> {
        let mut functions = self.functions.iter();
        let (_, action) = functions.find(|(known, _)| known == name)?;
        Some(*action)
    }
}

/// Returns true if the word stands for all arguments.
pub(super) fn is_arguments(word: &[u8]) -> bool {
    matches!(word, b"$@" | b"${@}" | b"$*" | b"${*}")
}
