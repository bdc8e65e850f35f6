//! Going on in a new session: which file it has, where its draft waits, and what of earlier sessions can be read.

use std::collections::HashMap;
use std::fs;
use std::future::ready;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;

use ttsr::harness::Message;
use ttsr_agent::handoff::{
    Arrived, Draft, Handoff, Handoffs, ProjectFiles, Said, StoredSessions, TranscriptFuture,
    Transcripts,
};

use super::screen::Screen;
use super::{Options, Shown};
use crate::Stop;

/// The ending of the file in which a draft waits, after the name of its session's file.
const DRAFT: &str = "draft";

/// The ending of session files that are no part of the session's id.
const SESSION: &str = "ttsr";

/// A session of `ttsr run`.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its id: the name of its file, without the ending.
    pub(super) id: String,
    /// Its file; none if the session is not kept.
    pub(super) file: Option<PathBuf>,
}

impl Place {
    /// The session that the options name.
    pub(super) fn of(options: &Options) -> Place {
        let file = options.session.clone();
        let id = file.as_deref().and_then(id).unwrap_or_else(|| "run".into());
        Place { id, file }
    }

    /// The session that follows this one: `talk-2` after `talk`, or the first number that is free.
    fn next(&self) -> Place {
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
            Place { id, file }
        });
        let mut free = places.filter(|place| {
            let taken = |path: &Path| path.exists() || draft_of(path).exists();
            !place.file.as_deref().is_some_and(taken)
        });
        free.next().unwrap_or_else(|| self.clone())
    }

    /// The draft that waits for the session.
    pub(super) fn draft(&self) -> Result<String, Stop> {
        let Some(file) = &self.file else {
            return Err(Stop::Because(
                "there is no prompt: give one, or the `--session` for which a draft waits".into(),
            ));
        };
        let draft = draft_of(file);
        fs::read_to_string(&draft).map_err(|error| {
            Stop::Because(format!(
                "there is no prompt, and the draft {} cannot be read: {error}",
                draft.display()
            ))
        })
    }

    /// The draft is sent: it does not wait any more.
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

/// Opens the session that follows `from`, with the handoff as its draft: the file of the draft, which a person edits,
/// and what is shown.
pub(super) fn open(handoff: &Handoff, from: &Place, screen: &mut Screen) -> Result<Place, Stop> {
    let next = from.next();
    for step in Draft::steps(handoff) {
        match step {
            Draft::OpenSession => {
                if let Some(file) = &next.file {
                    let opened = ttsr_agent::store::Store::open(file.clone());
                    let (store, _) = opened.map_err(|error| Stop::Because(error.to_string()))?;
                    let closed = store.close();
                    closed.map_err(|error| Stop::Because(error.to_string()))?;
                }
                screen.show(&Shown::SessionOpened {
                    session: next.id.clone(),
                    file: next.file.clone(),
                })?;
            }
            Draft::Wait(time) => sleep(time),
            Draft::Append(text) => {
                let file = next.file.as_deref().map(draft_of);
                if let Some(file) = &file {
                    fs::write(file, &text).map_err(|error| {
                        let file = file.display();
                        Stop::Because(format!("the draft {file} cannot be written: {error}"))
                    })?;
                }
                screen.show(&Shown::Draft { text, file })?;
            }
            Draft::Toast { text, lasts } => screen.show(&Shown::Toast { text, lasts })?,
            _ => {}
        }
    }
    Ok(next)
}

/// The files that a continuation prompt refers to, as the message before it; once a session.
pub(super) fn attached(
    options: &Options,
    place: &Place,
    earlier: &[Message],
    prompt: &Message,
) -> Option<Message> {
    let mut handoffs = Handoffs::default();
    handoffs.take_up(&place.id, earlier);
    let root = options.tools.as_deref().unwrap_or(Path::new("."));
    let files = ProjectFiles::new(root).ok()?;
    let model = options.models.first().map_or("", String::as_str);
    let arrived = Arrived {
        session: &place.id,
        model,
        agent: "",
        content: &prompt.content,
    };
    let injection = handoffs.arrived(&arrived, &files)?;
    Some(injection.message())
}

/// The sessions beside the file of this one, and those of this process that are not kept.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    folder: Option<PathBuf>,
    in_memory: HashMap<String, Vec<Said>>,
}

impl Sessions {
    pub(super) fn beside(place: &Place) -> Sessions {
        let folder = place.file.as_deref().map(|file| {
            let parent = file
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            parent.unwrap_or(Path::new(".")).to_owned()
        });
        Sessions {
            folder,
            ..Sessions::default()
        }
    }

    /// Keeps what was said in a session that has no file.
    pub(super) fn remember(&mut self, place: &Place, messages: &[Message]) {
        if place.file.is_none() {
            let said = messages.iter().filter_map(Said::from_message);
            let session = self.in_memory.entry(place.id.clone()).or_default();
            session.extend(said);
        }
    }
}

impl Transcripts for Sessions {
    fn recent<'a>(&'a mut self, session: &'a str, most: usize) -> TranscriptFuture<'a> {
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
            let place = Place {
                id: super::id(&file).unwrap(),
                file: Some(file),
            };
            assert_eq!(place.id, id);
            let following = place.next();
            assert_eq!(following.id, next);
            assert_eq!(following.file, Some(PathBuf::from(next_file)));
        }
        let memory = Place {
            id: "run".into(),
            file: None,
        };
        assert_eq!(memory.next().id, "run-2");
    }
}
