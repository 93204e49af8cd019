//! The next try, the next credential, the next model; and what is said when nothing is left.

use std::sync::Arc;
use std::time::Duration;

use nexus_credentials::{
    AccessRules, Account, AccountName, CredentialFolder, Kind, Resolver, ServiceName, Status, Storage,
};
use nexus_llm::{Chain, Keys, Link, ModelError, ModelName, Needs, Patience, Timeouts, Wire};
use nexus_net::Net;
use nexus_testkit::model::{Gate, ModelServer, Reply};

use crate::support::{QUICK, ask, endpoint};

struct Setup {
    server: ModelServer,
    folder: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

impl Setup {
    /// Accounts `one`, `two`, … of the service `anthropic`, in this order, with keys `key-one`, …
    fn new(accounts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let credentials = CredentialFolder::new(folder.path());
        let service = ServiceName::new("anthropic").unwrap();
        let mut environment = Vec::new();
        let mut order = Vec::new();
        for account in accounts {
            let var = format!("KEY_{}", account.to_uppercase());
            environment.push((var.clone(), format!("key-{account}")));
            let name = AccountName::new(account).unwrap();
            order.push(name.clone());
            let made = Account::with_pointer(
                service.clone(),
                name,
                "api_key",
                Kind::ApiKey,
                Storage::Env { var },
                nexus_base::clock::Timestamp::now(),
            );
            credentials.write(&made).unwrap();
        }
        credentials.set_order(&service, order).unwrap();
        Self { server: ModelServer::start(), folder, environment }
    }

    fn link(&self, model: &str, timeouts: Timeouts) -> Link {
        let mut endpoint = endpoint(&self.server, Wire::Anthropic, timeouts);
        endpoint.name = ModelName { provider: "anthropic".into(), model: model.into() };
        Link { endpoint, needs: Needs::Service("anthropic".into()) }
    }

    fn chain(&self, models: &[&str]) -> Chain {
        self.patient_chain(models, Timeouts::default(), |_| true)
    }

    fn patient_chain(
        &self,
        models: &[&str],
        timeouts: Timeouts,
        may_use: fn(&nexus_credentials::Reference) -> bool,
    ) -> Chain {
        let keys = Keys {
            resolver: Resolver::new(self.folder.path(), self.environment.clone()),
            rules: AccessRules::default(),
            account: None,
            may_use: Arc::new(may_use),
            learned: Arc::new(|_| {}),
        };
        let patience = Patience {
            retries: 2,
            first_pause: Duration::from_millis(4),
            longest_wait: Duration::from_secs(1),
        };
        let links = models.iter().map(|model| self.link(model, timeouts)).collect();
        Chain::new(Net::new(), links, keys, patience)
    }

    /// Which key and model each request used.
    fn used(&self) -> Vec<(String, String)> {
        let of = |asked: &nexus_testkit::model::Asked| {
            (asked.header("x-api-key").unwrap_or_default().to_owned(), asked.model().to_owned())
        };
        self.server.asked().iter().map(of).collect()
    }

