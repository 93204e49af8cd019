//! What has happened between the person and the guide so far: facts heard, questions open.
//!
//! A fold over the events of a conversation. Nothing is kept anywhere else, so an interrupted
//! onboarding goes on exactly where its messages end.

use crate::facts::{self, Heard};
use crate::findings::{Finding, Findings};
use crate::identity::{DEFAULT_AGENT_NAME, DEFAULT_USER_NAME, Profile};
use crate::intent::{self, Intent, Request};
use crate::scene::{Event, Input, Scene};
use crate::task::Purpose;
use crate::text;

/// Most quotes of the person that are kept.
const MAX_QUOTES: usize = 8;

/// Messages after which an unanswered question lapses: a late "yes" would mean something else.
const QUESTION_LASTS: usize = 10;

/// The question whether to import what a scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ImportQuestion {
    #[default]
    NotAsked,
    Open,
    Accepted,
    Declined,
}

/// Which of the two names was touched last; a bare correction means that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Field {
    #[default]
    Agent,
    User,
}

/// Everything heard so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    pub(crate) profile: Profile,
    pub(crate) import: ImportQuestion,
    /// Something visible was said before.
    pub(crate) has_spoken: bool,
    /// The latest scan that could be read.
    pub(crate) findings: Vec<Finding>,
    agent_was_bare: bool,
    last_field: Field,
    import_was_dispatched: bool,
    /// Messages since the import question was asked.
    unanswered: usize,
    /// Names are being asked for; otherwise a lone word is no name.
    asks_names: bool,
}

/// What one message of the person meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hearing {
    pub(crate) requests: Vec<Request>,
    pub(crate) unknown: Vec<String>,
    /// Names, manners or other facts were heard.
    pub(crate) facts: bool,
    pub(crate) named_agent: bool,
    pub(crate) named_user: bool,
    pub(crate) took_defaults: bool,
    /// How the open import question was answered.
    pub(crate) import: Option<ImportAnswer>,
}

/// An answer to the import question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImportAnswer {
    Yes,
    No,
    /// Only some of them, which the command cannot do.
    Some,
}

/// The story before this turn, after it, and what this turn's messages meant.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) before: Story,
    pub(crate) after: Story,
    pub(crate) hearings: Vec<Hearing>,
}

/// Folds a scene into its story.
pub(crate) fn tell(scene: &Scene) -> Telling {
    let mut story = Story::default();
    let own_name = scene.persona.agent_name();
    // Names and manners matter only until the identity files are written; after that a long
    // conversation is not listened to again, but for answers to a question still open.
    let files_written = scene.events.iter().rposition(|event| match event {
        Event::Input(Input::Result { dispatch: Some(place), .. }) => {
            matches!(scene.dispatches[*place].purpose, Purpose::Identity(_))
        }
        Event::Input(_) | Event::Said | Event::Called(_) => false,
    });
    let asks = scene.persona.is_onboarding || scene.persona.lacks_user();
    let asks_names = |place: usize| asks || files_written.is_some_and(|written| place < written);
    if scene.persona.lacks_user() {
        story.profile.agent_name = own_name.map(str::to_owned);
    }
    for (place, event) in scene.events[..scene.now].iter().enumerate() {
        story.asks_names = asks_names(place);
        let is_person = matches!(event, Event::Input(Input::Person { .. }));
        if !is_person || story.asks_names || story.awaits_import_answer() {
            story.follow(scene, event, own_name);
        }
    }
    story.asks_names = asks_names(scene.now);
    let before = story.clone();
    let mut hearings = Vec::new();
    for event in &scene.events[scene.now..] {
        hearings.extend(story.follow(scene, event, own_name));
    }
    Telling { before, after: story, hearings }
}

