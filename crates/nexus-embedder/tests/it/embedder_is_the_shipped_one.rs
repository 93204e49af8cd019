use std::sync::OnceLock;

use nexus_embedder::{Asset, AssetError, DIMENSIONS, embed, pieces};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

/// What `cargo xtask distill-embedder` gives.
const SHA256: &str = "827f5144a10785792993ba63c5a0de1f73739a7002e2cd54898a861dc36843b8";
static BYTES: &[u8] = include_bytes!("../../assets/minilm-256.bin");

fn asset() -> Asset {
    Asset::shipped().unwrap()
}

fn oracle() -> &'static Tokenizer {
    static ORACLE: OnceLock<Tokenizer> = OnceLock::new();
    ORACLE.get_or_init(|| {
        let asset = asset();
        let file = tempfile::NamedTempFile::new().unwrap();
        let numbers = 0..u16::try_from(asset.len()).unwrap();
        let lines: Vec<&[u8]> = numbers.map(|number| asset.entry(number).unwrap()).collect();
        std::io::Write::write_all(&mut file.as_file(), &lines.join(&b'\n')).unwrap();
        let model = WordPiece::from_file(file.path().to_str().unwrap()).build().unwrap();
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_normalizer(Some(BertNormalizer::new(true, true, None, true))).unwrap();
        tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
        tokenizer
    })
}

fn same(text: &str) -> Result<(), TestCaseError> {
    let expected: Vec<u32> = oracle().encode(text, false).unwrap().get_ids().to_vec();
    let ours: Vec<u32> = pieces(&asset(), text, usize::MAX).into_iter().map(u32::from).collect();
    prop_assert_eq!(ours, expected, "{:?}", text);
    Ok(())
}

#[test]
fn the_asset_is_the_distilled_one_and_small_enough() {
    let hash: String = Sha256::digest(BYTES).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, SHA256);
    assert!(BYTES.len() <= 10 * 1000 * 1000, "{} bytes", BYTES.len());
    assert_eq!(asset().len(), 30_522);
    assert_eq!(Asset::over(b"something else").unwrap_err(), AssetError::Foreign);
    assert_eq!(Asset::over(&BYTES[..BYTES.len() - 1]).unwrap_err(), AssetError::Foreign);
}

#[test]
fn texts_are_cut_as_the_models_own_tokenizer_cuts_them() {
    for text in [
        "",
        " \t\n",
        "Hello, World! It's 12:30 — don't be late…",
        "Crème brûlée in Zürich; Ångström, naïve façade, İstanbul",
        "東京に住んでいる。私は学生です。北京大学 한국어 단어",
        "emoji 👩‍👩‍👧‍👦 🎉 family 🏳️‍🌈 and ❤️",
        "supercalifragilisticexpialidocious antidisestablishmentarianism",
        "tab\tnull\0replacement\u{FFFD}zero\u{200B}width soft\u{AD}hyphen",
        "\u{1F600}x\u{301}y e\u{301}cole Ⅷ ﬁnance ½ ² ™",
        "path/to/file.rs fn main() { let x = \"y\"; } #[test] a_b-c",
        "ªº ß ẞ ς Σ ǅ Straße",
    ] {
        same(text).unwrap();
    }
    same(&"x".repeat(100)).unwrap();
    same(&"x".repeat(101)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_cut_the_same(text in "([a-zA-Z0-9 .,'!?\\-]|[À-ÿĀ-ſ]|[αβγΔЖя]|[぀-ヿ一-龥가-힣]|[😀-🙏]|\u{301}|\u{200D}|\u{FE0F}|\n|\u{A0}|\u{3000}){0,60}") {
        same(&text)?;
    }
}

#[test]
fn near_meanings_are_near_and_vectors_have_length_one() {
    let vector = |text: &str| embed(&asset(), text).unwrap();
    let near = |left: &str, right: &str| vector(left).similarity(&vector(right));
    let (same, close, far) = (
        near("My sister lives in Lisbon.", "My sister lives in Lisbon."),
        near("Where does my sister live?", "Her sibling has a home in Portugal."),
        near("Where does my sister live?", "The invoice is due on Friday."),
    );
    assert!((same - 1.0).abs() < 0.01, "{same}");
    assert!(close > far + 0.1, "{close} {far}");
    assert_eq!(vector("Tea, please!").values.len(), DIMENSIONS);
    assert_eq!(embed(&asset(), "?!… …"), None, "punctuation says nothing");
    assert_eq!(embed(&asset(), ""), None);
    assert_eq!(vector("the quick fox"), vector("The QUICK fox!"), "letters, not their looks");
    assert!(pieces(&asset(), &"word ".repeat(5000), 512).len() <= 512);
}
