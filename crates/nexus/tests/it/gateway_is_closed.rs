//! Incidents of other gateways as tests against the real binary. Names carry the incident's number.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nexus_protocol::methods::Method;
use nexus_testkit::client::{Client, ClientError, Socket};
use nexus_testkit::http::{self, Answer};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

fn start(workspace: &Workspace) -> Daemon {
    Daemon::start(workspace, &DaemonOptions::default())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Sends a request with headers of its own; a WebSocket upgrade on every route, as an attacker would.
fn attack(daemon: &Daemon, verb: &str, path: &str, headers: &str) -> Answer {
    let path = path.replace("{id}", "x");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let request = format!("{verb} {path} HTTP/1.1\r\n{headers}\r\n{upgrade}Content-Length: 0\r\n\r\n");
    http::exchange(daemon.port(), request.as_bytes()).unwrap_or_else(|error| panic!("{verb} {path}: {error}"))
}

fn call(port: u16, token: Option<&str>, method: &str, params: &Value) -> Answer {
    http::post(port, "/api/call", token, &json!({ "method": method, "params": params }).to_string()).unwrap()
}

#[test]
fn t01_no_page_is_served_that_could_be_told_where_to_connect() {
    let workspace = workspace();
    let daemon = start(&workspace);
    for path in ["/", "/index.html", "/ui", "/?gatewayUrl=ws://evil.example"] {
        let answer = daemon.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("content-security-policy"), Some("default-src 'none'"));
        assert!(!answer.body.contains("evil.example"));
    }
}

#[test]
fn t02_a_foreign_origin_gets_403_before_any_101() {
    let workspace = workspace();
    let daemon = start(&workspace);
    let (own, token) = (format!("127.0.0.1:{}", daemon.port()), daemon.token().to_owned());
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        format!("http://127.0.0.1:{}", daemon.port().wrapping_add(1)),
        format!("https://{own}"),
        format!("http://localhost:{}", daemon.port()),
    ] {
        for route in nexus_server::routes() {
            let headers = format!("Host: {own}\r\nOrigin: {origin}\r\nAuthorization: Bearer {token}");
            let answer = attack(&daemon, route.verb, route.path, &headers);
            assert_eq!(answer.status, 403, "{} from {origin}", route.path);
        }
    }
}

#[test]
fn t03_a_foreign_host_is_refused_on_every_route_and_upgrade_token_or_not() {
    let workspace = workspace();
    let daemon = start(&workspace);
    for host in
        ["evil.example".to_owned(), format!("evil.example:{}", daemon.port()), "127.0.0.1:1".to_owned()]
    {
        for route in nexus_server::routes() {
            for authorization in [String::new(), format!("\r\nAuthorization: Bearer {}", daemon.token())] {
                let answer = attack(&daemon, route.verb, route.path, &format!("Host: {host}{authorization}"));
                assert_eq!(answer.status, 403, "{} for {host}", route.path);
            }
        }
    }
}

#[test]
fn t04_wrong_tokens_are_slowed_and_the_owner_is_never_locked_out() {
    let workspace = workspace();
    let daemon = start(&workspace);
    assert!(daemon.token().len() >= 32, "at least 128 bits in hex");
    let port = daemon.port();
    let guessers: Vec<_> = (0..8)
        .map(|guesser| {
            std::thread::spawn(move || {
                let begun = Instant::now();
                for guess in 0..3 {
                    let token = format!("wrong-{guesser}-{guess}");
                    assert_eq!(http::get(port, "/api/sessions", Some(&token)).unwrap().status, 401);
                }
                begun.elapsed()
            })
        })
        .collect();
    // In the middle of it the owner is served at once.
    let begun = Instant::now();
    assert_eq!(daemon.get("/api/sessions").status, 200);
    let owner = begun.elapsed();
    for guesser in guessers {
        assert!(guesser.join().unwrap() > Duration::from_millis(300));
    }
    assert!(owner < Duration::from_secs(2), "{owner:?}");
    // Over the socket as well.
    let begun = Instant::now();
    let wrong = block_on(Socket::connect(port, &"wrong".to_owned().into(), "test", None));
    assert!(wrong.is_err() && begun.elapsed() > Duration::from_millis(500), "{:?}", begun.elapsed());
    assert_eq!(daemon.get("/api/sessions").status, 200);
}