    fn status(&self, account: &str) -> Status {
        let listed = CredentialFolder::new(self.folder.path()).list().unwrap();
        listed.into_iter().find(|one| one.account.as_str() == account).unwrap().status
    }
}

fn used(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, model)| (format!("key-{key}"), (*model).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_credential_rests_and_the_next_is_used() {
    for (status, message) in [(401, "invalid x-api-key"), (403, "no"), (402, "no credit"), (429, "slow")] {
        let setup = Setup::new(&["one", "two"]);
        setup.server.script([
            Reply::status(status, message).header("retry-after", "60"),
            Reply::text("with two"),
            Reply::text("again two"),
        ]);
        let chain = setup.chain(&["big"]);
        let told = ask(&chain).await;
        assert_eq!(told.text, "with two", "{status}");
        assert_eq!(told.reply.unwrap().model.unwrap().to_string(), "anthropic/big");
        assert_eq!(ask(&chain).await.text, "again two", "{status}");
        assert_eq!(setup.used(), used(&[("one", "big"), ("two", "big"), ("two", "big")]));
        assert_eq!((setup.status("one"), setup.status("two")), (Status::Cooldown, Status::Active));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_trouble_is_tried_again_before_the_next_model() {
    let setup = Setup::new(&["one"]);
    setup.server.script([
        Reply::status(529, "Overloaded"),
        Reply::text("lost before a word was shown").cut_after(1),
        Reply::text("third time"),
    ]);
    let chain = setup.chain(&["big", "small"]);
    assert_eq!(ask(&chain).await.text, "third time");
    assert_eq!(setup.used(), used(&[("one", "big"); 3]));
    setup.server.script([500, 500, 500].map(|status| Reply::status(status, "broken")));
    setup.server.script([Reply::text("the small one")]);
    let told = ask(&chain).await;
    assert_eq!(
        (told.text.as_str(), told.reply.unwrap().model.unwrap().model.as_str()),
        ("the small one", "small")
    );
    assert_eq!(setup.status("one"), Status::Active, "a server's trouble is not the credential's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_short_is_granted() {
    let setup = Setup::new(&["one"]);
    setup.server.script([
        Reply::status(429, "slow").header("retry-after-ms", "20"),
        Reply::status(503, "soon").header("retry-after-ms", "20"),
        Reply::text("thanks for waiting"),
    ]);
    assert_eq!(ask(&setup.chain(&["big"])).await.text, "thanks for waiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_were_shown_are_never_begun_anew() {
    let setup = Setup::new(&["one", "two"]);
    setup.server.script([Reply::text("half a sentence").pieces(3).cut_after(3), Reply::text("never asked")]);
    let told = ask(&setup.chain(&["big", "small"])).await;
    assert!(matches!(told.reply, Err(ModelError::BrokenOff { .. })), "{:?}", told.reply);
    assert!(!told.text.is_empty());
    assert_eq!(setup.server.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_too_long_comes_back_at_once() {
    let setup = Setup::new(&["one", "two"]);
    setup.server.script([Reply::status(400, "prompt is too long")]);
    assert_eq!(ask(&setup.chain(&["big", "small"])).await.reply, Err(ModelError::ContextTooLong));
    assert_eq!(setup.server.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nothing_is_left_the_error_says_what_was_tried() {
    let setup = Setup::new(&["one", "two"]);
    setup.server.script([
        Reply::status(401, "bad key"),
        Reply::status(404, "no such model"),
        Reply::status(429, "slow").header("retry-after", "600"),
    ]);
    let chain = setup.chain(&["big", "small"]);
    let error = ask(&chain).await.reply.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no model could answer: anthropic/big with anthropic/one/api_key: anthropic rejected the credential \
         anthropic/one/api_key: status 401: bad key; anthropic/big with anthropic/two/api_key: anthropic refused \
         the request: status 404: no such model; anthropic/small with anthropic/two/api_key: anthropic is rate \
         limiting requests for 600 s"
    );
    assert!(error.hint().is_some());
    // Both rest now; nothing is sent, and the error says until when.
    let error = ask(&chain).await.reply.unwrap_err().to_string();
    assert!(error.contains("anthropic/two/api_key is paused for another"), "{error}");
    assert_eq!(setup.server.asked().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_left_for_the_next_model() {
    let setup = Setup::new(&["one"]);
    setup.server.answer(|asked| (asked.model() == "big").then(|| Reply::text("never").hold(&Gate::new())));
    setup.server.script([Reply::text("quick")]);
    let told = ask(&setup.patient_chain(&["big", "small"], QUICK, |_| true)).await;
    assert_eq!(told.text, "quick");
    assert_eq!(setup.used(), used(&[("one", "big"), ("one", "small")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_without_consent() {
    let setup = Setup::new(&["one", "two"]);
    setup.server.script([Reply::text("hello")]);
    let only_two = |reference: &nexus_credentials::Reference| reference.account.as_str() == "two";
    assert_eq!(ask(&setup.patient_chain(&["big"], Timeouts::default(), only_two)).await.text, "hello");
    assert_eq!(setup.used(), used(&[("two", "big")]));
    let nobody = setup.patient_chain(&["big"], Timeouts::default(), |_| false);
    let error = ask(&nobody).await.reply.unwrap_err().to_string();
    assert!(error.contains("needs your consent"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_that_leads_nowhere_is_marked_and_passed() {
    let mut setup = Setup::new(&["one", "two"]);
    setup.environment.remove(0);
    setup.server.script([Reply::text("two it is")]);
    assert_eq!(ask(&setup.chain(&["big"])).await.text, "two it is");
    assert_eq!(setup.status("one"), Status::Broken);
}
