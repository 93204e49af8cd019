//! Servers on this machine are found by asking, and other programs on those ports do no harm.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use nexus_llm::discover;
use nexus_net::Net;
use nexus_testkit::model::ModelServer;

#[tokio::test(flavor = "multi_thread")]
async fn those_that_answer_are_listed_and_the_rest_is_left_out() {
    let server = ModelServer::start();
    server.models(&["text-embedder", "tiny-chat"]);
    // Nobody there; somebody who says nothing; somebody who speaks something else.
    let empty = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports =
        [empty, silent.local_addr().unwrap().port(), stranger.local_addr().unwrap().port(), server.port()];
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = stranger.accept() {
            let _ = stream.write_all(b"SSH-2.0-x\r\n");
        }
    });
    let started = Instant::now();
    let found = discover(&Net::new(), &ports).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].name.as_str(), found[0].base.as_str()), ("local", server.base_url().as_str()));
    let ids: Vec<&str> = found[0].models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["tiny-chat", "text-embedder"]);
}
