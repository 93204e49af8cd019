//! Enums whose variants are words: stored, sent or typed.

/// Declares an enum with one word for each variant, and the ways between the two.
#[macro_export]
macro_rules! words {
    ($(#[$attribute:meta])* $visibility:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            /// Every one, in the order they are declared.
            $visibility const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Returns its word.
            $visibility const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Returns what a word stands for.
            $visibility fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}