impl Story {
    fn follow(&mut self, scene: &Scene, event: &Event, own_name: Option<&str>) -> Option<Hearing> {
        match event {
            Event::Said => self.has_spoken = true,
            Event::Called(call) => {
                let purpose = scene.calls[*call].dispatch.map(|place| &scene.dispatches[place].purpose);
                if purpose == Some(&Purpose::Import) {
                    self.import = ImportQuestion::Accepted;
                    self.import_was_dispatched = true;
                }
            }
            Event::Input(Input::Person { text }) => return Some(self.hear(text, own_name)),
            Event::Input(Input::Result { text, dispatch, status }) => {
                let purpose = dispatch.map(|place| &scene.dispatches[place].purpose);
                if purpose == Some(&Purpose::Scan)
                    && status == "completed"
                    && let Some(read) = Findings::read(text)
                {
                    let importable = !read.importable().is_empty();
                    self.findings = read.found;
                    // Who said no is not asked again.
                    if importable && self.import != ImportQuestion::Declined {
                        self.import = ImportQuestion::Open;
                        self.unanswered = 0;
                    }
                }
            }
            Event::Input(Input::Task { .. } | Input::Agent { .. } | Input::System { .. }) => {}
        }
        None
    }

    const fn awaits_import_answer(&self) -> bool {
        match self.import {
            ImportQuestion::Open => true,
            ImportQuestion::Accepted => !self.import_was_dispatched,
            ImportQuestion::NotAsked | ImportQuestion::Declined => false,
        }
    }

    fn hear(&mut self, message: &str, own_name: Option<&str>) -> Hearing {
        let mut hearing = Hearing::default();
        if self.import == ImportQuestion::Open {
            self.unanswered += 1;
            if self.unanswered > QUESTION_LASTS {
                self.import = ImportQuestion::NotAsked;
            }
        }
        if self.import == ImportQuestion::Accepted && !self.import_was_dispatched {
            // The yes was heard in a turn that was cut off before anything began.
            self.import = ImportQuestion::Open;
        }
        let understanding = intent::understand(message, own_name);
        if self.import == ImportQuestion::Open && !self.withholds_a_name(message) {
            hearing.import =
                import_answer(message, &understanding.requests, self.profile_correction(message));
            match hearing.import {
                Some(ImportAnswer::Yes) => self.import = ImportQuestion::Accepted,
                Some(ImportAnswer::No) => self.import = ImportQuestion::Declined,
                Some(ImportAnswer::Some) | None => {}
            }
        }
        for sentence in text::sentences(message) {
            self.hear_sentence(sentence, own_name, &mut hearing);
        }
        hearing.requests = understanding.requests;
        hearing.unknown = understanding.unknown;
        if hearing.import.is_some() {
            hearing.requests.retain(|request| {
                !matches!(
                    request.intent,
                    Intent::Yes | Intent::No | Intent::ImportCredentials | Intent::Thanks
                )
            });
        }
        hearing
    }

    fn hear_sentence(&mut self, sentence: &str, own_name: Option<&str>, hearing: &mut Hearing) {
        let request = intent::understand_sentence(sentence, own_name);
        let quotes_free_text = request.as_ref().is_some_and(|request| {
            matches!(
                request.intent,
                Intent::Run
                    | Intent::Note
                    | Intent::ShowFile
                    | Intent::ListFiles
                    | Intent::Recall
                    | Intent::Forget
            )
        });
        if quotes_free_text {
            return;
        }
        let mut heard = facts::listen(sentence);
        let is_missing = self.profile.agent_name.is_none() || self.profile.user_name.is_none();
        if self.has_spoken && self.asks_names {
            self.hear_bare(sentence, request.as_ref(), &mut heard, hearing);
            let says_no = request.as_ref().is_some_and(|request| request.intent == Intent::No);
            if is_missing && !heard.has_name() && hearing.import.is_none() {
                self.take_defaults(sentence, &heard, says_no, hearing);
            }
        }
        self.take(heard, hearing);
    }

