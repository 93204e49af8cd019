//! Reads a conversation into events: what came in, what was said, which calls were made and how
//! they ended. Everything the guide knows, it knows from here.

use nexus_llm::{Content, Conversation, Role};
use nexus_protocol::framing::{self, Frame, Kind, key};
use serde_json::Value;

use crate::persona::Persona;
use crate::task::{self, Purpose};

/// What stands for an empty reply in a conversation that must not hold one.
const NO_REPLY: &str = "(no reply)";

/// Messages for which a list of abilities need not be shown again.
const STILL_KNOWN: usize = 4;

/// Something that came in from outside.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Person {
        text: String,
    },
    Task {
        text: String,
    },
    /// A worker's result; `dispatch` points into [`Scene::dispatches`] when it is one of ours.
    Result {
        status: String,
        text: String,
        dispatch: Option<usize>,
    },
    Agent {
        text: String,
    },
    System {
        text: String,
    },
}

/// One thing that happened, in order.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Input(Input),
    Said,
    /// A call, by its place in [`Scene::calls`].
    Called(usize),
}

/// A tool call and how it ended.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) outcome: Option<Outcome>,
    /// The dispatch this call made, in [`Scene::dispatches`].
    pub(crate) dispatch: Option<usize>,
}

/// What a tool call gave back.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// A worker we started or tried to start.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    pub(crate) task: String,
    pub(crate) purpose: Purpose,
    pub(crate) session: Option<String>,
    pub(crate) state: DispatchState,
    id: Option<String>,
}

/// How far a dispatch got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DispatchState {
    /// No answer is known: the turn was cut off.
    Unknown,
    Refused(String),
    /// The worker runs.
    Running,
    /// The worker ended.
    Ended {
        completed: bool,
        text: String,
    },
}

/// The whole conversation, read.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) persona: Persona,
    pub(crate) events: Vec<Event>,
    pub(crate) calls: Vec<Call>,
    pub(crate) dispatches: Vec<Dispatch>,
    /// Where the part after the last assistant message begins in `events`.
    pub(crate) now: usize,
    /// Calls of the last assistant message that have a result since.
    pub(crate) answered: Vec<usize>,
    /// Something visible was said since the last input.
    pub(crate) has_spoken_in_turn: bool,
    pub(crate) frame: Frame,
    /// The list of abilities was shown within the last few messages of the person.
    pub(crate) explained_lately: bool,
    since_explained: Option<usize>,
    /// The time zone named last; not every frame carries one.
    pub(crate) zone: Option<String>,
    /// What the runtime tells about a project with the newest message.
    pub(crate) project_notes: String,
    tools: Vec<(String, bool)>,
}

