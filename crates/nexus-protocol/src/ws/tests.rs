use proptest::prelude::*;

use super::*;

fn code(bytes: &[u8]) -> (ErrorCode, Option<String>) {
    let error = read_request(bytes).unwrap_err();
    (error.code(), error.to_response().id)
}

#[test]
fn a_request_is_read_whole() {
    let frame = read_request(br#"{"type":"req","id":"7","method":"chat.send","params":{"a":[1]}}"#).unwrap();
    assert_eq!((frame.id.as_str(), frame.method.as_str()), ("7", "chat.send"));
    assert_eq!(frame.params.unwrap()["a"][0], 1);
}

#[test]
fn every_way_of_being_wrong_has_its_code() {
    let too_long = vec![b' '; MAX_FRAME_LEN + 1];
    let deep =
        format!(r#"{{"type":"req","id":"1","method":"x","params":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
    for (bytes, expected, id) in [
        (&b"\xff\xfe"[..], ErrorCode::InvalidRequest, None),
        (&too_long, ErrorCode::TooLarge, None),
        (deep.as_bytes(), ErrorCode::InvalidRequest, None),
        ("[".repeat(200_000).as_bytes(), ErrorCode::InvalidRequest, None),
        (br#"{"type":"req","id":"1","meth"#, ErrorCode::InvalidRequest, None),
        (br#"{"type":"res","id":"1","method":"x"}"#, ErrorCode::InvalidRequest, Some("1")),
        (br#"{"type":"req","id":"1"}"#, ErrorCode::InvalidRequest, Some("1")),
        (br#"{"type":"req","id":1,"method":"x"}"#, ErrorCode::InvalidRequest, None),
        (br#"{"type":"req","id":"","method":"x"}"#, ErrorCode::InvalidRequest, None),
        (br#"{"type":"req","id":"a","method":"x","extra":1}"#, ErrorCode::InvalidRequest, Some("a")),
        (b"null", ErrorCode::InvalidRequest, None),
        (b"", ErrorCode::InvalidRequest, None),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!(code(bytes), (expected, id.map(str::to_owned)), "{shown}");
    }
}

#[test]
fn a_refusal_does_not_repeat_what_was_sent() {
    let secret = "hunter2hunter2";
    for text in [
        format!(r#"{{"type":"{secret}","id":"1","method":"x"}}"#),
        format!(r#"{{"type":"req","id":"1","method":"x","{secret}":1}}"#),
        format!("{{{secret}"),
    ] {
        let error = read_request(text.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains(secret), "{error}");
    }
}

#[test]
fn brackets_inside_strings_do_not_count() {
    let text = format!(r#"{{"type":"req","id":"1","method":"x","params":"\"{}"}}"#, "[".repeat(100));
    assert!(read_request(text.as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read_request(&bytes);
    }

    #[test]
    fn a_cut_frame_is_refused(cut in 1usize..60) {
        let whole = r#"{"type":"req","id":"7","method":"chat.send","params":{"message":"hello there"}}"#;
        prop_assert!(read_request(&whole.as_bytes()[..cut]).is_err());
    }

    #[test]
    fn what_is_written_is_read(id in "[a-z0-9]{1,20}", method in "[a-z.]{1,20}", text in ".{0,100}") {
        let frame = RequestFrame {
            kind: RequestKind::Request,
            id,
            method,
            params: Some(serde_json::json!({ "text": text })),
        };
        let bytes = serde_json::to_vec(&frame).unwrap();
        prop_assert_eq!(read_request(&bytes).unwrap(), frame);
    }
}
