use std::future::poll_fn;

use super::*;

const PLENTY: Places = Places {
    all: 1_000_000,
    of_account: 1_000_000,
};

fn person(name: &str) -> Subscriber {
    let principal = Principal::user("https://login.example", name);
    Subscriber {
        account: Account::of(&principal),
        principal,
    }
}

fn lists(of: &[List]) -> PerList<bool> {
    let mut lists = PerList::default();
    for list in of {
        *lists.of_mut(*list) = true;
    }
    lists
}

fn open(hub: &Hub, name: &str, of: &[List]) -> Subscription {
    hub.subscribe(person(name), lists(of), Some(PLENTY))
        .unwrap()
}

/// What can be read now, and whether that is the end.
fn read(subscription: &Subscription) -> (Vec<Change>, bool) {
    let cx = Context::from_waker(Waker::noop());
    let mut changes = Vec::new();
    loop {
        match subscription.poll_next(&cx) {
            Poll::Ready(Some(change)) => changes.push(change),
            Poll::Ready(None) => return (changes, true),
            Poll::Pending => return (changes, false),
        }
    }
}

fn resource(uri: &str) -> Change {
    Change::Resource(uri.into())
}

#[test]
fn a_subscriber_hears_of_what_it_asked_for_and_of_nothing_else() {
    let hub = Hub::default();
    let tools = open(&hub, "a", &[List::Tools]);
    let prompts = open(&hub, "a", &[List::Prompts]);
    let watcher = open(&hub, "a", &[]);
    assert!(watcher.watch("note://1", 10) && watcher.watch("note://2", 10));
    for change in [
        Change::List(List::Tools),
        Change::List(List::Resources),
        resource("note://1"),
        resource("note://3"),
    ] {
        hub.announce(&change, None);
    }
    assert_eq!(read(&tools), (vec![Change::List(List::Tools)], false));
    assert_eq!(read(&prompts), (vec![], false));
    assert_eq!(read(&watcher), (vec![resource("note://1")], false));
}

#[test]
fn a_change_that_nobody_has_read_yet_is_told_once() {
    let hub = Hub::default();
    let slow = open(&hub, "a", &List::ALL);
    assert!(slow.watch("note://1", 1));
    for _ in 0..10_000 {
        for list in List::ALL {
            hub.announce(&Change::List(list), None);
        }
        hub.announce(&resource("note://1"), None);
    }
    assert_eq!(slow.inbox.marks().changed.len(), 1);
    let (changes, ended) = read(&slow);
    assert_eq!((changes.len(), ended), (4, false));
    // And once more, because it happens once more.
    hub.announce(&resource("note://1"), None);
    assert_eq!(read(&slow).0, [resource("note://1")]);
}

#[test]
fn only_the_named_principal_hears() {
    let hub = Hub::default();
    let (alice, bob) = (
        open(&hub, "alice", &List::ALL),
        open(&hub, "bob", &List::ALL),
    );
    let change = Change::List(List::Tools);
    hub.announce(&change, Some(&person("alice").principal));
    assert_eq!(read(&alice).0, [change]);
    assert_eq!(read(&bob).0, []);
}

#[test]
fn what_is_not_watched_any_more_is_not_told() {
    let hub = Hub::default();
    let watcher = open(&hub, "a", &[]);
    assert!(watcher.watch("note://1", 2) && watcher.watch("note://2", 2));
    assert!(
        !watcher.watch("note://3", 2),
        "there is no room for a third"
    );
    assert!(watcher.watch("note://1", 2), "it is watched already");
    hub.announce(&resource("note://1"), None);
    hub.announce(&resource("note://2"), None);
    watcher.unwatch("note://1");
    assert_eq!(read(&watcher).0, [resource("note://2")]);
    hub.announce(&resource("note://1"), None);
    assert_eq!(read(&watcher).0, []);
    assert!(watcher.watch("note://3", 2));
}

#[test]
fn places_are_limited_and_given_back() {
    let hub = Hub::default();
    let places = Some(Places {
        all: 3,
        of_account: 2,
    });
    let one = |name: &str| hub.subscribe(person(name), lists(&List::ALL), places);
    let first = one("alice").unwrap();
    let _second = one("alice").unwrap();
    assert_eq!(one("alice").unwrap_err(), Full::OfAccount);
    let _third = one("bob").unwrap();
    assert_eq!(one("bob").unwrap_err(), Full::All);
    let of_a_session = hub.subscribe(person("carol"), lists(&List::ALL), None);
    assert!(of_a_session.is_ok(), "a session's is not counted");
    assert_eq!(hub.count(), 3);
    drop(first);
    assert!(one("alice").is_ok());
}

#[test]
fn nothing_is_left_of_a_subscription_that_is_dropped() {
    let hub = Hub::default();
    let open: Vec<_> = (0..100)
        .map(|n| {
            let subscription = open(&hub, &n.to_string(), &List::ALL);
            assert!(subscription.watch("note://shared", 10));
            assert!(subscription.watch(&format!("note://{n}"), 10));
            subscription
        })
        .collect();
    assert_eq!(hub.count(), 100);
    assert_eq!(hub.table().resources.len(), 101);
    drop(open);
    let table = hub.table();
    assert!(table.open.is_empty() && table.resources.is_empty() && table.by_account.is_empty());
    assert!(
        List::ALL
            .iter()
            .all(|list| table.lists.of(*list).is_empty())
    );
}

#[test]
fn all_end_after_what_they_have_to_tell() {
    let hub = Hub::default();
    let before = open(&hub, "a", &[List::Tools]);
    hub.announce(&Change::List(List::Tools), None);
    let closing = hub.closing();
    let during = open(&hub, "a", &[List::Tools]);
    let of_a_session = hub.subscribe(person("a"), lists(&List::ALL), None).unwrap();
    assert_eq!(read(&before), (vec![Change::List(List::Tools)], true));
    assert_eq!(read(&during), (vec![], true));
    assert_eq!(read(&of_a_session), (vec![], false));
    drop(closing);
    assert_eq!(read(&open(&hub, "a", &[List::Tools])), (vec![], false));
}

#[tokio::test]
async fn a_reader_is_woken() {
    let hub = Hub::default();
    let subscription = Arc::new(open(&hub, "a", &[List::Tools]));
    let reader = Arc::clone(&subscription);
    let reading = tokio::spawn(async move {
        let next = async || poll_fn(|cx| reader.poll_next(cx)).await;
        (next().await, next().await)
    });
    tokio::task::yield_now().await;
    hub.announce(&Change::List(List::Tools), None);
    tokio::task::yield_now().await;
    hub.end_all();
    let read = reading.await.unwrap();
    assert_eq!(read, (Some(Change::List(List::Tools)), None));
}
