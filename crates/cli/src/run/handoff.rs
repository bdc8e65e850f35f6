//! Handoffs to a new session: the names of session files, pending drafts, and access to earlier sessions.

use std::collections::HashMap;
use std::fs;
use std::future::ready;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;

use ttsr::harness::Message;
use ttsr_agent::handoff::{
    DraftStep, Handoff, HandoffTracker, IncomingMessage, ProjectFiles, StoredSessions,
    TranscriptFuture, TranscriptMessage, Transcripts,
};

use super::screen::TurnScreen;
use super::{Options, TurnOutput};
use crate::CommandError;

/// Extension of the file with a pending draft, appended to the session's file name.
const DRAFT: &str = "draft";

/// Extension of session files; not part of the session id.
const SESSION: &str = "ttsr";

/// A session of `ttsr run`.
#[derive(Clone, Debug)]
pub(super) struct RunSession {
    /// The session id: the file name without the extension.
    pub(super) id: String,
    /// The session file; `None` if the session is not stored.
    pub(super) file: Option<PathBuf>,
}

impl RunSession {
    /// Returns the session that the options name.
    pub(super) fn from_options(options: &Options) -> RunSession {
        let file = options.session.clone();
        let id = file.as_deref().and_then(id).unwrap_or_else(|| "run".into());
        RunSession { id, file }
    }

    /// Returns the session after this one: `talk-2` after `talk`, or the first unused number.
    fn next(&self) -> RunSession {
        let (base, number) = match self.id.rsplit_once('-') {
            Some((base, number)) => (base, number.parse::<u32>().ok()),
            None => (self.id.as_str(), None),
        };
        let base = if number.is_some() { base } else { &self.id };
        let first = number.unwrap_or(1).saturating_add(1);
        let places = (first..).map(|number| {
            let id = format!("{base}-{number}");
            let file = self.file.as_deref().map(|file| {
                let mut next = file.with_file_name(&id).into_os_string();
                if file.extension().is_some_and(|ending| ending == SESSION) {
                    next.push(".");
                    next.push(SESSION);
                }
                PathBuf::from(next)
            });
            RunSession { id, file }
        });
        let mut free = places.filter(|place| {
            let taken = |path: &Path| path.exists() || draft_of(path).exists();
            !place.file.as_deref().is_some_and(taken)
        });
        free.next().unwrap_or_else(|| self.clone())
    }

    /// Returns the draft that is pending for the session.
    pub(super) fn draft(&self) -> Result<String, CommandError> {
        let Some(file) = &self.file else {
            return Err(CommandError::Message(
                "no prompt: pass one, or the `--session` of a pending draft".into(),
            ));
        };
        let draft = draft_of(file);
        fs::read_to_string(&draft).map_err(|error| {
            CommandError::Message(format!(
                "no prompt, and the draft {} cannot be read: {error}",
                draft.display()
            ))
        })
    }

