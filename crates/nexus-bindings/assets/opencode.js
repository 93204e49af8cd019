// Hands OpenCode's events to `nexus hook` and its answers back. Whatever goes wrong here, the session goes on.
import { spawnSync } from "node:child_process"

const ask = (event, payload, directory) => {
  const run = spawnSync("nexus", ["hook", event, "--harness", "opencode"], {
    input: JSON.stringify({ cwd: directory, ...payload }),
    cwd: directory,
    encoding: "utf8",
    timeout: 10000,
  })
  if (run.error || run.status !== 0 || !run.stdout) return {}
  try {
    return JSON.parse(run.stdout)
  } catch {
    return {}
  }
}

export const Nexus = async ({ directory }) => {
  const agents = new Map()
  const parents = new Map()
  const bootstraps = new Map()
  const whose = (session) => ({ session_id: session, agent_type: agents.get(session), parent_id: parents.get(session) })

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info?.parentID) parents.set(info.id, info.parentID)
      const session = event.properties?.sessionID
      if (event.type === "session.idle" && session) {
        ask(parents.has(session) ? "subagent_complete" : "turn_end", whose(session), directory)
      }
      if (event.type === "session.compacted" && session) bootstraps.delete(session)
      if (event.type === "session.deleted" && info) ask("session_end", whose(info.id), directory)
    },

    "chat.message": async (input, output) => {
      if (input.agent) agents.set(input.sessionID, input.agent)
      if (parents.has(input.sessionID)) return
      const prompt = output.parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
      const answer = ask("user_message", { ...whose(input.sessionID), prompt }, directory)
      if (answer.context) {
        const { messageID } = output.parts[0] ?? {}
        const id = `prt_nexus${Date.now().toString(36)}${Math.random().toString(36).slice(2, 10)}`
        output.parts.push({ id, sessionID: input.sessionID, messageID: messageID ?? output.message?.id, type: "text", synthetic: true, text: answer.context })
      }
    },

    "experimental.chat.system.transform": async (input, output) => {
      const session = input.sessionID
      if (!session) return
      if (!bootstraps.has(session)) {
        const event = parents.has(session) ? "subagent_spawn" : "session_start"
        bootstraps.set(session, ask(event, whose(session), directory).context ?? "")
      }
      const text = bootstraps.get(session)
      if (text) output.system.push(text)
    },

    "tool.execute.before": async (input, output) => {
      const answer = ask("pre_tool_use", { ...whose(input.sessionID), tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID }, directory)
      if (answer.deny) throw new Error(answer.deny)
    },

    "tool.execute.after": async (input, output) => {
      const answer = ask("post_tool_use", { ...whose(input.sessionID), tool_name: input.tool, tool_input: input.args, tool_use_id: input.callID }, directory)
      if (answer.context && typeof output.output === "string") output.output += `\n${answer.context}`
    },

    "experimental.session.compacting": async (input, output) => {
      const answer = ask("context_compact", whose(input.sessionID), directory)
      if (answer.context) output.context.push(answer.context)
    },
  }
}
