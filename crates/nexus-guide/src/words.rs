//! Word lists for hearing names, manners and wishes. Data only; `facts` says how they are used.
//! All words are folded: lower case, without apostrophes.

/// How much the phrase before a word says that the word is a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Firmness {
    Firm,
    Soft,
}

const FIRM: Firmness = Firmness::Firm;
const SOFT: Firmness = Firmness::Soft;

/// Phrases before the assistant's name. `Firm` ones may be followed by any word, `Soft` ones also
/// begin ordinary statements, so what follows must look like a name.
#[rustfmt::skip]
pub(crate) const BEFORE_AGENT_NAME: &[(&str, Firmness)] = &[
    ("call yourself", FIRM), ("calling yourself", FIRM), ("name yourself", FIRM),
    ("rename yourself to", FIRM), ("rename yourself", FIRM), ("rename you to", FIRM),
    ("change your name to", FIRM), ("set your name to", FIRM), ("your new name is", FIRM),
    ("your name is now", FIRM), ("your name is", FIRM), ("your name will be", FIRM),
    ("your name shall be", FIRM), ("your name should be", FIRM), ("your name can be", FIRM),
    ("your name could be", FIRM), ("your name to be", FIRM), ("your name be", FIRM), ("your names", FIRM),
    ("your name", SOFT), ("you are now called", FIRM), ("you are called", FIRM), ("you are named", FIRM),
    ("you are now", SOFT), ("youre called", FIRM), ("youre named", FIRM), ("you will be called", FIRM),
    ("you shall be called", FIRM), ("you should be called", FIRM), ("you to be called", FIRM),
    ("you can be called", FIRM), ("you will be", SOFT), ("youll be", SOFT), ("you shall be", SOFT),
    ("you should be", SOFT), ("you can be", SOFT), ("you could be", SOFT), ("you may be", SOFT),
    ("you can go by", FIRM), ("you go by", FIRM), ("call you", FIRM), ("name you", FIRM),
    ("naming you", FIRM), ("calling you", FIRM), ("dub you", FIRM), ("dub thee", FIRM),
    ("call the assistant", FIRM), ("name the assistant", FIRM), ("call it", SOFT),
    ("assistant name is", FIRM), ("assistants name is", FIRM), ("assistant is called", FIRM),
    ("assistant is", SOFT), ("assistant name", FIRM), ("agent name is", FIRM), ("agent name", FIRM),
    ("agent is", SOFT), ("bot name", FIRM), ("yours is", FIRM), ("you are", SOFT), ("youre", SOFT),
    ("ur", SOFT), ("how about", SOFT), ("what about", SOFT), ("lets go with", SOFT), ("ill go with", SOFT),
    ("go with", SOFT), ("lets use", SOFT), ("lets take", SOFT), ("lets try", SOFT), ("ill take", SOFT),
    ("i choose", SOFT), ("i pick", SOFT), ("id pick", SOFT), ("id choose", SOFT), ("make that", SOFT),
    ("make it", SOFT), ("i meant", SOFT), ("i mean", SOFT),
];

/// Phrases before the person's name.
#[rustfmt::skip]
pub(crate) const BEFORE_USER_NAME: &[(&str, Firmness)] = &[
    ("my full name is", FIRM), ("my first name is", FIRM), ("my name is actually", FIRM),
    ("my name is", FIRM), ("my names", FIRM), ("my name", SOFT), ("change my name to", FIRM),
    ("set my name to", FIRM), ("mine is", FIRM), ("i am called", FIRM), ("im called", FIRM),
    ("i am known as", FIRM), ("im known as", FIRM), ("i am named", FIRM), ("i go by", FIRM),
    ("to be called", FIRM), ("i prefer being called", FIRM), ("i am", SOFT), ("im", SOFT), ("i m", SOFT),
    ("this is", SOFT), ("user name is", FIRM), ("user is", SOFT), ("username", FIRM), ("user name", FIRM),
    ("name is", FIRM), ("names", SOFT),
];

/// Phrases before what the person wants to be called.
#[rustfmt::skip]
pub(crate) const BEFORE_CALL_NAME: &[&str] = &[
    "call me", "calls me", "address me as", "address me with", "refer to me as", "nickname is", "name me",
];