#[test]
fn t05_there_is_no_pairing() {
    for method in Method::ALL {
        let entry = method.entry();
        assert!(!entry.name.contains("pair") && !entry.name.contains("device"), "{}", entry.name);
    }
    assert!(nexus_server::routes().iter().all(|route| !route.path.contains("pair")));
}

#[test]
fn t06_whatever_changes_something_refuses_without_a_token() {
    let workspace = workspace();
    let daemon = start(&workspace);
    let before = workspace.file("state/config.json");
    let mutating: Vec<_> = nexus_server::routes().into_iter().filter(|route| route.is_mutating).collect();
    assert!(mutating.len() >= 4, "{mutating:?}");
    for route in mutating.iter().filter(|route| route.path != "/ws") {
        let request = http::request(route.verb, daemon.port(), route.path, None, "{}");
        assert_eq!(http::exchange(daemon.port(), &request).unwrap().status, 401, "{route:?}");
    }
    for method in Method::ALL {
        let answer = call(daemon.port(), None, method.entry().name, &json!({}));
        assert_eq!(answer.status, 401, "{method:?}");
    }
    assert_eq!(workspace.file("state/config.json"), before);
}

fn made_token(daemon: &Daemon, scopes: &[&str]) -> (String, String) {
    let made = call(
        daemon.port(),
        Some(daemon.token()),
        "tokens.create",
        &json!({ "label": "test", "scopes": scopes }),
    );
    assert_eq!(made.status, 200, "{}", made.body);
    let made = made.json();
    (made["about"]["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

#[test]
fn t07_scopes_come_from_the_stored_token_only() {
    let workspace = workspace();
    let daemon = start(&workspace);
    let (_, token) = made_token(&daemon, &["control.*.read"]);
    let token = Some(token.as_str());
    for method in
        Method::ALL.iter().filter(|method| method.entry().is_mutating() && **method != Method::Connect)
    {
        let answer = call(daemon.port(), token, method.entry().name, &json!({}));
        assert_eq!(answer.status, 403, "{method:?}: {}", answer.body);
    }
    let send = http::post(daemon.port(), "/api/chat", token, r#"{"message":"hi"}"#).unwrap();
    assert_eq!(send.status, 403, "{}", send.body);
    assert_eq!(call(daemon.port(), token, "sessions.list", &json!({})).status, 200);
    // Nobody gives out more than they have.
    let (_, admin) = made_token(&daemon, &["control.tokens.*"]);
    let more = call(daemon.port(), Some(&admin), "tokens.create", &json!({ "scopes": ["control.*.*"] }));
    assert_eq!(more.status, 403, "{}", more.body);
    let declared = json!({ "type": "req", "id": "1", "method": "connect", "params": {
        "minProtocol": 1, "maxProtocol": 1, "role": "owner", "scopes": ["control.config.admin"], "auth": { "token": token } } });
    assert_eq!(first_answer(&daemon, &declared.to_string())["error"]["code"], "FORBIDDEN");
}

/// Opens a socket by hand, sends one text frame and returns the first answer.
fn first_answer(daemon: &Daemon, text: &str) -> Value {
    let mut stream = TcpStream::connect(("127.0.0.1", daemon.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        daemon.port()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut frame = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    stream.write_all(&frame).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).unwrap();
        received.extend(&buffer[..read]);
        let text = String::from_utf8_lossy(&received);
        if let Some(at) = text.find(r#"{"type":"res""#) {
            let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                return value;
            }
        }
        assert!(read > 0, "{text}");
    }
}

#[test]
fn t08_rotation_ends_old_tokens_and_open_sockets_at_once() {
    let workspace = workspace();
    let daemon = start(&workspace);
    let (_, given) = made_token(&daemon, &["control.*.read"]);
    block_on(async {
        let mut owner =
            Socket::connect(daemon.port(), &daemon.token().to_owned().into(), "test", None).await.unwrap();
        let mut other = Socket::connect(daemon.port(), &given.clone().into(), "test", None).await.unwrap();
        let mut events = daemon.client().events(None, None).await.unwrap();
        let _: Value = owner.call(Method::Health, &json!({})).await.unwrap();
        workspace.nexus(&["config", "rotate-token"]).ok();
        assert_eq!(daemon.get("/api/sessions").status, 401, "the old token on the next request");
        assert_eq!(http::get(daemon.port(), "/api/sessions", Some(&given)).unwrap().status, 401);
        for socket in [&mut owner, &mut other] {
            let ended = tokio::time::timeout(Duration::from_secs(5), async {
                loop {
                    if let Err(error) = socket.receive().await {
                        return error;
                    }
                }
            });
            assert!(matches!(ended.await.unwrap(), ClientError::Disconnected { .. }));
        }
        let stream = tokio::time::timeout(Duration::from_secs(5), async {
            while let Ok(Some(_)) = events.next().await {}
        });
        stream.await.unwrap();
        let client = Client::new(daemon.port(), workspace.token().into());
        assert!(client.requests(None).await.is_ok(), "the new token at once");
    });
}

#[test]
fn t08_a_token_replaced_by_hand_counts_after_a_reload_or_a_start() {
    let workspace = workspace();
    let daemon = start(&workspace);
    let (_, given) = made_token(&daemon, &["control.*.read"]);
    let port = daemon.port();
    assert_eq!(http::get(port, "/api/sessions", Some(&given)).unwrap().status, 200);
    daemon.stop();
    workspace.nexus(&["config", "rotate-token"]).ok();
    let daemon = start(&workspace);
    assert_eq!(http::get(daemon.port(), "/api/sessions", Some(&given)).unwrap().status, 401);
    assert_eq!(daemon.get("/api/sessions").status, 200);
}

#[test]
fn t10_the_token_goes_to_nobody_but_our_own_daemon() {
    let workspace = workspace();
    let token = workspace.token();
    // Somebody else has our port, and no daemon runs: commands must not tell them anything.
    let impostor = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = impostor.local_addr().unwrap().port();
    workspace.nexus(&["config", "set", "runtime.port", &port.to_string()]).ok();
    impostor.set_nonblocking(true).unwrap();
    for arguments in [
        &["status", "--json"][..],
        &["chat", "-m", "hi"],
        &["approvals", "list"],
        &["stop"],
        &["config", "rotate-token"],
    ] {
        let finished = workspace.nexus(arguments);
        assert!(!finished.stdout.contains(&token) && !finished.stderr.contains(&token), "{arguments:?}");
        if let Ok((mut stream, _)) = impostor.accept() {
            let mut heard = String::new();
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let _ = stream.read_to_string(&mut heard);
            assert!(!heard.contains(&token), "{arguments:?} told {heard:?}");
        }
    }
    drop(impostor);
    let daemon = start(&workspace);
    daemon.post("/api/chat", &json!({ "message": "Hello" }));
    let process = format!("/proc/{}", daemon.pid());
    let token = daemon.token();
    for file in ["cmdline", "environ"] {
        let bytes = std::fs::read(format!("{process}/{file}")).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(token), "{file}");
    }
    assert!(!daemon.log().contains(token));
}

#[test]
fn t11_a_token_in_the_address_is_refused_and_addresses_are_not_logged() {
    let workspace = workspace();
    workspace.nexus(&["config", "set", "logging.level", "debug"]).ok();
    let daemon = start(&workspace);
    for route in nexus_server::routes() {
        for query in [format!("token={}", daemon.token()), "x=1&access_token=abc".to_owned()] {
            let path = format!("{}?{query}", route.path.replace("{id}", "x"));
            let request = http::request(route.verb, daemon.port(), &path, Some(daemon.token()), "{}");
            assert_eq!(http::exchange(daemon.port(), &request).unwrap().status, 400, "{path}");
        }
    }
    daemon.get("/api/sessions?limit=37");
    let log = daemon.log();
    assert!(log.contains("/api/sessions"), "the log tells which routes were asked");
    for secret in [daemon.token(), "access_token", "limit=37"] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[test]
fn t12_nothing_listens_beyond_this_machine() {
    let workspace = workspace();
    for bind in ["0.0.0.0", "::", "lan", "192.168.1.7"] {
        assert_eq!(workspace.nexus(&["config", "set", "runtime.bind", bind]).code(), Some(1), "{bind}");
    }
    let good = workspace.file("state/config.json");
    let mut config: Value = serde_json::from_str(&good).unwrap();
    config["runtime"]["bind"] = json!("0.0.0.0");
    workspace.write("state/config.json", &config.to_string());
    assert_eq!(workspace.nexus(&["start", "--port", "0"]).code(), Some(1));
    config["runtime"]["bind"] = json!("loopback");
    config["runtime"]["auth"]["mode"] = json!("none");
    workspace.write("state/config.json", &config.to_string());
    assert_eq!(
        workspace.nexus(&["start", "--port", "0"]).code(),
        Some(1),
        "there is no way to go without a token"
    );
    workspace.write("state/config.json", &good);
    let daemon = start(&workspace);
    for line in nexus_testkit::witness::ONBOARDING {
        let sent = daemon.post("/api/chat", &json!({ "message": line })).json();
        daemon
            .get(&format!("/api/chat/wait?request={}&timeoutMs=60000", sent["requestId"].as_str().unwrap()));
    }
    // Looked at while a worker's command runs: it is part of the tree. That no command can listen at
    // all is the sandbox's own test.
    let mark = workspace.path("home/runs");
    daemon.post("/api/chat", &json!({ "message": "run `touch runs; sleep 2`" }));
    until("the command to run", Duration::from_secs(30), || mark.exists().then_some(()));
    let tree = process_tree(daemon.pid());
    assert!(tree.len() > 1, "the command is not below the daemon: {tree:?}");
    let listeners: Vec<String> = tree.iter().flat_map(|pid| listeners(*pid)).collect();
    assert!(!listeners.is_empty());
    for address in listeners {
        assert!(
            address.starts_with("0100007F:") || address.starts_with("00000000000000000000000001000000:"),
            "{address}"
        );
    }
}

/// A process and everything below it.
fn process_tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut tree = vec![root];
    let mut at = 0;
    while at < tree.len() {
        let above = tree[at];
        tree.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        at += 1;
    }
    tree
}

/// Addresses a process listens on, as the kernel writes them.
fn listeners(pid: u32) -> Vec<String> {
    // One that ended meanwhile listens to nobody.
    let sockets: BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    ["tcp", "tcp6", "udp", "udp6"]
        .iter()
        .flat_map(|table| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            let rows: Vec<Vec<String>> = text
                .lines()
                .skip(1)
                .map(|line| line.split_whitespace().map(str::to_owned).collect())
                .collect();
            rows
        })
        .filter(|row| row.len() > 9 && row[3] == "0A" && sockets.contains(&row[9]))
        .map(|row| row[1].clone())
        .collect()
}

#[test]
fn t13_files_are_the_owner_s_alone() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = workspace();
    let daemon = start(&workspace);
    daemon.post("/api/chat", &json!({ "message": "Hello" }));
    let mut left = vec![workspace.path("state")];
    while let Some(path) = left.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let mode = found.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
        if found.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

/// Runs as somebody without rights: whoever is root may read everything.
const AS_A_PLAIN_USER: &str = r#"
set -eu
drop=; [ "$(id -u)" != 0 ] || drop='setpriv --reuid=65534 --regid=65534 --clear-groups'
export HOME=$1 XDG_STATE_HOME=$1/state NEXUS_ROOT=$1/workspace TMPDIR=$1
[ "$($drop id -u)" != 0 ]
$drop "$2" init > /dev/null
$drop "$2" start --port 0 > "$1/said" 2>&1 &
daemon=$!
rounds=0
until grep -q listening "$1/said"; do rounds=$((rounds + 1)); [ $rounds -lt 400 ]; sleep 0.05; done
stat -c 'memory of %u' /proc/$daemon/environ
grep 'Max core file size' /proc/$daemon/limits
$drop "$2" chat -m hello
$drop "$2" stop
wait $daemon
"#;

#[test]
fn t13_the_daemon_s_memory_is_written_to_no_file_and_read_by_no_other_program() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (home, binary) = (folder.path().join("home"), folder.path().join("nexus"));
    std::fs::create_dir(&home).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&home, Some(65_534), Some(65_534)).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_nexus"), &binary).unwrap();
    let shell = Workspace::new("/bin/sh");
    let (home, binary) = (home.to_str().unwrap(), binary.to_str().unwrap());
    let finished = shell.run(&nexus_testkit::Run::new(&["-c", AS_A_PLAIN_USER, "sh", home, binary])).ok();
    let said = finished.stdout;
    // Not even a core that is piped to a program, which knows no limit: the kernel gives it to root alone.
    assert!(said.contains("memory of 0\n"), "{said}");
    let limit = said.lines().find(|line| line.starts_with("Max core")).unwrap();
    assert_eq!(limit.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{said}");
    // And everything works for a plain user, a worker in its box included.
    assert!(said.contains("The credential scan found"), "{said}");
}