    /// Hears a name that stands alone, as an answer to our question.
    fn hear_bare(&self, sentence: &str, request: Option<&Request>, heard: &mut Heard, hearing: &Hearing) {
        let is_answer = request.is_none()
            || (request.is_some_and(|request| request.intent == Intent::Yes) && hearing.import.is_none());
        if heard.has_name() {
            // `Atlas, and I'm Sam`: the name before the phrase is the other one.
            if self.profile.agent_name.is_none() && heard.agent_name.is_none() {
                let lower = sentence.to_ascii_lowercase();
                let cut = ["i'm ", "i’m ", "im ", "i am ", "my name", "call me", "mine is"]
                    .iter()
                    .filter_map(|phrase| lower.find(phrase))
                    .min();
                if let Some(prefix) = cut.and_then(|cut| sentence.get(..cut))
                    && intent::understand_sentence(prefix, None).is_none()
                    && let [only] = facts::bare_names(prefix).as_slice()
                {
                    heard.agent_name = Some(only.clone());
                }
            }
            return;
        }
        if !is_answer || heard.has_fact() || heard.leaves_it || heard.declines {
            return;
        }
        let names = facts::bare_names(sentence);
        let corrects = is_correction(sentence);
        match (names.as_slice(), &self.profile.agent_name, &self.profile.user_name) {
            ([agent, user], None, None) => {
                heard.agent_name = Some(agent.clone());
                heard.user_name = Some(user.clone());
            }
            ([name], Some(_), _) if corrects && self.last_field == Field::Agent => {
                heard.agent_name = Some(name.clone())
            }
            ([name], _, Some(_)) if corrects && self.last_field == Field::User => {
                heard.user_name = Some(name.clone())
            }
            ([name], None, _) => heard.agent_name = Some(name.clone()),
            ([name], Some(_), None) => heard.user_name = Some(name.clone()),
            _ => {}
        }
    }

    fn take_defaults(&mut self, sentence: &str, heard: &Heard, says_no: bool, hearing: &mut Hearing) {
        let lower = sentence.to_lowercase();
        let about_self =
            ["my ", "who i am", "tell you", "name of mine"].iter().any(|phrase| lower.contains(phrase));
        let about_us = ["your name", "yourself"].iter().any(|phrase| lower.contains(phrase));
        let fill_agent = self.profile.agent_name.is_none()
            && (heard.leaves_it || ((heard.declines || says_no) && !about_self));
        let fill_user = self.profile.user_name.is_none()
            && !about_us
            && (heard.declines || says_no || (heard.leaves_it && self.profile.agent_name.is_some()));
        if fill_agent {
            self.profile.agent_name = Some(DEFAULT_AGENT_NAME.to_owned());
            self.agent_was_bare = false;
        }
        if fill_user {
            self.profile.user_name = Some(DEFAULT_USER_NAME.to_owned());
        }
        if fill_agent || fill_user {
            hearing.took_defaults = true;
            hearing.named_agent |= fill_agent;
            hearing.named_user |= fill_user;
        }
    }

