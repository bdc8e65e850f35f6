//! The events of a conversation as events of `tracing`.
//!
//! Every event has the target `ttsr`. Fields that begin with `gen_ai.` follow OpenTelemetry's semantic conventions;
//! the others begin with `ttsr.`. No field contains text of a reply, of a prompt or of a rule's message.

use std::time::Duration;

use tracing::{Level, event};

use super::aborted::AbortStage;
use super::event::{AbortRecord, DecisionEvent, FinishRecord, LoopEvent};
use super::event_tracker::EventTracker;
use super::step::Step;
use crate::{Action, Channel};

/// Emits an event with the fields that all events have.
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

/// The identity of a conversation, which every event carries. Most subscribers leave empty fields out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// `gen_ai.conversation.id`
    pub session: String,
    /// `gen_ai.provider.name`
    pub provider: String,
    /// `gen_ai.request.model`
    pub model: String,
    /// `gen_ai.agent.name`
    pub agent: String,
}

/// Emits an event for each step of a [`Processor`](super::Processor) that has one.
///
/// A metrics layer adds up the fields `counter.ttsr.decisions`, `counter.ttsr.aborts`, `counter.ttsr.bytes_saved` and
/// `counter.ttsr.unscanned_bytes`. The fields `histogram.ttsr.first_token` and `histogram.ttsr.duration` are in
/// milliseconds.
///
/// # Example: a tracer beside a loop
/// ```
/// use ttsr::harness::{
///     Cancel, Hooks, Processor, Request, Run, Scripted, ScriptedReply, Settings, TraceContext, Tracer,
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
/// let mut tracer = Tracer::new(TraceContext { model: "a-model".into(), ..TraceContext::default() });
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let mut provider = Scripted::new([ScriptedReply::default().text("Hello!").finish("stop")]);
/// let request = Request::new("a-model", Vec::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let mut run = Run::begin(&mut processor, &mut provider, request, "msg_1", Cancel::default());
/// let began = std::time::Instant::now();
/// while let Some(step) = run.next().await {
///     tracer.step(began.elapsed(), &step);
/// }
/// # });
/// // `log` keeps the messages of what a subscriber was told.
/// let told = log.0.lock().unwrap();
/// assert_eq!(told[..2], ["request", "first token"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    context: TraceContext,
    tracker: EventTracker,
}

impl Tracer {
    /// Returns a tracer for a conversation.
    #[must_use]
    pub fn new(context: TraceContext) -> Tracer {
        Tracer {
            context,
            tracker: EventTracker::default(),
        }
    }

    /// Emits the event of a step, if it has one. `now` is the time of a clock that does not go back.
    pub fn step(&mut self, now: Duration, step: &Step) {
        if let Some(event) = self.tracker.track(now, step) {
            self.emit(&event);
        }
    }

    fn emit(&self, event: &LoopEvent) {
        match event {
            LoopEvent::Send {
                attempt, messages, ..
            } => emit!(self, DEBUG: "request"; ttsr.attempt = attempt, ttsr.messages = messages),
            LoopEvent::FirstToken { after } => {
                emit!(self, DEBUG: "first token"; histogram.ttsr.first_token = after);
            }
            LoopEvent::Decision(decision) => self.emit_decision(decision),
            LoopEvent::Aborted(aborted) => self.emit_aborted(aborted),
            LoopEvent::ToolCall(part) => emit!(self, DEBUG: "tool call";
                gen_ai.tool.name = or_empty(&part.tool), gen_ai.tool.call.id = or_empty(&part.call)),
            LoopEvent::DoomLoop { part, times } => emit!(self, WARN: "doom loop";
                gen_ai.tool.name = or_empty(&part.tool), ttsr.times = times),
            LoopEvent::Usage { input, output } => emit!(self, DEBUG: "usage";
                gen_ai.usage.input_tokens = input, gen_ai.usage.output_tokens = output),
            LoopEvent::SubAgent {
                session,
                parent,
                call,
                by,
            } => emit!(self, INFO: "sub-agent";
                ttsr.child = session.as_str(), ttsr.parent = parent.as_str(),
                gen_ai.tool.call.id = call.as_str(), ttsr.by = by.as_str()),
            LoopEvent::Unscanned { bytes, kind } => emit!(self, WARN: "unscanned";
                ttsr.kind = kind.as_str(), counter.ttsr.unscanned_bytes = bytes),
            LoopEvent::Finish(finish) => self.emit_finish(finish),
            LoopEvent::StepStarted | LoopEvent::StepFinished { .. } | LoopEvent::Unknown => {}
            other => emit!(self, INFO: "note";
                ttsr.what = other.name(), ttsr.by = other.by().unwrap_or_default()),
        }
    }

    fn emit_decision(&self, decision: &DecisionEvent) {
        let part = &decision.part;
        let channel = part.channel.map_or("", Channel::name);
        let counted = u64::from(!decision.is_suppressed());
        // The level is part of an event's static metadata, so each level needs a call site of its own.
        macro_rules! at_level {
            ($level:ident) => {
                emit!(self, $level: "decision";
                    ttsr.rule.id = decision.rule_or_limit(), ttsr.action = decision.action.name(),
                    ttsr.match.offset = decision.end.unwrap_or(decision.decided),
                    ttsr.decided = decision.decided, ttsr.turn = decision.turn,
                    ttsr.attempt = decision.attempt, ttsr.part = part.name.as_str(),
                    ttsr.channel = channel, gen_ai.tool.name = or_empty(&part.tool),
                    ttsr.suppressed = or_empty(&decision.suppressed),
                    counter.ttsr.decisions = counted)
            };
        }
        match (decision.is_suppressed(), decision.action) {
            (true, _) | (_, Action::Observe) => at_level!(DEBUG),
            (false, action) if action.cuts() => at_level!(WARN),
            (false, _) => at_level!(INFO),
        }
    }

    fn emit_aborted(&self, aborted: &AbortRecord) {
        let stage = aborted.stage.map_or("", AbortStage::name);
        emit!(self, WARN: "aborted";
            ttsr.reason = aborted.reason.name(), ttsr.source = aborted.source.as_str(),
            ttsr.by = or_empty(&aborted.by), ttsr.attempt = aborted.attempt,
            ttsr.message = aborted.message.as_str(), ttsr.model = or_empty(&aborted.model),
            ttsr.prompt = aborted.prompt.as_str(), ttsr.stage = stage, ttsr.bytes = aborted.bytes,
            ttsr.calls = aborted.calls, ttsr.retry = aborted.retry, counter.ttsr.aborts = 1_u64);
    }

    fn emit_finish(&self, finish: &FinishRecord) {
        let rate = finish.token_rate.unwrap_or_default() as f64 / 1000.0;
        emit!(self, INFO: "finish";
            ttsr.complete = finish.complete,
            gen_ai.response.finish_reasons = finish.reason.as_str(),
            ttsr.attempts = finish.attempts, ttsr.bytes = finish.bytes,
            ttsr.first_token = finish.first_token.unwrap_or_default(),
            ttsr.tokens_per_second = rate, histogram.ttsr.duration = finish.millis,
            counter.ttsr.bytes_saved = finish.saved);
    }
}

fn or_empty(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or_default()
}