#[test]
fn t14_a_planted_secret_comes_back_through_no_answer_event_or_error() {
    let canary = format!("sk-ant-{}", "c4n4ry".repeat(6));
    let odd = format!("planted-{}", "odd".repeat(6));
    let mut workspace = workspace();
    workspace.set_variable("ANTHROPIC_API_KEY", &canary);
    workspace.set_variable("SOME_SERVICE_TOKEN", &odd);
    let daemon = start(&workspace);
    let clean = |what: &str, text: &str| {
        for secret in [&canary, &odd, daemon.token()] {
            assert!(!text.contains(secret), "{what}: {text}");
        }
    };
    for message in [format!("my key is {canary}"), format!("and {odd} and {}", daemon.token())] {
        let sent = daemon.post("/api/chat", &json!({ "message": message })).json();
        let request = sent["requestId"].as_str().unwrap().to_owned();
        clean("wait", &daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).body);
        clean("trace", &daemon.get(&format!("/api/requests/{request}")).body);
    }
    for route in nexus_server::routes()
        .iter()
        .filter(|route| route.verb == "GET" && route.path != "/api/events/stream")
    {
        clean(route.path, &daemon.get(&route.path.replace("{id}", &canary)).body);
    }
    for method in
        Method::ALL.iter().filter(|method| !method.entry().is_mutating() && **method != Method::ChatWait)
    {
        for params in [
            json!({}),
            json!({ "id": canary, "key": canary, "session": odd, "agent": odd }),
            json!({ "key": "runtime" }),
        ] {
            let answer = call(daemon.port(), Some(daemon.token()), method.entry().name, &params);
            clean(method.entry().name, &answer.body);
        }
    }
    block_on(async {
        let secret = daemon.token().to_owned().into();
        let all = nexus_protocol::ws::Subscribe { after: Some(0), ..Default::default() };
        let mut socket = Socket::connect(daemon.port(), &secret, "test", Some(all)).await.unwrap();
        let wrong: Result<Value, _> = socket.call(Method::SessionsResolve, &json!({ "session": odd })).await;
        clean("error frame", &wrong.unwrap_err().to_string());
        let _: Value = socket.call(Method::Health, &json!({})).await.unwrap();
        for _ in 0..10 {
            clean("event", &serde_json::to_string(&socket.event().await.unwrap()).unwrap());
        }
    });
    clean("log", &daemon.log());
}