    fn take(&mut self, heard: Heard, hearing: &mut Hearing) {
        hearing.facts |= heard.has_fact();
        if let Some(name) = heard.user_name.clone().or_else(|| heard.call.clone()) {
            let is_same = |known: &Option<String>| {
                known.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(&name))
            };
            if is_same(&self.profile.agent_name) && self.agent_was_bare && heard.agent_name.is_none() {
                // The lone word we took for our own name was the person's.
                self.profile.agent_name = None;
            }
            let replaces = heard.user_name.is_some()
                || self.profile.user_name.as_deref().is_none_or(|known| known == DEFAULT_USER_NAME);
            if replaces {
                self.profile.user_name = Some(name);
                self.profile.call = None;
            }
            if heard.call.is_some() {
                self.profile.call.clone_from(&heard.call);
            }
            self.last_field = Field::User;
            hearing.named_user = true;
        }
        if let Some(name) = heard.agent_name {
            self.agent_was_bare = !hearing.named_user;
            self.profile.agent_name = Some(name);
            self.last_field = Field::Agent;
            hearing.named_agent = true;
        }
        replace(&mut self.profile.timezone, heard.timezone);
        replace(&mut self.profile.email, heard.email);
        replace(&mut self.profile.emoji, heard.emoji);
        replace(&mut self.profile.creature, heard.creature);
        if !heard.manners.is_empty() {
            for manner in heard.manners {
                let opposite =
                    manner.strip_prefix("not ").map_or_else(|| format!("not {manner}"), str::to_owned);
                self.profile.manners.retain(|known| *known != manner && *known != opposite);
                if self.profile.manners.len() < MAX_QUOTES {
                    self.profile.manners.push(manner);
                }
            }
        }
        keep(&mut self.profile.manner_quotes, heard.manner_quote);
        keep(&mut self.profile.about_person, heard.about_person);
    }

    /// Returns whether a refusal is about a name we asked for and not about the import.
    fn withholds_a_name(&self, message: &str) -> bool {
        let is_missing = self.profile.agent_name.is_none() || self.profile.user_name.is_none();
        let words = text::tokens(message);
        let tells = words.iter().any(|word| {
            matches!(word.folded.as_str(), "say" | "tell" | "name" | "names" | "anonymous" | "called")
        });
        is_missing && tells && facts::listen(message).declines
    }

    /// Returns whether a leading "no" corrects a name instead of answering a question.
    fn profile_correction(&self, message: &str) -> bool {
        let heard = facts::listen(message);
        let corrects_agent = heard.agent_name.is_some() && self.profile.agent_name.is_some();
        let corrects_user =
            (heard.user_name.is_some() || heard.call.is_some()) && self.profile.user_name.is_some();
        corrects_agent || corrects_user
    }
}

fn replace(known: &mut Option<String>, heard: Option<String>) {
    if heard.is_some() {
        *known = heard;
    }
}

fn keep(known: &mut Vec<String>, heard: Option<String>) {
    if let Some(said) = heard
        && known.len() < MAX_QUOTES
        && !known.contains(&said)
    {
        known.push(said);
    }
}

fn is_correction(sentence: &str) -> bool {
    let words = text::tokens(sentence);
    words.first().is_some_and(|word| {
        matches!(
            word.folded.as_str(),
            "no" | "actually" | "sorry" | "wait" | "rather" | "oops" | "correction" | "hmm"
        )
    })
}

/// Reads an answer to "shall I import them?".
fn import_answer(message: &str, requests: &[Request], corrects_a_name: bool) -> Option<ImportAnswer> {
    let words = text::tokens(message);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.folded.as_str()));
    let mentions = words.iter().any(|word| word.folded.starts_with("import"));
    let negates = has(&["dont", "not", "no", "never", "without", "nope", "nah"]);
    if has(&["only", "except", "just"])
        && (mentions || has(&["one", "first", "second"]) || words.iter().any(|word| word.raw.contains('_')))
        && !negates
    {
        return Some(ImportAnswer::Some);
    }
    if mentions {
        return Some(if negates { ImportAnswer::No } else { ImportAnswer::Yes });
    }
    let intends = |wanted: Intent| requests.iter().any(|request| request.intent == wanted);
    if intends(Intent::ImportCredentials) {
        return Some(ImportAnswer::Yes);
    }
    let sentences = text::sentences(message);
    let says = |wanted: Intent| {
        sentences.iter().any(|sentence| {
            // "Ok." before something else only says that we were heard.
            let is_nod = sentences.len() > 1 && text::tokens(sentence).len() == 1 && !is_plain_yes(sentence);
            let found = intent::understand_sentence(sentence, None).map(|request| request.intent);
            found == Some(wanted) && (wanted == Intent::No || !is_nod)
        })
    };
    let first = words.first().map(|word| word.folded.as_str()).unwrap_or_default();
    if is_plain_yes(first) || says(Intent::Yes) {
        return Some(ImportAnswer::Yes);
    }
    if !corrects_a_name && (matches!(first, "no" | "nope" | "nah") || says(Intent::No)) {
        return Some(ImportAnswer::No);
    }
    None
}

fn is_plain_yes(word: &str) -> bool {
    let folded = text::fold(word.trim_end_matches(['.', '!', ',']));
    matches!(folded.as_str(), "yes" | "yeah" | "yep" | "yup" | "sure")
}
