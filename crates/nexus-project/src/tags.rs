//! Tags in a message: which ones it holds, what each starts, and which words belong to it. Nothing is
//! done here.
//!
//! A tag counts wherever it stands, except inside code (between backticks), where people quote it. A skill that is
//! for people only is never started by a tag: it needs its command, typed at the very start.

use crate::catalog::{Catalog, TagKind};

/// Spelling of other versions of the contract, and what it means here.
const ALIASES: [(&str, &str); 1] = [("[auto-plan]", "[plan:auto]")];
/// Longest bracketed word that is looked at, in bytes.
const MAX_TAG_LEN: usize = 96;
/// How a person types the command of a skill.
const COMMAND: char = '/';
/// So many backticks at the start of a line begin a block of code.
const FENCE: usize = 3;

/// What a message asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routing {
    /// The skill it starts.
    pub skill: Option<Activation>,
    /// Skills it started before that one, each replaced by the next.
    pub replaced: Vec<Activation>,
    /// What is to be done at once, in order.
    pub actions: Vec<Action>,
}

/// A skill that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// Its id.
    pub skill: String,
    /// The variant of the tag, or what stands behind the command.
    pub mode: Option<String>,
    pub typed: String,
}

/// Something to be done at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Who does it.
    pub handler: String,
    /// What stood behind the colon.
    pub variant: Option<String>,
    /// The words up to the next tag.
    pub input: String,
}

/// Finds what a message asks for. Each skill that is started replaces the one before, as it would in two messages:
/// of several the last is followed.
pub fn route(catalog: &Catalog, message: &str) -> Routing {
    if let Some(activation) = command(catalog, message) {
        return Routing { skill: Some(activation), ..Routing::default() };
    }
    let marks = marks(catalog, message);
    let mut routing = Routing::default();
    for (number, mark) in marks.iter().enumerate() {
        let end = marks.get(number + 1).map_or(message.len(), |next| next.start);
        let input = message.get(mark.end..end).unwrap_or_default().trim();
        match &mark.meaning {
            Meaning::Skill { skill, mode } => {
                let typed = message.get(mark.start..mark.end).unwrap_or_default().to_owned();
                let next = Activation { skill: skill.clone(), mode: mode.clone(), typed };
                routing.replaced.extend(routing.skill.replace(next));
            }
            Meaning::Action { handler, variant } => routing.actions.push(Action {
                handler: handler.clone(),
                variant: variant.clone(),
                input: input.to_owned(),
            }),
        }
    }
    routing
}

/// Returns the skill whose command stands at the very start of a message. Every skill has one; for those
/// that are for people only there is no other way.
fn command(catalog: &Catalog, message: &str) -> Option<Activation> {
    let rest = message.strip_prefix(COMMAND)?;
    let (name, mode) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let skill = catalog.skill(name)?;
    let mode = mode.trim();
    Some(Activation {
        skill: skill.id.clone(),
        mode: (!mode.is_empty()).then(|| mode.to_owned()),
        typed: format!("{COMMAND}{name}"),
    })
}

#[derive(Debug)]
enum Meaning {
    Skill { skill: String, mode: Option<String> },
    Action { handler: String, variant: Option<String> },
}

#[derive(Debug)]
struct Mark {
    start: usize,
    end: usize,
    meaning: Meaning,
}

fn marks(catalog: &Catalog, message: &str) -> Vec<Mark> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(character) = message.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = message.get(at..).unwrap_or_default();
        match character {
            '`' => {
                at += code(message.get(..at).unwrap_or_default(), rest);
                continue;
            }
            '[' => {
                let near = rest.bytes().take(MAX_TAG_LEN).position(|byte| byte == b']');
                if let Some(length) = near.map(|end| end + 1)
                    && let Some(meaning) = rest.get(..length).and_then(|typed| meaning(catalog, typed))
                {
                    found.push(Mark { start: at, end: at + length, meaning });
                    at += length;
                    continue;
                }
            }
            _ => {}
        }
        at += character.len_utf8();
    }
    found
}

/// Returns how far the code reaches that backticks at the start of `rest` begin: as many of them end it, in the same
/// paragraph. Without an end they are letters like others; only a fence on its own line reaches to the end of all.
fn code(before: &str, rest: &str) -> usize {
    let ticks = run(rest);
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_fence = ticks >= FENCE && line.trim().is_empty();
    let inside = rest.get(ticks..).unwrap_or_default();
    let reach = if is_fence { inside.len() } else { inside.find("\n\n").unwrap_or(inside.len()) };
    let mut at = 0;
    while let Some(next) = inside.get(at..reach).and_then(|text| text.find('`')) {
        let length = run(inside.get(at + next..).unwrap_or_default());
        at += next + length;
        if length == ticks || (is_fence && length > ticks) {
            return ticks + at;
        }
    }
    if is_fence { rest.len() } else { ticks }
}

fn run(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'`').count()
}

