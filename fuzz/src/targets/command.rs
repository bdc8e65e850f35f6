//! The events of a shell text are the same under every split, and events refer to commands that have begun.

use ttsr_views::chunk::Chunk;
use ttsr_views::command::{
    CommandEvent, CommandId, CommandLimits, CommandReader, CommandSink, ShellSyntax,
};

/// Events as text, without the bytes of code, whose cuts follow those of the input.
#[derive(Default, PartialEq, Debug)]
struct Events {
    entries: Vec<String>,
    code: Vec<u8>,
    /// The command whose code is open.
    open: Option<CommandId>,
    begun: u64,
    decided: u64,
}

impl CommandSink for Events {
    fn event(&mut self, event: CommandEvent<'_>, decided: u64) {
        assert!(self.decided <= decided);
        self.decided = decided;
        match event {
            CommandEvent::Code { command, .. } => {
                let open = self.open.replace(command);
                assert!(open.is_none_or(|open| open == command));
            }
            CommandEvent::CodeEnd { command } => {
                let open = self.open.take();
                assert!(open.is_none_or(|open| open == command));
            }
            _ => assert_eq!(self.open, None, "no other event comes within code"),
        }
        match event {
            CommandEvent::Begin {
                command: CommandId(id),
                ..
            } => {
                self.begun += 1;
                assert_eq!(id, self.begun);
            }
            CommandEvent::Code { chunk, .. } => return self.code.extend_from_slice(chunk.bytes),
            CommandEvent::Word(ref word) => assert!(word.command.0 <= self.begun),
            _ => {}
        }
        self.entries.push(format!("{decided} {event:?}"));
    }
}

// Layout of the input: a byte for the limits and the syntax, a byte for the cuts, the text.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [small, cuts, text @ ..] = data else {
        return;
    };
    let small = usize::from(*small);
    let mut limits = CommandLimits::default();
    if small < 128 {
        limits = CommandLimits {
            depth: 1 + small % 5,
            scripts: small % 3,
            word: small,
            wrappers: small % 7,
            heredocs: small % 2,
            expansions: small % 4,
        };
    }
    let syntax = match small % 8 {
        6 => ShellSyntax::PowerShell,
        7 => ShellSyntax::Cmd,
        _ => ShellSyntax::Posix,
    };
    let read = |step: usize| {
        let mut reader = CommandReader::with_syntax(limits, syntax);
        let mut events = Events::default();
        for (index, delta) in text.chunks(step).enumerate() {
            reader.push(&Chunk::verbatim(delta, (index * step) as u64), &mut events);
        }
        reader.finish(&mut events);
        (events, reader.counters())
    };
    let whole = read(text.len().max(1));
    assert_eq!(read(1), whole);
    assert_eq!(read(usize::from(*cuts) % 17 + 2), whole);
}