    /// Deletes the draft after it was sent.
    pub(super) fn forget_draft(&self) -> io::Result<()> {
        let draft = self.file.as_deref().map(draft_of);
        match draft.map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn id(file: &Path) -> Option<String> {
    let name = match file.extension() {
        Some(ending) if ending == SESSION => file.file_stem(),
        _ => file.file_name(),
    };
    Some(name?.to_string_lossy().into_owned())
}

fn draft_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(DRAFT);
    name.into()
}

/// Opens the session after `from` and writes the handoff into its draft file, where the user can edit it.
pub(super) fn open(
    handoff: &Handoff,
    from: &RunSession,
    screen: &mut TurnScreen,
) -> Result<RunSession, CommandError> {
    let next = from.next();
    for step in DraftStep::steps(handoff) {
        match step {
            DraftStep::OpenSession => {
                if let Some(file) = &next.file {
                    let opened = ttsr_agent::store::Store::open(file.clone());
                    let (store, _) =
                        opened.map_err(|error| CommandError::Message(error.to_string()))?;
                    let closed = store.close();
                    closed.map_err(|error| CommandError::Message(error.to_string()))?;
                }
                screen.show(&TurnOutput::SessionOpened {
                    session: next.id.clone(),
                    file: next.file.clone(),
                })?;
            }
            DraftStep::Wait(time) => sleep(time),
            DraftStep::Append(text) => {
                let file = next.file.as_deref().map(draft_of);
                if let Some(file) = &file {
                    fs::write(file, &text).map_err(|error| {
                        let file = file.display();
                        CommandError::Message(format!(
                            "the draft {file} cannot be written: {error}"
                        ))
                    })?;
                }
                screen.show(&TurnOutput::Draft { text, file })?;
            }
            DraftStep::Toast { text, lasts } => screen.show(&TurnOutput::Toast { text, lasts })?,
            _ => {}
        }
    }
    Ok(next)
}

/// Returns the files that a continuation prompt refers to, as the message before it. Once per session.
pub(super) fn attached(
    options: &Options,
    place: &RunSession,
    earlier: &[Message],
    prompt: &Message,
) -> Option<Message> {
    let mut handoffs = HandoffTracker::default();
    handoffs.resume_session(&place.id, earlier);
    let root = options.tools.as_deref().unwrap_or(Path::new("."));
    let files = ProjectFiles::new(root).ok()?;
    let model = options.models.first().map_or("", String::as_str);
    let arrived = IncomingMessage {
        session: &place.id,
        model,
        agent: "",
        content: &prompt.content,
    };
    let injection = handoffs.on_message(&arrived, &files)?;
    Some(injection.message())
}

/// The sessions in the folder of this one's file, and the sessions of this process that are not stored.
#[derive(Debug, Default)]
pub(super) struct EarlierSessions {
    folder: Option<PathBuf>,
    in_memory: HashMap<String, Vec<TranscriptMessage>>,
}

impl EarlierSessions {
    pub(super) fn next_to_session(place: &RunSession) -> EarlierSessions {
        let folder = place.file.as_deref().map(|file| {
            let parent = file
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            parent.unwrap_or(Path::new(".")).to_owned()
        });
        EarlierSessions {
            folder,
            ..EarlierSessions::default()
        }
    }

    /// Remembers the messages of a session that has no file.
    pub(super) fn remember(&mut self, place: &RunSession, messages: &[Message]) {
        if place.file.is_none() {
            let said = messages.iter().filter_map(TranscriptMessage::from_message);
            let session = self.in_memory.entry(place.id.clone()).or_default();
            session.extend(said);
        }
    }
}

impl Transcripts for EarlierSessions {
    fn recent<'a>(&'a self, session: &'a str, most: usize) -> TranscriptFuture<'a> {
        let recent = match (self.in_memory.get(session), &self.folder) {
            (Some(said), _) => Ok(said[said.len().saturating_sub(most)..].to_vec()),
            (None, Some(folder)) => StoredSessions::new(folder).read(session, most),
            (None, None) => Err("there is no such session".to_owned()),
        };
        Box::pin(ready(recent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_session_has_the_next_number() {
        for (file, id, next, next_file) in [
            ("/none/talk.ttsr", "talk", "talk-2", "/none/talk-2.ttsr"),
            ("/none/talk-2.ttsr", "talk-2", "talk-3", "/none/talk-3.ttsr"),
            ("/none/a-b.ttsr", "a-b", "a-b-2", "/none/a-b-2.ttsr"),
            ("/none/v1.2.ttsr", "v1.2", "v1.2-2", "/none/v1.2-2.ttsr"),
        ] {
            let file = PathBuf::from(file);
            let place = RunSession {
                id: super::id(&file).unwrap(),
                file: Some(file),
            };
            assert_eq!(place.id, id);
            let following = place.next();
            assert_eq!(following.id, next);
            assert_eq!(following.file, Some(PathBuf::from(next_file)));
        }
        let memory = RunSession {
            id: "run".into(),
            file: None,
        };
        assert_eq!(memory.next().id, "run-2");
    }
}
