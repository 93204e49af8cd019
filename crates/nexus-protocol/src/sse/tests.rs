use proptest::prelude::*;

use super::*;

fn decode(chunks: &[&[u8]]) -> Result<Vec<Frame>, DecodeError> {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    for chunk in chunks {
        decoder.push(chunk)?;
        while let Some(frame) = decoder.next_frame() {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn frame(id: Option<&str>, event: &str, data: &str) -> Frame {
    Frame {
        id: id.map(str::to_owned),
        event: Some(event.to_owned()).filter(|event| !event.is_empty()),
        data: data.to_owned(),
    }
}

#[test]
fn fields_comments_and_blank_lines() {
    let stream =
        "\u{feff}: hello\nretry: 1000\n\nid: 7\nevent: a\ndata: one\ndata:two\n\nid: 8\n\ndata\n\ndata: cut";
    assert_eq!(
        decode(&[stream.as_bytes()]).unwrap(),
        [frame(Some("7"), "a", "one\ntwo"), frame(None, "", "")]
    );
}

#[test]
fn a_stream_may_end_without_its_last_blank_line() {
    for (stream, last) in [
        ("data: a\n\ndata: b", Some(frame(None, "", "b"))),
        ("event: x\ndata: one\n", Some(frame(None, "x", "one"))),
        ("data: a\n\n", None),
        ("event: lost", None),
        ("", None),
    ] {
        let mut decoder = Decoder::new();
        decoder.push(stream.as_bytes()).unwrap();
        while decoder.next_frame().is_some() {}
        assert_eq!(decoder.finish().unwrap(), last, "{stream:?}");
    }
}

#[test]
fn all_three_line_endings_mean_the_same() {
    let plain = "id: 1\nevent: x\ndata: y\n\ndata: z\n\n";
    let expected = [frame(Some("1"), "x", "y"), frame(None, "", "z")];
    for ending in ["\n", "\r", "\r\n"] {
        assert_eq!(decode(&[plain.replace('\n', ending).as_bytes()]).unwrap(), expected, "{ending:?}");
    }
}

#[test]
fn an_endless_event_is_refused_and_so_is_an_endless_line() {
    let line = format!("data: {}\n", "x".repeat(1000));
    let mut decoder = Decoder::new();
    let outcome = (0..5000).try_for_each(|_| decoder.push(line.as_bytes()));
    assert_eq!(outcome, Err(DecodeError::TooLong));
    let mut decoder = Decoder::new();
    let outcome = (0..5000).try_for_each(|_| decoder.push(&[b'x'; 1000]));
    assert_eq!(outcome, Err(DecodeError::TooLong));
}

#[test]
fn endless_comments_cost_nothing() {
    let mut decoder = Decoder::new();
    for _ in 0..100_000 {
        decoder.push(b": still here\n\n").unwrap();
    }
    assert_eq!(decoder.next_frame(), None);
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    assert_eq!(decode(&[b"data: \xff\xfe\n\n"]), Err(DecodeError::NotUtf8));
}

fn stream_text() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        Just("data: ".to_owned()),
        Just("data:".to_owned()),
        Just("id: ".to_owned()),
        Just("event: ".to_owned()),
        Just(": ".to_owned()),
        Just("retry: ".to_owned()),
        Just(String::new()),
    ];
    let ending = prop_oneof![Just("\n"), Just("\r"), Just("\r\n"), Just("\n\n"), Just("\r\n\r\n")];
    proptest::collection::vec((field, "[a-zäö€🦀: ]{0,12}", ending), 0..24)
        .prop_map(|lines| lines.iter().map(|(field, text, end)| format!("{field}{text}{end}")).collect())
        .prop_map(String::into_bytes)
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(stream in stream_text(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = decode(&[&stream]).unwrap();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&decode(&pieces).unwrap(), &whole);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(&decode(&bytes).unwrap(), &whole);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(stream in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _ = decode(&[&stream]);
    }
}
