//! Learning: facts found in what was said become rows, once each, with whose words they are and whom
//! they are about. Nobody but the owner changes what is known of the owner.

use nexus_base::failpoint;
use nexus_base::id::{EntityId, EventId, FactId};
use nexus_store::identity::{Entity, Mentioned, OWNER_ID};
use nexus_store::memory::{FactFilter, NewEpisode, NewFact};
use serde_json::{Value, json};

use crate::extract::extract;
use crate::fact::{MAX_FACT_LEN, Provenance, tidy};
use crate::index::WAITED_FOR;
use crate::memory::{Memory, MemoryError};
use crate::query::{is_stopword, words};
use crate::utterance::{Extracted, FactKind, Learnt, Utterance, Voice};

/// Name the owner's entity has until the owner tells it.
const PLACEHOLDER: &str = "Owner";
/// Facts with words in common that a new one is compared with.
const COMPARED: u32 = 20;

impl Memory {
    /// Finds facts in what was said and keeps those that are new. The same utterance can be given
    /// again: it adds nothing.
    ///
    /// # Errors
    /// See [`MemoryError`]; what was kept before the error stays.
    pub async fn learn(&self, utterance: Utterance) -> Result<Learnt, MemoryError> {
        let owner = self.identity.owner().await?;
        let mut speaker = called(&utterance.voice, owner.as_ref());
        let mut facts = extract(&utterance, &speaker);
        // Who tells their name and more in one go is called by it in the rest.
        let told = facts.iter().find_map(|fact| fact.speaker_name.clone());
        if let (Voice::Owner, Some(name)) = (&utterance.voice, told) {
            facts = extract(&utterance, &name);
            speaker = name;
        }
        let mut learnt = Learnt::default();
        if facts.is_empty() {
            return Ok(learnt);
        }
        if let Some(event) = &utterance.event {
            self.note_episode(event.clone()).await?;
        }
        let conversation = match &utterance.event {
            Some(event) => self.events.get(event.clone()).await?.map(|event| event.body.conversation()),
            None => None,
        };
        for fact in facts {
            if let Some(name) = fact.speaker_name.clone() {
                self.take_name(&utterance.voice, owner.as_ref(), name, &mut learnt).await?;
            }
            let text = tidy(&fact.text);
            if text.len() > MAX_FACT_LEN {
                continue;
            }
            match self.known(&text, &speaker, &utterance.voice).await? {
                Some(id) => learnt.known.push(id),
                None => self.add(&utterance, fact, text, conversation.clone(), &mut learnt).await?,
            }
        }
        self.index.catch_up(nexus_store::embeddings::VectorKind::Fact, WAITED_FOR).await?;
        Ok(learnt)
    }

    /// Notes the stretch of conversation that facts were learnt in, as far as it has gone.
    async fn note_episode(&self, event: EventId) -> Result<(), MemoryError> {
        let stretch = self.events.stretch(event).await?;
        if let (Some((_, start)), Some((_, end))) = (stretch.first(), stretch.last()) {
            let episode = NewEpisode {
                strategy: "time_gap".to_owned(),
                platform: None,
                thread_id: None,
                start: *start,
                end: *end,
                events: stretch.iter().map(|(id, _)| id.clone()).collect(),
            };
            self.facts.put_episode(episode).await?;
            failpoint::hit("learn.episode");
        }
        Ok(())
    }

