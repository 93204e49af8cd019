//! Whether a fact says something about a message, by the words both share. Strict on purpose: a fact
//! that is put before a message unasked must not be a guess.

use std::collections::HashSet;

/// Share of a message's telling words that a fact must hold.
const THRESHOLD: f64 = 0.5;
/// Shortest word that tells anything.
const MIN_LEN: usize = 3;

/// Words that stand in every message and say nothing about its subject.
const COMMON: &str = "\
about after again all also and another any are ask because been before being but can could did does doing done down \
each every few find for from get give goes going good has have hello help her here hey him his how into its just know \
let like look make many may maybe mean more most much must need new not now off one only other our out over please \
put really say see shall she should show some still such take tell than thank thanks that the their them then there \
these they thing things think this those through time today too try under until upon use very want was way well were \
what when where which while who whom whose why will with would write yes yet you your yours remember recall hallo danke \
bitte ist das die der und ein eine ich mir mich sie wir was wie";

/// The telling words of a message.
#[derive(Debug)]
pub(crate) struct Query {
    words: HashSet<String>,
}

impl Query {
    /// Reads a message; none when it has no word that tells anything.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let words = telling(text);
        (!words.is_empty()).then_some(Self { words })
    }

    /// Returns which share of the message's telling words a fact holds, when it is enough.
    pub(crate) fn fit(&self, fact: &str) -> Option<f64> {
        let fact = telling(fact);
        let shared = self.words.iter().filter(|word| fact.contains(*word)).count();
        #[expect(clippy::cast_precision_loss, reason = "counts of words in one message")]
        let share = shared as f64 / self.words.len() as f64;
        // Two words in common are a subject, even of a long message.
        (shared > 0 && (share >= THRESHOLD || shared >= 2)).then_some(share)
    }
}

fn telling(text: &str) -> HashSet<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.chars().count() >= MIN_LEN)
        .map(|word| stem(&word.to_lowercase()))
        .filter(|word| !is_common(word))
        .collect()
}

/// Takes the plural and the possessive off, which is what recall by words stumbles over most.
fn stem(word: &str) -> String {
    match word.strip_suffix("ies") {
        Some(rest) if rest.len() >= MIN_LEN => format!("{rest}y"),
        _ => word
            .strip_suffix('s')
            .filter(|rest| rest.len() >= MIN_LEN && !rest.ends_with('s'))
            .unwrap_or(word)
            .to_owned(),
    }
}

fn is_common(word: &str) -> bool {
    COMMON.split_whitespace().any(|common| common == word || stem(common) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, fact: &str, fits: bool) {
        let found = Query::of(message).and_then(|query| query.fit(fact));
        assert_eq!(found.is_some(), fits, "{message:?} and {fact:?}: {found:?}");
    }

    #[test]
    fn what_is_about_the_message_fits_and_the_rest_does_not() {
        check("What is my favourite colour?", "Sam's favourite colour is green", true);
        check("Where is the spare key for the shed?", "The spare key is with Grace", true);
        check("Do I have bees?", "Ada keeps a bee hive", true);
        check("hello", "Sam says hello to everybody", false);
        check("How are you today?", "Sam was well today", false);
        check("please write a report about the quarterly sales figures", "Ada writes poems", false);
        check("", "anything", false);
    }
}