/// Words that end a name, whatever stands before them.
#[rustfmt::skip]
pub(crate) const NEVER_A_NAME: &[&str] = &[
    "a", "about", "actually", "again", "all", "also", "am", "an", "and", "any", "anything", "are", "as",
    "at", "be", "because", "btw", "but", "by", "call", "can", "could", "did", "do", "does", "dont", "for",
    "from", "go", "going", "has", "have", "hello", "hey", "hi", "how", "however", "i", "id", "if", "ill",
    "im", "in", "instead", "is", "it", "its", "ive", "just", "let", "lets", "like", "maybe", "me", "my",
    "myself", "name", "no", "not", "now", "of", "off", "ok", "okay", "on", "or", "please", "pls", "should",
    "since", "so", "some", "something", "someone", "than", "thank", "thanks", "that", "thats", "the",
    "then", "there", "they", "this", "though", "to", "today", "too", "use", "using", "very", "was", "we",
    "what", "whatever", "when", "where", "which", "while", "who", "why", "will", "with", "would", "yeah",
    "yes", "yep", "you", "your", "youre", "yours", "yourself", "whats", "isnt", "thx", "sorry", "anyway",
    "only", "more", "less", "here", "him", "her", "them", "his", "their", "our", "us", "were", "been",
    "being", "had", "may", "might", "must", "shall", "rather",
];

/// Words that follow "I am" or "you are" without being a name.
#[rustfmt::skip]
pub(crate) const NOT_AFTER_AM: &[&str] = &[
    "able", "afraid", "alive", "allowed", "almost", "alone", "already", "always", "angry", "asking",
    "available", "awake", "away", "awesome", "back", "bad", "based", "better", "born", "bored", "both",
    "busy", "calling", "certain", "closed", "coming", "confused", "cool", "correct", "curious", "delighted",
    "developing", "different", "doing", "done", "dumb", "easy", "either", "even", "ever", "everything",
    "excited", "exhausted", "fine", "finished", "first", "free", "fun", "getting", "glad", "gonna", "good",
    "great", "grateful", "happy", "helpful", "home", "hoping", "hungry", "ill", "impressed", "interested",
    "invited", "joking", "keen", "kidding", "late", "learning", "leaving", "live", "living", "looking",
    "lost", "mad", "male", "female", "married", "mostly", "nearly", "new", "nervous", "never", "nice",
    "nobody", "none", "nothing", "offline", "often", "old", "one", "online", "open", "out", "over",
    "pleased", "pretty", "probably", "quite", "ready", "real", "really", "retired", "right", "running",
    "sad", "scared", "set", "shy", "sick", "single", "skeptical", "sleepy", "slow", "smart", "still",
    "stuck", "stupid", "super", "supposed", "sure", "surprised", "talking", "testing", "thinking",
    "thirsty", "tired", "true", "trying", "two", "typing", "uncertain", "under", "undecided", "unsure",
    "up", "upset", "useless", "usually", "waiting", "wanting", "weird", "welcome", "well", "wondering",
    "working", "worried", "writing", "wrong", "young", "years", "nosy", "amazing", "wonderful", "funny",
    "perfect", "lovely", "okay", "fantastic", "excellent", "neat", "interesting", "cute", "silly", "boring",
    "terrible", "annoying", "later", "tomorrow", "tonight", "import", "skip", "pass", "choose", "pick",
    "help", "stop", "quit", "exit", "run", "remember", "forget", "nope", "nah", "sup", "hm", "hmm", "uh",
    "um", "er", "oh", "ah", "wow", "lol", "haha", "names", "default", "defaults", "idk", "dunno", "english",
    "german", "french", "spanish", "italian", "american", "british", "indian", "chinese", "japanese",
    "canadian",
];

/// Small words inside names that stay lower case.
#[rustfmt::skip]
pub(crate) const NAME_PARTICLES: &[&str] = &[
    "von", "van", "der", "den", "de", "da", "di", "del", "la", "le", "bin", "al", "el", "dos", "ter",
];

/// "You decide", in its usual shapes.
#[rustfmt::skip]
pub(crate) const LEAVES_IT_TO_US: &[&str] = &[
    "you choose", "you pick", "you decide", "your choice", "your call", "up to you", "surprise me",
    "whatever", "any name", "dont care", "do not care", "dont mind", "do not mind", "no preference",
    "dealers choice", "pick one", "pick something", "choose one", "choose for", "pick for",
    "choose something", "pick a name", "choose a name", "decide for", "you name it", "any is fine",
    "anything", "either", "default", "defaults", "the default", "no idea", "not sure", "idk", "dunno",
    "dont know", "do not know", "suggest one", "surprise", "choose yourself", "pick yourself",
    "decide yourself", "makes no difference", "all the same", "no matter", "doesnt matter",
    "does not matter", "i trust you", "choose your own", "pick your own", "choose any", "pick any",
];

