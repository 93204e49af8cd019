//! The named places at which automations can run.

use nexus_base::words;

words! {
    /// A place at which automations can run.
    #[derive(PartialOrd, Ord)]
    pub enum HookPoint {
        /// An event is parsed and stored.
        AfterReceiveEvent = "after:receiveEvent",
        /// The principal is known.
        AfterResolveIdentity = "after:resolveIdentity",
        /// Access is decided.
        AfterResolveAccess = "after:resolveAccess",
        /// The automation stage itself.
        RunAutomations = "runAutomations",
        /// The context is ready.
        AfterAssembleContext = "after:assembleContext",
        /// A worker's context is ready and its engine has not started.
        WorkerPreExecution = "worker:pre_execution",
        /// Any agent's turn has ended.
        AfterRunAgent = "after:runAgent",
        /// A reply was sent.
        AfterDeliverResponse = "after:deliverResponse",
        /// The request is closing.
        Finalize = "finalize",
        /// An agent ran a command.
        CommandExecute = "command:execute",
        /// The user began anew.
        CommandNew = "command:new",
        /// The user reset a session.
        CommandReset = "command:reset",
        /// The user stopped a run.
        CommandStop = "command:stop",
        /// The user asked for compaction.
        CommandCompact = "command:compact",
        /// An agent runs for the first time.
        AgentBootstrap = "agent:bootstrap",
        SessionStart = "session:start",
        /// A session ends.
        SessionEnd = "session:end",
        /// The daemon is ready.
        RuntimeStartup = "runtime:startup",
        /// The daemon is going down.
        RuntimeShutdown = "runtime:shutdown",
        /// Memory closed an episode.
        EpisodeCreated = "episode:created",
        /// Memory decided to keep an episode.
        EpisodeRetained = "episode:retained",
    }
}

impl HookPoint {
    /// Returns its place in [`HookPoint::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Reads a name. An empty one is the automation stage, as rows without a hook point mean.
    pub fn of_row(name: &str) -> Option<Self> {
        if name.is_empty() {
            return Some(Self::RunAutomations);
        }
        Self::parse(name)
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