    async fn add(
        &self,
        utterance: &Utterance,
        fact: Extracted,
        text: String,
        conversation: Option<String>,
        learnt: &mut Learnt,
    ) -> Result<(), MemoryError> {
        let speaker = speaker_entity(&utterance.voice);
        let mentioned: Vec<Mentioned> = fact
            .mentions
            .iter()
            .map(|mention| Mentioned { name: tidy(&mention.name), kind: mention.kind.to_owned() })
            .collect();
        let about = fact.about_speaker.then(|| speaker.clone()).flatten();
        let found = self.identity.mention(about.clone(), mentioned, utterance.at).await?;
        failpoint::hit("learn.mentioned");
        learnt.entities.extend(found.iter().filter(|(_, is_new)| *is_new).map(|(id, _)| id.clone()));
        let mut entity_ids: Vec<EntityId> = found.into_iter().map(|(id, _)| id).collect();
        entity_ids.extend(about);
        let provenance = utterance.voice.provenance();
        let added = self
            .facts
            .add_facts(vec![NewFact {
                text,
                context: None,
                as_of: fact.as_of,
                source_event_id: utterance.event.clone(),
                metadata: metadata(provenance, &fact, speaker.as_ref()),
                entity_ids,
                conversation,
            }])
            .await?;
        failpoint::hit("learn.fact");
        for fact in added {
            if fact.is_new { learnt.added.push(fact.id) } else { learnt.known.push(fact.id) }
        }
        Ok(())
    }

    /// Returns a fact that says the same: the same telling words, whatever their order, and whatever
    /// the speaker was called when it was learnt.
    async fn known(&self, text: &str, speaker: &str, voice: &Voice) -> Result<Option<FactId>, MemoryError> {
        let names: Vec<String> = words(speaker).into_iter().chain(["owner".to_owned()]).collect();
        let telling = |text: &str| -> Vec<String> {
            let mut words = words(text);
            words.retain(|word| !is_stopword(word) && !names.contains(word));
            words.sort_unstable();
            words.dedup();
            words
        };
        let wanted = telling(text);
        let entity = speaker_entity(voice);
        let hits = self.facts.find_facts(wanted.clone(), FactFilter::default(), COMPARED).await?;
        let rows = hits.into_iter().map(|hit| hit.row).collect();
        let facts = self.facts.facts_by_row(rows, FactFilter::default()).await?;
        let same = facts.into_iter().find(|row| {
            let fact = &row.fact;
            // What was kept by hand is about nobody in particular.
            let of_speaker = fact.entity_ids.is_empty()
                || entity.as_ref().is_none_or(|entity| fact.entity_ids.contains(entity));
            telling(&fact.text) == wanted && (of_speaker || fact.text == text)
        });
        Ok(same.map(|row| row.fact.id))
    }

    /// Gives the owner the name they told. Names of others are facts; their entities keep the name
    /// they wrote to us under.
    async fn take_name(
        &self,
        voice: &Voice,
        owner: Option<&Entity>,
        name: String,
        learnt: &mut Learnt,
    ) -> Result<(), MemoryError> {
        let (Voice::Owner, Some(owner)) = (voice, owner) else { return Ok(()) };
        if owner.name != name {
            self.identity.rename_entity(owner.id.clone(), &name).await?;
            failpoint::hit("learn.named");
            learnt.owner_name = Some(name);
        }
        Ok(())
    }
}

/// Returns what a speaker is called in a fact.
fn called(voice: &Voice, owner: Option<&Entity>) -> String {
    match voice {
        Voice::Owner => match owner {
            Some(owner) if owner.name != PLACEHOLDER => owner.name.clone(),
            Some(_) | None => "The owner".to_owned(),
        },
        Voice::Person { name, .. } => name.clone(),
        Voice::Agent | Voice::Untrusted => "Somebody".to_owned(),
    }
}

fn speaker_entity(voice: &Voice) -> Option<EntityId> {
    match voice {
        Voice::Owner => Some(EntityId::new(OWNER_ID)),
        // Whoever claims the owner's entity without the owner's voice is nobody.
        Voice::Person { entity, .. } => Some(entity.clone()).filter(|entity| entity.as_str() != OWNER_ID),
        Voice::Agent | Voice::Untrusted => None,
    }
}

fn metadata(provenance: Provenance, fact: &Extracted, speaker: Option<&EntityId>) -> Value {
    let kind = match fact.kind {
        FactKind::Name => "name",
        FactKind::Place => "place",
        FactKind::Preference => "preference",
        FactKind::Date => "date",
        FactKind::Relation => "relation",
        FactKind::Persona => "persona",
        FactKind::Note => "note",
    };
    let mut metadata = provenance.to_metadata();
    metadata["kind"] = json!(kind);
    metadata["speaker"] = json!(speaker);
    metadata
}
