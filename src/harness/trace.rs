//! What happens in a conversation, as events of `tracing`.
//!
//! Every event has the target `ttsr` and names its fields as follows: `ttsr.` for what is ours, `gen_ai.` for
//! what OpenTelemetry has names for. No text of a reply, of a prompt or of a rule's message is in any of them.

use std::time::Duration;

use tracing::{Level, event};

use super::log::{Finished, Journal, Judged, LogEvent};
use super::step::Step;
use crate::{Action, Channel, Pack};

/// An event, and the one place for what every event says.
macro_rules! emit {
    ($tracer:ident, $level:ident: $name:literal; $($fields:tt)*) => {
        event!(target: "ttsr", Level::$level,
            gen_ai.conversation.id = $tracer.context.session.as_str(),
            gen_ai.provider.name = $tracer.context.provider.as_str(),
            gen_ai.request.model = $tracer.context.model.as_str(),
            gen_ai.agent.name = $tracer.context.agent.as_str(),
            $($fields)*, $name)
    };
}

/// Whose conversation it is: on every event. What is empty is left out by most subscribers, and is there
/// as an empty string all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// `gen_ai.conversation.id`
    pub session: String,
    /// `gen_ai.provider.name`
    pub provider: String,
    /// `gen_ai.request.model`
    pub model: String,
    /// `gen_ai.agent.name`
    pub agent: String,
}

/// Emits what the steps of a [`Processor`](super::Processor) mean.
///
/// Counters are fields that a metrics layer adds up: `counter.ttsr.decisions`, `counter.ttsr.aborts`,
/// `counter.ttsr.bytes_saved`, `counter.ttsr.unscanned_bytes`; `histogram.ttsr.first_token` and
/// `histogram.ttsr.duration` are in milliseconds.
///
/// # Example: a tracer beside a loop
/// ```
/// use ttsr::harness::{
///     Cancel, Context, Hooks, Processor, Request, Run, Script, Scripted, Settings, Tracer,
/// };
/// # use std::sync::{Arc, Mutex};
/// # use tracing::{Event, Metadata, Subscriber, field::{Field, Visit}, span};
/// # #[derive(Clone, Default)]
/// # struct Log(Arc<Mutex<Vec<String>>>);
/// # struct Message<'a>(&'a Log);
/// # impl Visit for Message<'_> {
/// #     fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
/// #         if field.name() == "message" {
/// #             self.0.0.lock().unwrap().push(format!("{value:?}"));
/// #         }
/// #     }
/// # }
/// # impl Subscriber for Log {
/// #     fn enabled(&self, _: &Metadata<'_>) -> bool {
/// #         true
/// #     }
/// #     fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
/// #         span::Id::from_u64(1)
/// #     }
/// #     fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
/// #     fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
/// #     fn event(&self, event: &Event<'_>) {
/// #         event.record(&mut Message(self));
/// #     }
/// #     fn enter(&self, _: &span::Id) {}
/// #     fn exit(&self, _: &span::Id) {}
/// # }
/// # let log = Log::default();
/// # let _guard = tracing::subscriber::set_default(log.clone());
/// let pack = ttsr::Pack::builtin("std/secrets")?;
/// let mut tracer = Tracer::new(Context { model: "a-model".into(), ..Context::default() });
/// let mut processor = Processor::new(pack.session(), Hooks::default(), Settings::default());
/// let mut provider = Scripted::new([Script::default().text("Hello!").finish("stop")]);
/// let request = Request::new("a-model", Vec::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let mut run = Run::begin(&mut processor, &mut provider, request, "msg_1", Cancel::default());
/// let began = std::time::Instant::now();
/// while let Some(step) = run.next().await {
///     tracer.step(began.elapsed(), &step, run.session().pack());
/// }
/// # });
/// // `log` keeps the messages of what a subscriber was told.
/// let told = log.0.lock().unwrap();
/// assert_eq!(told[..2], ["request", "first token"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    context: Context,
    journal: Journal,
}

impl Tracer {
    /// A tracer for that conversation.
    #[must_use]
    pub fn new(context: Context) -> Tracer {
        Tracer {
            context,
            journal: Journal::default(),
        }
    }

    /// Emits what a step means. `now` is the time of any clock that does not go back.
    pub fn step(&mut self, now: Duration, step: &Step, pack: &Pack) {
        for event in self.journal.note(now, step, pack) {
            self.emit(&event);
        }
    }