impl Scene {
    pub(crate) fn read(conversation: &Conversation) -> Self {
        let is_framed = conversation
            .messages
            .iter()
            .filter(|message| message.role == Role::User)
            .flat_map(|message| &message.content)
            .any(|part| matches!(part, Content::Text { text } if framing::split(text).0.kind().is_some()));
        let tools = conversation
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), takes_object_target(&tool.input_schema)))
            .collect();
        let mut scene = Self {
            persona: Persona::read(&conversation.system),
            events: Vec::new(),
            calls: Vec::new(),
            dispatches: Vec::new(),
            now: 0,
            answered: Vec::new(),
            has_spoken_in_turn: false,
            frame: Frame::default(),
            explained_lately: false,
            since_explained: None,
            zone: None,
            project_notes: String::new(),
            tools,
        };
        for message in &conversation.messages {
            match message.role {
                Role::User => scene.take_user(&message.content, is_framed),
                Role::Assistant => scene.take_reply(&message.content),
            }
        }
        scene
    }

    /// Returns whether a tool may be called.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|(known, _)| known == name)
    }

    /// Returns how this runtime wants a session named in `agent_send`.
    pub(crate) fn target(&self, session: &str) -> Value {
        let as_object = self.tools.iter().any(|(name, as_object)| name == "agent_send" && *as_object);
        if as_object { serde_json::json!({ "session": session }) } else { Value::String(session.to_owned()) }
    }

    /// Returns whether the conversation belongs to a manager.
    pub(crate) fn is_manager(&self) -> bool {
        self.has_tool("wait")
    }

    /// Returns what came in since the last reply.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.events[self.now..].iter().filter_map(|event| match event {
            Event::Input(input) => Some(input),
            Event::Said | Event::Called(_) => None,
        })
    }

    /// Returns a fact of the frame, unless it is empty.
    pub(crate) fn fact(&self, name: &str) -> Option<&str> {
        self.frame.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns whether a skill is installed.
    pub(crate) fn has_skill(&self, name: &str) -> bool {
        self.fact(key::SKILLS).is_some_and(|skills| skills.split(',').any(|skill| skill.trim() == name))
    }

    fn take_reply(&mut self, content: &[Content]) {
        self.answered.clear();
        for part in content {
            match part {
                Content::Text { text } if !text.trim().is_empty() && text.trim() != NO_REPLY => {
                    self.events.push(Event::Said);
                    self.has_spoken_in_turn = true;
                    if text.contains(crate::answer::ABILITIES_LEAD) {
                        self.since_explained = Some(0);
                    }
                }
                Content::ToolUse { id, name, input } => self.take_call(id, name, input),
                Content::Text { .. } | Content::Thinking { .. } | Content::ToolResult { .. } => {}
            }
        }
        self.now = self.events.len();
    }

    fn take_call(&mut self, id: &str, name: &str, input: &Value) {
        let is_dispatch = name == "agent_send" && input.get("op").and_then(Value::as_str) == Some("dispatch");
        let dispatch = is_dispatch.then(|| {
            let text = input.get("text").and_then(Value::as_str).unwrap_or_default();
            self.dispatches.push(Dispatch {
                task: text.to_owned(),
                purpose: task::purpose(text),
                session: None,
                state: DispatchState::Unknown,
                id: None,
            });
            self.dispatches.len() - 1
        });
        self.calls.push(Call {
            id: id.to_owned(),
            name: name.to_owned(),
            input: input.clone(),
            outcome: None,
            dispatch,
        });
        self.events.push(Event::Called(self.calls.len() - 1));
    }

    /// One message may hold several inputs and results: neighbours of one speaker are joined.
    fn take_user(&mut self, content: &[Content], is_framed: bool) {
        for part in content {
            match part {
                Content::ToolResult { tool_use_id, text, is_error } => {
                    self.take_outcome(tool_use_id, text, *is_error)
                }
                Content::Text { text } => self.take_input(text, is_framed),
                Content::Thinking { .. } | Content::ToolUse { .. } => {}
            }
        }
    }

    fn take_outcome(&mut self, id: &str, text: &str, is_error: bool) {
        let Some(at) = self.calls.iter().rposition(|call| call.id == id) else { return };
        self.calls[at].outcome = Some(Outcome { text: text.to_owned(), is_error });
        self.answered.push(at);
        if let Some(dispatch) = self.calls[at].dispatch.and_then(|index| self.dispatches.get_mut(index)) {
            dispatch.take_answer(id, text, is_error);
        }
    }

    fn take_input(&mut self, message: &str, is_framed: bool) {
        let (frame, text) = framing::split(message);
        self.project_notes = project_notes(message, text);
        let text = without_memory(text).to_owned();
        let kind = frame.kind();
        let input = match kind {
            Some(Kind::Message) => Input::Person { text },
            Some(Kind::Task) => Input::Task { text },
            Some(Kind::WorkerResult) => self.take_result(&frame, text),
            Some(Kind::AgentMessage) => Input::Agent { text },
            Some(Kind::System) => Input::System { text },
            // Among framed messages an unframed one is the runtime's summary of older ones.
            None if is_framed => Input::System { text },
            None if self.is_manager() => Input::Person { text },
            None => Input::Task { text },
        };
        if kind.is_some() {
            if let Some(zone) = frame.get(key::ZONE).filter(|zone| !zone.trim().is_empty()) {
                self.zone = Some(zone.trim().to_owned());
            }
            self.frame = frame;
        }
        self.has_spoken_in_turn = false;
        if matches!(input, Input::Person { .. }) {
            self.since_explained = self.since_explained.map(|count| count + 1);
            self.explained_lately = self.since_explained.is_some_and(|count| count <= STILL_KNOWN);
        }
        self.events.push(Event::Input(input));
    }

    fn take_result(&mut self, frame: &Frame, text: String) -> Input {
        let status = frame.get(key::STATUS).unwrap_or("completed").to_owned();
        let id = frame.get(key::DISPATCH);
        let session = frame.get(key::SESSION);
        let place = self.dispatches.iter().rposition(|dispatch| {
            (id.is_some() && dispatch.id.as_deref() == id)
                || (session.is_some() && dispatch.session.as_deref() == session)
        });
        // A runtime may name a dispatch by the id of the call that made it.
        let place = place.or_else(|| {
            self.calls.iter().rev().find(|call| id == Some(call.id.as_str())).and_then(|call| call.dispatch)
        });
        if let Some(dispatch) = place.and_then(|place| self.dispatches.get_mut(place)) {
            dispatch.state = DispatchState::Ended { completed: status == "completed", text: text.clone() };
        }
        Input::Result { status, text, dispatch: place }
    }
}

impl Dispatch {
    fn take_answer(&mut self, call_id: &str, text: &str, is_error: bool) {
        if is_error {
            self.state = if text.to_lowercase().contains("outcome unknown") {
                DispatchState::Unknown
            } else {
                DispatchState::Refused(text.to_owned())
            };
            return;
        }
        let answer: Value = serde_json::from_str(text.trim()).unwrap_or_default();
        let field = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        self.id = field("dispatch_id").or_else(|| Some(call_id.to_owned()));
        self.session = field("spawned_session_label").or_else(|| field("session"));
        self.state = DispatchState::Running;
    }

    /// Returns why the dispatch came to nothing, if it did.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.state {
            DispatchState::Refused(reason) => Some(reason),
            DispatchState::Ended { completed: false, text } => Some(text),
            DispatchState::Ended { completed: true, text } if text.contains(crate::worker::FAILED) => {
                Some(text)
            }
            DispatchState::Ended { .. } | DispatchState::Unknown | DispatchState::Running => None,
        }
    }
}

fn takes_object_target(schema: &Value) -> bool {
    schema.pointer("/properties/target/type").and_then(Value::as_str) == Some("object")
}

/// Returns the block about a project from what stands before the words.
fn project_notes(message: &str, words: &str) -> String {
    let before = message.strip_suffix(words).unwrap_or_default();
    let block = before.split_once("<project>\n").and_then(|(_, rest)| rest.split_once("</project>"));
    block.map(|(notes, _)| notes.to_owned()).unwrap_or_default()
}

/// Skips the block of remembered things that may stand before the words.
fn without_memory(text: &str) -> &str {
    text.trim_start()
        .strip_prefix("<memory_context>")
        .and_then(|rest| rest.split_once("</memory_context>"))
        .map_or(text, |(_, after)| after.trim_start())
}
