//! Hooks: code of the host that sees a stream before the rules do.
//!
//! Which hooks are called where is decided when they are registered, so a point nobody registered for
//! costs one look at an empty list. Hooks get data, never the processor: they cannot call back into it.

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::step::Aborted;
use crate::{Channel, PartId};

/// Where a hook can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Point {
    /// `stream.delta`: every non-empty delta, before the rules see it.
    Delta,
    /// `stream.aborted`: once after every abort.
    Aborted,
    /// `text.complete`: a text part is complete.
    TextComplete,
}

/// Code of the host that takes part in a stream. All methods are called in the order of registration.
///
/// They are plain functions: one that blocks blocks its own stream (no lock of this crate is held), and
/// there is no deadline that could end it. Work that takes long belongs on a thread of its own, with
/// the result acted on at a later delta. A hook that panics is caught and counted; what happens to
/// the stream is for [`Settings::on_hook_panic`](super::Settings::on_hook_panic) to say. (A panic during
/// the unwinding of another one ends the process; that is Rust's rule.)
pub trait Hook: Send {
    /// The points at which it is called; asked for once, when it is registered.
    fn points(&self) -> &[Point];

    /// Sees a delta before anyone else; may rewrite it, and may abort the reply.
    #[expect(unused_variables, reason = "by default a hook does nothing")]
    fn delta(&mut self, at: &At<'_>, delta: &mut Delta<'_>) {}

    /// Learns that the reply was aborted; may ask for it to be taken again.
    #[expect(unused_variables, reason = "by default a hook does nothing")]
    fn aborted(&mut self, aborted: &Aborted, answer: &mut Answer) {}

    /// Sees a text part that is complete; may replace what is kept of it. It was published already,
    /// and the rules do not see what it is replaced with.
    #[expect(unused_variables, reason = "by default a hook does nothing")]
    fn text_complete(&mut self, at: &At<'_>, text: &mut Vec<u8>) {}
}

/// Where in which stream a hook is called.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct At<'a> {
    /// The session's id, from [`Settings::session`](super::Settings::session).
    pub session: &'a str,
    /// The message's id: the same for every attempt at it.
    pub message: &'a str,
    /// The number of the attempt in its turn, from 1.
    pub attempt: u32,
    /// Time since the turn began.
    pub time: Duration,
    /// The part's number in the stream.
    pub part: PartId,
    /// What the provider calls the part.
    pub part_name: &'a str,
    /// What kind of part it is.
    pub channel: Channel,
    /// The tool's name, once it is known. Only tool input has one.
    pub tool: Option<&'a str>,
    /// The id of the tool call, once it is known.
    pub call: Option<&'a str>,
    /// What the part held before this delta.
    pub so_far: &'a [u8],
}

/// A delta on its way. May be cut anywhere, inside a character too.
#[derive(Clone, Debug)]
pub struct Delta<'a> {
    bytes: Cow<'a, [u8]>,
    abort: bool,
}

impl<'a> Delta<'a> {
    fn new(bytes: &'a [u8]) -> Delta<'a> {
        Delta {
            bytes: Cow::Borrowed(bytes),
            abort: false,
        }
    }

    /// The bytes, as the hooks before left them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as text. Invalid UTF-8 is shown as U+FFFD.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Puts other bytes in their place; none, to keep the delta from everyone.
    pub fn rewrite(&mut self, bytes: impl Into<Vec<u8>>) {
        self.bytes = Cow::Owned(bytes.into());
    }

    /// Aborts the reply. No hook after this one sees the delta, and neither do the rules; it is neither
    /// accumulated nor published.
    pub fn abort(&mut self) {
        self.abort = true;
    }
}

/// What a hook wants after an abort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Take the reply again, from scratch. Bounded by
    /// [`Settings::hook_retries`](super::Settings::hook_retries).
    pub retry: bool,
    /// Said to the model in the user's name before the retry; ignored without `retry`.
    pub inject_message: Option<String>,
}

/// What to do with the stream of a hook that panicked. Either way the panic is counted and the hook is
/// not called again in this reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnHookPanic {
    /// Abort: a guard that fell over guards nothing.
    #[default]
    Abort,
    /// Go on as if the hook had not been there.
    Continue,
}

/// The hooks of a host, in the order of registration.
///
/// # Example: a hook that stops a reply
/// ```
/// use ttsr::harness::Hooks;
/// let mut hooks = Hooks::default();
/// hooks.on_delta("no-lists", |at, delta| {
///     if at.so_far.ends_with(b"\n") && delta.bytes().starts_with(b"- ") {
///         delta.abort();
///     }
/// });
/// ```
#[derive(Default)]
pub struct Hooks {
    all: Vec<Registered>,
    delta: Vec<usize>,
    aborted: Vec<usize>,
    text_complete: Vec<usize>,
}

struct Registered {
    name: String,
    hook: Box<dyn Hook>,
    has_panicked: bool,
}