    fn emit(&self, event: &LogEvent) {
        match event {
            LogEvent::Send {
                attempt, messages, ..
            } => emit!(self, DEBUG: "request"; ttsr.attempt = attempt, ttsr.messages = messages),
            LogEvent::FirstToken { after } => {
                emit!(self, DEBUG: "first token"; histogram.ttsr.first_token = after);
            }
            LogEvent::Decision(judged) => self.decision(judged),
            LogEvent::Aborted {
                reason,
                source,
                by,
                attempt,
                message,
                model,
                prompt,
                stage,
                bytes,
                calls,
                retry,
            } => emit!(self, WARN: "aborted";
                ttsr.reason = reason.as_str(), ttsr.source = source.as_str(), ttsr.by = or_empty(by),
                ttsr.attempt = attempt, ttsr.message = message.as_str(), ttsr.model = or_empty(model),
                ttsr.prompt = prompt.as_str(), ttsr.stage = stage.as_str(), ttsr.bytes = bytes, ttsr.calls = calls, ttsr.retry = retry,
                counter.ttsr.aborts = 1_u64),
            LogEvent::ToolCall { tool, call } => emit!(self, DEBUG: "tool call";
                gen_ai.tool.name = or_empty(tool), gen_ai.tool.call.id = or_empty(call)),
            LogEvent::DoomLoop { tool, times } => emit!(self, WARN: "doom loop";
                gen_ai.tool.name = or_empty(tool), ttsr.times = times),
            LogEvent::Usage { input, output } => emit!(self, DEBUG: "usage";
                gen_ai.usage.input_tokens = input, gen_ai.usage.output_tokens = output),
            LogEvent::SubAgent {
                session,
                parent,
                call,
                by,
            } => emit!(self, INFO: "sub-agent";
                ttsr.child = session.as_str(), ttsr.parent = parent.as_str(),
                gen_ai.tool.call.id = call.as_str(), ttsr.by = by.as_str()),
            LogEvent::Unscanned { bytes, of } => emit!(self, WARN: "unscanned";
                ttsr.kind = of.as_str(), counter.ttsr.unscanned_bytes = bytes),
            LogEvent::Note { what, by } => emit!(self, INFO: "note";
                ttsr.what = what.as_str(), ttsr.by = or_empty(by)),
            LogEvent::Finish(finished) => self.finish(finished),
            LogEvent::Unknown => {}
        }
    }

    fn decision(&self, judged: &Judged) {
        let rule = judged.rule.as_deref().or(judged.limit.as_deref());
        let rule = rule.unwrap_or_default();
        let channel = judged.channel.map_or("", Channel::name);
        let counted = u64::from(judged.suppressed.is_none());
        // Levels are part of where an event is made, so there is a place for each.
        macro_rules! decided {
            ($level:ident) => {
                emit!(self, $level: "decision";
                    ttsr.rule.id = rule, ttsr.action = judged.action.name(),
                    ttsr.match.offset = judged.end.unwrap_or(judged.decided),
                    ttsr.decided = judged.decided, ttsr.turn = judged.turn,
                    ttsr.attempt = judged.attempt, ttsr.part = judged.part.as_str(),
                    ttsr.channel = channel, gen_ai.tool.name = or_empty(&judged.tool),
                    ttsr.suppressed = or_empty(&judged.suppressed),
                    counter.ttsr.decisions = counted)
            };
        }
        match (&judged.suppressed, judged.action) {
            (Some(_), _) | (_, Action::Observe) => decided!(DEBUG),
            (None, action) if action.cuts() => decided!(WARN),
            (None, _) => decided!(INFO),
        }
    }

    fn finish(&self, finished: &Finished) {
        let rate = finished.token_rate.unwrap_or_default() as f64 / 1000.0;
        emit!(self, INFO: "finish";
            ttsr.complete = finished.complete,
            gen_ai.response.finish_reasons = finished.reason.as_str(),
            ttsr.attempts = finished.attempts, ttsr.bytes = finished.bytes,
            ttsr.first_token = finished.first_token.unwrap_or_default(),
            ttsr.tokens_per_second = rate, histogram.ttsr.duration = finished.millis,
            counter.ttsr.bytes_saved = finished.saved);
    }
}

fn or_empty(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or_default()
}