/// "I will not tell", in its usual shapes.
#[rustfmt::skip]
pub(crate) const DECLINES: &[&str] = &[
    "rather not", "none of your business", "not telling", "wont tell", "will not tell", "wont say",
    "not say", "prefer not", "no name", "no names", "anonymous", "skip", "pass", "leave me alone",
    "stop asking", "not saying", "dont want to", "do not want to", "not important", "secret", "private",
    "nothing", "nobody", "no one", "dont need a name", "dont need names", "why do you", "no thanks", "nope",
    "nah", "not now", "later",
];

/// Manners people ask for.
#[rustfmt::skip]
pub(crate) const MANNERS: &[&str] = &[
    "blunt", "bold", "brief", "bubbly", "calm", "careful", "casual", "chatty", "cheeky", "cheerful",
    "chill", "clear", "compact", "concise", "cosy", "creative", "crisp", "curious", "cute", "detailed",
    "direct", "dry", "earnest", "efficient", "encouraging", "energetic", "enthusiastic", "factual",
    "formal", "frank", "friendly", "fun", "funny", "geeky", "gentle", "goofy", "helpful", "honest",
    "humble", "humorous", "informal", "ironic", "kind", "laconic", "laid-back", "literal", "lively",
    "loyal", "mellow", "minimal", "minimalist", "modest", "motivating", "nerdy", "neutral", "objective",
    "optimistic", "patient", "playful", "poetic", "polite", "positive", "practical", "pragmatic", "precise",
    "professional", "quick", "quiet", "quirky", "relaxed", "reliable", "reserved", "respectful",
    "sarcastic", "sassy", "sceptical", "serious", "sharp", "short", "silly", "simple", "snarky", "sober",
    "soft", "solid", "stoic", "straightforward", "strict", "succinct", "supportive", "sweet", "terse",
    "thorough", "thoughtful", "upbeat", "verbose", "warm", "weird", "whimsical", "wise", "witty",
];

/// Words that say a sentence is about the assistant's manner.
#[rustfmt::skip]
pub(crate) const MANNER_CUES: &[&str] = &[
    "be", "being", "vibe", "personality", "tone", "style", "sound", "manner", "keep", "answers", "answer",
    "replies", "reply", "character", "act", "talk", "speak", "mood", "attitude", "you", "your", "youre",
    "want", "prefer", "like", "make", "write", "stay",
];

/// Natures people give an assistant.
#[rustfmt::skip]
pub(crate) const CREATURES: &[&str] = &[
    "ai", "android", "angel", "badger", "bat", "bear", "beaver", "bee", "bird", "bot", "butler", "capybara",
    "cat", "companion", "crow", "daemon", "djinn", "dog", "dolphin", "dragon", "eagle", "elephant", "elf",
    "fairy", "falcon", "familiar", "ferret", "fox", "frog", "ghost", "gnome", "goblin", "golem", "hamster",
    "hedgehog", "helper", "imp", "kitten", "koala", "librarian", "lion", "lizard", "llama", "lobster",
    "lynx", "machine", "mermaid", "monk", "monkey", "moose", "mouse", "octopus", "otter", "owl", "panda",
    "parrot", "penguin", "phoenix", "pirate", "puppy", "rabbit", "raccoon", "raven", "robot", "secretary",
    "seal", "shark", "sloth", "snail", "spider", "spirit", "sprite", "squirrel", "tiger", "tortoise",
    "turtle", "unicorn", "whale", "wizard", "wolf",
];

/// How sentences about the person's life and wishes begin.
#[rustfmt::skip]
pub(crate) const ABOUT_THE_PERSON: &[&str] = &[
    "i like", "i love", "i prefer", "i hate", "i dislike", "i enjoy", "i work", "i live", "i use",
    "i speak", "i study", "i code", "i program", "i write", "i teach", "i run a", "i have", "i am a",
    "i am an", "im a", "im an", "i am from", "im from", "i am in", "im in", "i am based", "im based",
    "i am learning", "im learning", "i am working on", "im working on", "my job", "my favourite",
    "my favorite", "my language", "my pronouns", "my hobby", "my hobbies", "my work", "my team", "always",
    "never", "please dont", "please do not", "i want you to always", "i want you to never", "answer me in",
    "answer in", "speak to me in", "reply in", "i need",
];
