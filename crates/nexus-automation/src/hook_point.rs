//! The named places at which automations can run.

/// A place at which automations can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookPoint {
    /// An event is parsed and stored.
    AfterReceiveEvent,
    /// The principal is known.
    AfterResolveIdentity,
    /// Access is decided.
    AfterResolveAccess,
    /// The automation stage itself.
    RunAutomations,
    /// The context is ready.
    AfterAssembleContext,
    /// A worker's context is ready and its engine has not started.
    WorkerPreExecution,
    /// Any agent's turn has ended.
    AfterRunAgent,
    /// A reply was sent.
    AfterDeliverResponse,
    /// The request is closing.
    Finalize,
    /// An agent ran a command.
    CommandExecute,
    /// The user began anew.
    CommandNew,
    /// The user reset a session.
    CommandReset,
    /// The user stopped a run.
    CommandStop,
    /// The user asked for compaction.
    CommandCompact,
    /// An agent runs for the first time.
    AgentBootstrap,
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// The daemon is ready.
    RuntimeStartup,
    /// The daemon is going down.
    RuntimeShutdown,
    /// Memory closed an episode.
    EpisodeCreated,
    /// Memory decided to keep an episode.
    EpisodeRetained,
}

impl HookPoint {
    /// Every hook point, in the order a request meets them.
    pub const ALL: [Self; 21] = [
        Self::AfterReceiveEvent,
        Self::AfterResolveIdentity,
        Self::AfterResolveAccess,
        Self::RunAutomations,
        Self::AfterAssembleContext,
        Self::WorkerPreExecution,
        Self::AfterRunAgent,
        Self::AfterDeliverResponse,
        Self::Finalize,
        Self::CommandExecute,
        Self::CommandNew,
        Self::CommandReset,
        Self::CommandStop,
        Self::CommandCompact,
        Self::AgentBootstrap,
        Self::SessionStart,
        Self::SessionEnd,
        Self::RuntimeStartup,
        Self::RuntimeShutdown,
        Self::EpisodeCreated,
        Self::EpisodeRetained,
    ];

    /// Returns its place in [`HookPoint::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name used in rows and commands.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterReceiveEvent => "after:receiveEvent",
            Self::AfterResolveIdentity => "after:resolveIdentity",
            Self::AfterResolveAccess => "after:resolveAccess",
            Self::RunAutomations => "runAutomations",
            Self::AfterAssembleContext => "after:assembleContext",
            Self::WorkerPreExecution => "worker:pre_execution",
            Self::AfterRunAgent => "after:runAgent",
            Self::AfterDeliverResponse => "after:deliverResponse",
            Self::Finalize => "finalize",
            Self::CommandExecute => "command:execute",
            Self::CommandNew => "command:new",
            Self::CommandReset => "command:reset",
            Self::CommandStop => "command:stop",
            Self::CommandCompact => "command:compact",
            Self::AgentBootstrap => "agent:bootstrap",
            Self::SessionStart => "session:start",
            Self::SessionEnd => "session:end",
            Self::RuntimeStartup => "runtime:startup",
            Self::RuntimeShutdown => "runtime:shutdown",
            Self::EpisodeCreated => "episode:created",
            Self::EpisodeRetained => "episode:retained",
        }
    }

    /// Reads a name. An empty one is the automation stage, as rows without a hook point mean.
    pub fn parse(name: &str) -> Option<Self> {
        if name.is_empty() {
            return Some(Self::RunAutomations);
        }
        Self::ALL.into_iter().find(|hook| hook.as_str() == name)
    }

    /// Tells whether something waits at this place, so that an automation may block there.
    pub const fn may_block(self) -> bool {
        match self {
            Self::AfterReceiveEvent
            | Self::AfterResolveIdentity
            | Self::AfterResolveAccess
            | Self::RunAutomations
            | Self::AfterAssembleContext
            | Self::WorkerPreExecution
            | Self::AfterRunAgent
            | Self::AfterDeliverResponse
            | Self::AgentBootstrap => true,
            Self::Finalize
            | Self::CommandExecute
            | Self::CommandNew
            | Self::CommandReset
            | Self::CommandStop
            | Self::CommandCompact
            | Self::SessionStart
            | Self::SessionEnd
            | Self::RuntimeStartup
            | Self::RuntimeShutdown
            | Self::EpisodeCreated
            | Self::EpisodeRetained => false,
        }
    }
}

impl std::fmt::Display for HookPoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}