/// Returns what a bracketed word means: the exact trigger first, then a listed variant.
fn meaning(catalog: &Catalog, typed: &str) -> Option<Meaning> {
    let typed = ALIASES.iter().find(|(alias, _)| *alias == typed).map_or(typed, |(_, real)| *real);
    let tags = &catalog.vocabulary.tags;
    let (tag, variant) = match tags.iter().find(|tag| tag.trigger == typed) {
        Some(tag) => (tag, None),
        None => {
            let inside = typed.strip_prefix('[')?.strip_suffix(']')?;
            let (id, variant) = inside.split_once(':')?;
            let tag = tags.iter().find(|tag| tag.id == id)?;
            let listed = |known: &String| known == variant || (known == "*" && !variant.is_empty());
            tag.variants.iter().any(listed).then_some((tag, Some(variant.to_owned())))?
        }
    };
    match tag.kind {
        TagKind::Skill => {
            let skill = catalog.skill(tag.skill.as_deref()?)?;
            (!skill.manual_only).then(|| Meaning::Skill { skill: skill.id.clone(), mode: variant })
        }
        TagKind::InlineAction => Some(Meaning::Action { handler: tag.handler.clone()?, variant }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Started = Option<(String, Option<String>)>;
    type Acted = Vec<(String, Option<String>, String)>;

    fn read(message: &str) -> (Started, Acted) {
        let routing = route(&Catalog::embedded().unwrap(), message);
        (
            routing.skill.map(|skill| (skill.skill, skill.mode)),
            routing.actions.into_iter().map(|one| (one.handler, one.variant, one.input)).collect(),
        )
    }

    fn skill(message: &str) -> Started {
        read(message).0
    }

    fn one(name: &str, mode: Option<&str>) -> Started {
        Some((name.to_owned(), mode.map(str::to_owned)))
    }

    #[test]
    fn skills_are_started_by_their_tags_wherever_they_stand() {
        assert_eq!(skill("[plan] the shed"), one("nx-plan", None));
        assert_eq!(skill("please [plan:auto] it"), one("nx-plan", Some("auto")));
        assert_eq!(skill("[auto-plan] it"), one("nx-plan", Some("auto")));
        assert_eq!(skill("[run]"), one("nx-run", None));
        assert_eq!(skill("[sync] and then [run]"), one("nx-run", None));
        let routing = route(&Catalog::embedded().unwrap(), "[plan:auto] x [sync] y [run] z");
        let replaced: Vec<&str> = routing.replaced.iter().map(|one| one.typed.as_str()).collect();
        assert_eq!(replaced, ["[plan:auto]", "[sync]"]);
        for nothing in
            ["[plan:other] x", "[plan", "plan]", "[nx-init]", "[PLAN]", "see `[plan]`", "[ plan ]", "[plan:]"]
        {
            assert_eq!(skill(nothing), None, "{nothing}");
        }
        assert_eq!(skill("```\n[plan]\n```\n[run]"), one("nx-run", None));
    }

    #[test]
    fn only_backticks_in_pairs_quote_a_tag() {
        for literal in ["it`s odd [plan] x", "a `` b [plan] `", "it`s\n\n[plan] isn`t", "[plan] `"] {
            assert_eq!(skill(literal), one("nx-plan", None), "{literal}");
        }
        for quoted in
            ["`[plan]`", "``a ` [plan] ``", "it`s [plan] isn`t", "```\n\n[plan]\n", "x\n  ```\n[plan]"]
        {
            assert_eq!(skill(quoted), None, "{quoted}");
        }
        assert_eq!(skill("`a` [plan] `b`"), one("nx-plan", None));
    }

    #[test]
    fn skills_for_people_only_need_their_command_at_the_start() {
        assert_eq!(skill("/nx-init --reset"), one("nx-init", Some("--reset")));
        assert_eq!(skill("/nx-setup"), one("nx-setup", None));
        assert_eq!(skill("/nx-plan"), one("nx-plan", None));
        for nothing in [" /nx-init", "do /nx-init", "/nx-initial", "nx-init", "set it up for me"] {
            assert_eq!(skill(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn actions_take_the_words_up_to_the_next_tag() {
        let (skill, actions) =
            read("[d] #2 use SQLite [m] ports are odd [rule:git] no force pushes [m:gc] old.md");
        let action = |handler: &str, variant: Option<&str>, input: &str| {
            (handler.to_owned(), variant.map(str::to_owned), input.to_owned())
        };
        assert_eq!(skill, None);
        assert_eq!(
            actions,
            [
                action("nx_plan_decide", None, "#2 use SQLite"),
                action("memory_store", None, "ports are odd"),
                action("rule_store", Some("git"), "no force pushes"),
                action("memory_gc", None, "old.md"),
            ]
        );
        assert_eq!(read("[rule] be kind").1, [action("rule_store", None, "be kind")]);
        assert_eq!(read("[m:x] no").1, []);
        let both = read("[plan] shed [d] green");
        assert_eq!((both.0, both.1.len()), (one("nx-plan", None), 1));
    }
}
