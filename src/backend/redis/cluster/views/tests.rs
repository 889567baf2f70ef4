//! What nodes say of one another, and what follows from it.

use super::*;

fn endpoint(host: &str, port: u16) -> Endpoint {
    Endpoint { host: host.to_owned(), port }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A node as `CLUSTER SLOTS` shows it; `host` and `more` as they are on the wire.
fn node(host: &str, port: u16, id: &str, more: &str) -> String {
    format!("*4\r\n{host}:{port}\r\n{}{more}", bulk(id))
}

fn reply(text: &str) -> Value {
    redis::parse_redis_value(text.as_bytes()).unwrap()
}

fn read(nodes: &[String], by_name: bool) -> Option<View> {
    let row = format!("*{}\r\n:0\r\n:16383\r\n{}", 2 + nodes.len(), nodes.concat());
    View::read(&reply(&format!("*1\r\n{row}")), &endpoint("asked", 1), by_name)
}

#[test]
fn a_node_is_where_it_says_and_where_it_says_nothing_where_it_was_asked() {
    let named = |name: &str| format!("*2\r\n{}{}", bulk("hostname"), bulk(name));
    let ip = format!("*2\r\n{}{}", bulk("ip"), bulk("10.0.0.7"));
    let rows: [(String, String, bool, &[&str]); 10] = [
        (bulk("10.0.0.7"), "*0\r\n".to_owned(), false, &["10.0.0.7"]),
        (bulk("::1"), "*0\r\n".to_owned(), false, &["::1"]),
        // One that does not know its own address yet, and one that was told to say none.
        (bulk(""), "*0\r\n".to_owned(), false, &["asked"]),
        ("$-1\r\n".to_owned(), "*0\r\n".to_owned(), false, &["asked"]),
        (bulk("?"), "*0\r\n".to_owned(), false, &["asked"]),
        ("$-1\r\n".to_owned(), ip.clone(), false, &["asked", "10.0.0.7"]),
        // It lacks the name by which it is to be told.
        (bulk("?"), ip.clone(), false, &["10.0.0.7"]),
        (bulk("10.0.0.7"), named("n7.example"), false, &["10.0.0.7", "n7.example"]),
        // Certificates are made out to names.
        (bulk("10.0.0.7"), named("n7.example"), true, &["n7.example", "10.0.0.7"]),
        (bulk("n7.example"), ip, true, &["n7.example", "10.0.0.7"]),
    ];
    for (host, more, by_name, hosts) in rows {
        let view = read(&[node(&host, 7, "a", &more)], by_name).unwrap();
        let expected: Vec<_> = hosts.iter().map(|host| endpoint(host, 7)).collect();
        assert_eq!(view.shards[0].master.endpoints, expected, "{host:?} {more:?}");
    }
    // Version 6.2 tells less, and version 3 of the protocol in another form.
    let old = format!("*3\r\n{}:7\r\n{}", bulk("h"), bulk("a"));
    assert_eq!(read(&[old], false).unwrap().shards[0].master.endpoints, [endpoint("h", 7)]);
    let map = format!("%1\r\n{}{}", bulk("hostname"), bulk("n"));
    let both = [endpoint("h", 7), endpoint("n", 7)];
    assert_eq!(read(&[node(&bulk("h"), 7, "a", &map)], false).unwrap().shards[0].master.endpoints, both);
}

#[test]
fn replicas_are_known_and_what_cannot_be_read_is_no_view() {
    let [master, replica] = ["a", "b"].map(|id| node(&bulk(id), 7, id, "*0\r\n"));
    let shards = read(&[master.clone(), replica], false).unwrap().shards;
    assert_eq!((shards[0].first, shards[0].last), (0, 16_383));
    assert_eq!(shards[0].replicas, [NamedNode { id: "b".to_owned(), endpoints: vec![endpoint("b", 7)] }]);
    let asked = endpoint("asked", 1);
    for wrong in [
        "*0\r\n".to_owned(),
        "+OK\r\n".to_owned(),
        "-ERR no\r\n".to_owned(),
        format!("*1\r\n*3\r\n:0\r\n:16384\r\n{master}"),
        format!("*1\r\n*3\r\n:2\r\n:1\r\n{master}"),
        format!("*1\r\n*3\r\n:0\r\n:1\r\n{}", node(&bulk("h"), 0, "a", "*0\r\n")),
        "*1\r\n*2\r\n:0\r\n:1\r\n".to_owned(),
    ] {
        assert!(View::read(&reply(&wrong), &asked, false).is_none(), "{wrong}");
    }
}

/// What the node `asked` says: who has the first half of the slots, and who has the rest.
fn view(asked: &str, first: &str, second: &str) -> View {
    let named = |id: &str| NamedNode { id: id.to_owned(), endpoints: vec![endpoint(id, 7)] };
    let shard = |first, last, id: &str| Shard { first, last, master: named(id), replicas: Vec::new() };
    View { asked: endpoint(asked, 7), id: None, shards: vec![shard(0, 8191, first), shard(8192, 16_383, second)] }
}

/// Who has the first slot and the last one by these, where a and b have them so far: their places are 0 and 1.
fn by(views: &[View], deposed: &[&str]) -> [Option<String>; 2] {
    let mut current = vec![0; SLOTS];
    current[8192..].fill(1);
    let place = |endpoint: &Endpoint| ["a", "b"].iter().position(|id| *id == endpoint.host).map(|at| at as u16);
    let layout = layout(views, &current, place, |id| deposed.contains(&id));
    [0, SLOTS - 1].map(|slot| layout.masters.get(usize::from(layout.owners[slot])).map(|named| named.id.clone()))
}

fn owners(views: &[View], deposed: &[&str]) -> [String; 2] {
    by(views, deposed).map(|id| id.unwrap_or_default())
}

#[test]
fn others_are_believed_before_a_node_that_says_something_of_itself() {
    let rows: [(&[View], [&str; 2]); 7] = [
        (&[view("a", "a", "b")], ["a", "b"]),
        // It takes itself for the one that has them still, since it was cut off or stood still.
        (&[view("a", "a", "b"), view("b", "c", "b")], ["c", "b"]),
        (&[view("a", "a", "b"), view("c", "c", "b"), view("b", "c", "b")], ["c", "b"]),
        // It gives them away itself, and its successor says the same.
        (&[view("a", "c", "b"), view("c", "c", "b")], ["c", "b"]),
        (&[view("a", "c", "b"), view("c", "c", "b"), view("b", "a", "b")], ["c", "b"]),
        // One word against another: it stays as it was.
        (&[view("c", "a", "b"), view("d", "e", "b")], ["a", "b"]),
        (&[view("c", "c", "b")], ["c", "b"]),
    ];
    for (views, expected) in rows {
        assert_eq!(owners(views, &[]), expected, "{views:?}");
    }
}

#[test]
fn one_that_lost_all_of_its_slots_has_them_again_when_another_says_so() {
    // Who had them is away: of the two that can be asked only the old one says anything of the first half.
    let alone = [view("old", "old", "b")];
    assert_eq!(owners(&alone, &[]), ["old", "b"]);
    assert_eq!(owners(&alone, &["old"]), ["", "b"], "it stays with whoever has it");
    assert_eq!(owners(&[view("old", "old", "b"), view("b", "old", "b")], &["old"]), ["old", "b"]);
}

/// Two masters of half of the slots each, as one node shows them.
fn two_masters([first, second]: [(&str, &str); 2]) -> View {
    let row = |slots: &str, (host, more): (&str, &str), id| format!("*3\r\n{slots}{}", node(host, 6379, id, more));
    let rows = row(":0\r\n:8191\r\n", first, "a") + &row(":8192\r\n:16383\r\n", second, "b");
    View::read(&reply(&format!("*2\r\n{rows}")), &endpoint("asked", 6379), true).unwrap()
}

#[test]
fn masters_that_share_an_address_are_told_apart_by_their_others_or_not_at_all() {
    let ip = |last: u8| format!("*2\r\n{}{}", bulk("ip"), bulk(&format!("10.0.0.{last}")));
    let (one, two, none) = (ip(1), ip(2), "*0\r\n".to_owned());
    let hosts = |view: &View| -> Vec<Vec<String>> {
        let hosts = |shard: &Shard| shard.master.endpoints.iter().map(|at| at.host.clone()).collect();
        view.shards.iter().map(hosts).collect()
    };
    for host in [bulk("redis.example"), bulk(""), "$-1\r\n".to_owned(), bulk("?")] {
        let view = two_masters([(&host, &one), (&host, &two)]);
        assert_eq!(hosts(&view), [["10.0.0.1"], ["10.0.0.2"]], "{host:?}");
        assert_eq!(view.shared_address(), None);
        assert!(!view.names_the_asked());
        let view = two_masters([(&host, &none), (&host, &none)]);
        let shared = if host.contains("example") { "redis.example" } else { "asked" };
        assert_eq!(view.shared_address(), Some(&endpoint(shared, 6379)), "{host:?}");
    }
    let view = two_masters([(&bulk("10.0.0.1"), &none), (&bulk("10.0.0.1"), &two)]);
    assert_eq!(
        (hosts(&view), view.shared_address()),
        (vec![vec!["10.0.0.1".to_owned()], vec!["10.0.0.2".to_owned()]], None)
    );
}

/// Somebody who stood still, and does not know yet what it lost, by the name that the user has for it.
#[test]
fn who_is_asked_by_a_name_that_the_others_do_not_know_counts_less_about_itself_all_the_same() {
    let nobody = vec![NOBODY; SLOTS];
    let old = || view("alias", "old", "b");
    assert!(!old().names_the_asked() && view("old", "old", "b").names_the_asked());
    for views in [
        [old().said_by("old".to_owned()), view("b", "new", "b")],
        [view("b", "new", "b"), old().said_by("old".to_owned())],
    ] {
        let layout = layout(&views, &nobody, |_| None, |_| false);
        assert_eq!(layout.masters[usize::from(layout.owners[0])].id, "new", "{views:?}");
    }
}

#[test]
fn an_address_stands_for_the_one_to_be_used_where_it_is_of_one_node_alone() {
    let named = |id: &str, hosts: &[&str]| NamedNode {
        id: id.to_owned(),
        endpoints: hosts.iter().map(|host| endpoint(host, 7)).collect(),
    };
    let masters = vec![named("a", &["a.example", "10.0.0.1"]), named("b", &["10.0.0.2", "10.0.0.9"])];
    let replicas = vec![named("c", &["c.example", "10.0.0.3", "10.0.0.2"]), named("d", &["d.example", "10.0.0.9"])];
    let layout = Layout { masters, owners: Box::default(), replicas };
    let others = layout.other_addresses();
    let used = |host: &str| others.get(&endpoint(host, 7)).map(|at| at.host.clone());
    assert_eq!(used("10.0.0.1").as_deref(), Some("a.example"));
    assert_eq!(used("10.0.0.3").as_deref(), Some("c.example"), "one that is no master yet");
    assert_eq!([used("10.0.0.2"), used("10.0.0.9"), used("a.example")], [None, None, None]);
}

#[test]
fn whoever_knows_more_addresses_of_a_node_knows_which_is_to_be_used() {
    let at = |hosts: &[&str]| -> Vec<_> { hosts.iter().map(|host| endpoint(host, 7)).collect() };
    for [first, second] in
        [[at(&["10.0.0.1"]), at(&["a.example", "10.0.0.1"])], [at(&["a.example", "10.0.0.1"]), at(&["10.0.0.1"])]]
    {
        let mut node = NamedNode { id: "a".to_owned(), endpoints: first };
        node.is_also_at(&second);
        assert_eq!(node.endpoints, at(&["a.example", "10.0.0.1"]));
    }
}

#[test]
fn views_agree_if_each_slot_has_the_same_owner() {
    let one = || view("a", "a", "b");
    assert!(agree(&[]) && agree(&[one()]) && agree(&[one(), view("b", "a", "b")]));
    assert!(!agree(&[one(), view("b", "c", "b")]));
    let mut split = one();
    split.shards[1].first = 8193;
    assert!(!agree(&[one(), split.clone()]), "nobody has this one");
    split.shards[0].last = 8192;
    assert!(!agree(&[one(), split]), "one slot is another's");
}