#[test]
fn t22_nobody_takes_more_than_their_share() {
    let workspace = workspace();
    let daemon = start(&workspace);
    let (port, token) = (daemon.port(), daemon.token());
    let long = json!({ "message": "x".repeat(600 * 1024) });
    assert_eq!(daemon.post("/api/chat", &long).status, 413);
    let head = format!("GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(http::exchange(port, head.as_bytes()).unwrap().status, 431);
    // A thousand strangers, idle on sockets and on half a request.
    nexus_testkit::allow_many_files();
    let upgrade = format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let strangers: Vec<TcpStream> = (0..1000)
        .map(|number| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let said = if number % 2 == 0 { upgrade.as_str() } else { "GET /health HTTP/1.1\r\n" };
            let _ = stream.write_all(said.as_bytes());
            stream
        })
        .collect();
    let begun = Instant::now();
    block_on(async {
        let mut socket = Socket::connect(port, &token.to_owned().into(), "test", None).await.unwrap();
        let _: Value = socket.call(Method::Health, &json!({})).await.unwrap();
        // The refusal arrives although its client is still writing: just too long, and far too long.
        for kilobytes in [513, 514, 600, 1_500, 3_000] {
            let bad: Result<Value, _> =
                socket.call(Method::Status, &json!({ "x": "y".repeat(kilobytes * 1024) })).await;
            match bad {
                Err(ClientError::Wire(error, _)) => {
                    assert_eq!(error.code, nexus_protocol::error::ErrorCode::TooLarge);
                }
                other => panic!("a frame of {kilobytes} KiB: {other:?}"),
            }
            socket = Socket::connect(port, &token.to_owned().into(), "test", None).await.unwrap();
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(strangers);
    for text in ["{", "[[[[", "\u{0}", r#"{"type":"req","id":"1","method":"connect"}"#] {
        let code = first_answer(&daemon, text)["error"]["code"].clone();
        assert!(code == "INVALID_REQUEST", "{text}: {code}");
    }
}

#[test]
fn metrics_need_a_token_and_read_like_metrics() {
    let workspace = workspace();
    let daemon = start(&workspace);
    assert_eq!(http::get(daemon.port(), "/metrics", None).unwrap().status, 401);
    let answer = daemon.get("/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(
        answer.body.contains("\nnexus_up 1\n")
            && answer.body.contains("nexus_database_up{database=\"events\"} 1"),
        "{}",
        answer.body
    );
    for line in answer.body.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}