impl Hooks {
    /// Registers a hook behind those that are there.
    pub fn register(&mut self, name: impl Into<String>, hook: impl Hook + 'static) {
        let index = self.all.len();
        for point in hook.points() {
            let list = match point {
                Point::Delta => &mut self.delta,
                Point::Aborted => &mut self.aborted,
                Point::TextComplete => &mut self.text_complete,
            };
            if list.last() != Some(&index) {
                list.push(index);
            }
        }
        self.all.push(Registered {
            name: name.into(),
            hook: Box::new(hook),
            has_panicked: false,
        });
    }

    /// Registers a function for [`Point::Delta`].
    pub fn on_delta<F>(&mut self, name: impl Into<String>, hook: F)
    where
        F: FnMut(&At<'_>, &mut Delta<'_>) + Send + 'static,
    {
        self.register(name, OnDelta(hook));
    }

    /// Registers a function for [`Point::Aborted`].
    pub fn on_aborted<F>(&mut self, name: impl Into<String>, hook: F)
    where
        F: FnMut(&Aborted, &mut Answer) + Send + 'static,
    {
        self.register(name, OnAborted(hook));
    }

    /// Whether no hook is called at that point.
    #[must_use]
    pub fn is_empty(&self, point: Point) -> bool {
        match point {
            Point::Delta => self.delta.is_empty(),
            Point::Aborted => self.aborted.is_empty(),
            Point::TextComplete => self.text_complete.is_empty(),
        }
    }

    /// Every hook is called again, also those that panicked.
    pub(super) fn begin_reply(&mut self) {
        self.all.iter_mut().for_each(|one| one.has_panicked = false);
    }

    /// Runs `stream.delta`.
    pub(super) fn delta(&mut self, at: &At<'_>, bytes: Vec<u8>, on_panic: OnHookPanic) -> Passed {
        let mut passed = Passed {
            bytes,
            ..Passed::default()
        };
        for &index in &self.delta {
            let one = &mut self.all[index];
            if one.has_panicked || passed.bytes.is_empty() {
                continue;
            }
            let mut delta = Delta::new(&passed.bytes);
            if !one.call(|hook| hook.delta(at, &mut delta)) {
                passed.panicked.push(one.name.clone());
                match on_panic {
                    OnHookPanic::Abort => break,
                    OnHookPanic::Continue => continue,
                }
            }
            let is_abort = delta.abort;
            if let Cow::Owned(bytes) = delta.bytes {
                passed.bytes = bytes;
                passed.is_rewritten = true;
            }
            if is_abort {
                passed.aborted_by = Some(one.name.clone());
                break;
            }
        }
        passed
    }

    /// Runs `stream.aborted`.
    pub(super) fn aborted(&mut self, aborted: &Aborted) -> Vec<Answered> {
        let mut answers = Vec::with_capacity(self.aborted.len());
        for &index in &self.aborted {
            let one = &mut self.all[index];
            if one.has_panicked {
                continue;
            }
            let mut answer = Answer::default();
            let has_answered = one.call(|hook| hook.aborted(aborted, &mut answer));
            answers.push(Answered {
                hook: one.name.clone(),
                answer: has_answered.then_some(answer),
            });
        }
        answers
    }

    /// Runs `text.complete`.
    pub(super) fn text_complete(&mut self, at: &At<'_>) -> Passed {
        let mut passed = Passed {
            bytes: at.so_far.to_vec(),
            ..Passed::default()
        };
        for &index in &self.text_complete {
            let one = &mut self.all[index];
            if one.has_panicked {
                continue;
            }
            let mut text = passed.bytes.clone();
            if one.call(|hook| hook.text_complete(at, &mut text)) {
                passed.bytes = text;
            } else {
                passed.panicked.push(one.name.clone());
            }
        }
        passed.is_rewritten = passed.bytes != at.so_far;
        passed
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|one| &one.name);
        f.debug_list().entries(names).finish()
    }
}

impl Registered {
    /// Calls the hook; false if it panicked. What it holds may be broken then, which is why it is not
    /// called again; nothing of ours is, for it was given copies or data that is dropped.
    fn call(&mut self, call: impl FnOnce(&mut dyn Hook)) -> bool {
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut *self.hook)));
        self.has_panicked = called.is_err();
        called.is_ok()
    }
}

/// What the hooks left of some bytes.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) bytes: Vec<u8>,
    pub(super) is_rewritten: bool,
    pub(super) aborted_by: Option<String>,
    pub(super) panicked: Vec<String>,
}

/// What one hook said to an abort; nothing if it panicked.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) hook: String,
    pub(super) answer: Option<Answer>,
}

struct OnDelta<F>(F);

impl<F: FnMut(&At<'_>, &mut Delta<'_>) + Send> Hook for OnDelta<F> {
    fn points(&self) -> &[Point] {
        &[Point::Delta]
    }

    fn delta(&mut self, at: &At<'_>, delta: &mut Delta<'_>) {
        (self.0)(at, delta);
    }
}

struct OnAborted<F>(F);

impl<F: FnMut(&Aborted, &mut Answer) + Send> Hook for OnAborted<F> {
    fn points(&self) -> &[Point] {
        &[Point::Aborted]
    }

    fn aborted(&mut self, aborted: &Aborted, answer: &mut Answer) {
        (self.0)(aborted, answer);
    }
}
