//! What is expanded is read back; what could be read in two ways is refused.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::json;

use super::expression::Expression;
use super::*;

fn parse(text: &str) -> Result<Template, TemplateError> {
    Template::parse(text, |_| None)
}

/// The variables of a URI under a template of which the handler names none.
fn variables(template: &str, uri: &str) -> Option<Value> {
    parse(template)
        .unwrap_or_else(|error| panic!("{template}: {error}"))
        .variables(uri)
        .map(Value::Object)
}

/// An expander after RFC 6570, section 3.2, for texts and lists of texts.
fn expand(template: &str, values: &BTreeMap<String, Value>) -> String {
    let mut uri = String::new();
    for part in expression::parse(template).unwrap() {
        let Expression {
            operator,
            variables,
        } = match part {
            Part::Literal(literal) => {
                uri += &literal;
                continue;
            }
            Part::Expression(expression) => expression,
        };
        let mut begun = false;
        let mut put = |uri: &mut String, name: &str, value: &str| {
            let before = if begun {
                Some(operator.separator())
            } else {
                operator.first()
            };
            uri.extend(before);
            begun = true;
            if operator.names() {
                *uri += name;
                let empty_parameter =
                    value.is_empty() && operator == expression::Operator::Parameter;
                *uri += if empty_parameter { "" } else { "=" };
            }
            *uri += &encoded(value, operator.is_reserved());
        };
        for Variable { name, explode } in variables {
            match values.get(&name) {
                None => {}
                Some(Value::Array(list)) if explode => {
                    for value in list {
                        put(&mut uri, &name, value.as_str().unwrap());
                    }
                }
                Some(value) => put(&mut uri, &name, value.as_str().unwrap()),
            }
        }
    }
    uri
}

fn encoded(value: &str, reserved: bool) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric()
            || "-._~".contains(c)
            || reserved && ":/?#[]@!$&'()*+,;=".contains(c)
        {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[test]
fn uris_that_fit_give_their_variables() {
    for (template, uri, expected) in [
        ("note://{day}", "note://monday", json!({ "day": "monday" })),
        (
            "note://{day}.md",
            "note://mon.md.md",
            json!({ "day": "mon.md" }),
        ),
        ("a://{x}/b/{y}", "a://1/b/2", json!({ "x": "1", "y": "2" })),
        ("a://{x}", "a://caf%C3%A9%2F", json!({ "x": "caf\u{e9}/" })),
        (
            "test://template/{id}/data",
            "test://template/123/data",
            json!({ "id": "123" }),
        ),
        // Clients that do not encode what they should.
        (
            "mail://{address}",
            "mail://bob@example.com:25",
            json!({ "address": "bob@example.com:25" }),
        ),
        ("geo:{point}", "geo:1,2", json!({ "point": "1,2" })),
        (
            "geo:{lat},{lon}",
            "geo:1.5,-2",
            json!({ "lat": "1.5", "lon": "-2" }),
        ),
        (
            "a://{x,y}",
            "a://1024,768",
            json!({ "x": "1024", "y": "768" }),
        ),
        (
            "file:///{+path}",
            "file:///a/b%20c/d.rs",
            json!({ "path": "a/b c/d.rs" }),
        ),
        ("a://b{#frag}", "a://b#x/y?z", json!({ "frag": "x/y?z" })),
        ("a://b{#frag}", "a://b", json!({})),
        ("a://b{#frag}", "a://b#", json!({ "frag": "" })),
        ("a://{x}{/seg}", "a://1/2", json!({ "x": "1", "seg": "2" })),
        ("a://{x}{/seg}", "a://1", json!({ "x": "1" })),
        ("a://{x}{/seg}", "a://1/", json!({ "x": "1", "seg": "" })),
        (
            "a://{x}{/path*}",
            "a://1/2/3//4",
            json!({ "x": "1", "path": ["2", "3", "", "4"] }),
        ),
        ("a://{x}{/path*}", "a://1", json!({ "x": "1" })),
        ("a://b{.ext}", "a://b.tar.gz", json!({ "ext": "tar.gz" })),
        ("a://b{;p,q}", "a://b;p=1;q", json!({ "p": "1", "q": "" })),
        ("a://b{;p,pq}", "a://b;pq=2", json!({ "pq": "2" })),
        (
            "a://b{;p*}",
            "a://b;p=1;p;p=3",
            json!({ "p": ["1", "", "3"] }),
        ),
        (
            "a://b{?q,r}",
            "a://b?q=1&r=2",
            json!({ "q": "1", "r": "2" }),
        ),
        ("a://b{?q,r}", "a://b?r=2", json!({ "r": "2" })),
        ("a://b{?q,r}", "a://b?q=", json!({ "q": "" })),
        ("a://b{?q,r}", "a://b", json!({})),
        (
            "a://b{?q*}",
            "a://b?q=1&q=&q=3",
            json!({ "q": ["1", "", "3"] }),
        ),
        (
            "a://b?fixed=1{&x,y}",
            "a://b?fixed=1&y=%26",
            json!({ "y": "&" }),
        ),
        ("a://{x*}", "a://1,2,3", json!({ "x": ["1", "2", "3"] })),
        ("a://{+x}", "a://1%2C2/3", json!({ "x": "1,2/3" })),
        ("caf\u{e9}://{x}", "caf%C3%A9://1", json!({ "x": "1" })),
        ("a://{+x}/{y}", "a://1/2/3", json!({ "x": "1/2", "y": "3" })),
        ("a://{x.y}", "a://1", json!({ "x.y": "1" })),
    ] {
        assert_eq!(variables(template, uri), Some(expected), "{template} {uri}");
    }
}

#[test]
fn uris_that_do_not_fit_give_none() {
    for (template, uri) in [
        ("note://{day}", "note://"),
        ("note://{day}", "note://a/b"),
        ("note://{day}", "note://a?b"),
        ("note://{day}", "note://a#b"),
        ("note://{day}", "other://a"),
        ("note://{day}", "NOTE://a"),
        ("note://{day}.md", "note://a"),
        ("note://{day}.md", "note://.md"),
        ("note://{day}", "note://%"),
        ("note://{day}", "note://%zz"),
        ("note://{day}", "note://%ff"),
        ("note://{day}", "note://caf\u{e9}"),
        ("a://{x}/b", "a://x/b/c"),
        ("a://{x,y}", "a://1"),
        ("a://{x,y}", "a://1,2,3"),
        ("a://{x,y}", "a://,2"),
        ("a://b{?q,r}", "a://b?r=2&q=1"),
        ("a://b{?q,r}", "a://b?q=1&q=2"),
        ("a://b{?q,r}", "a://b?q"),
        ("a://b{?q,r}", "a://b?"),
        ("a://b{?q,r}", "a://b?s=1"),
        ("a://b{;p}", "a://b;p="),
        ("a://b{;p}", "a://b;pp=1"),
        ("a://{x*}", "a://1,,2"),
        ("file:///{+path}", "file:///"),
    ] {
        assert_eq!(variables(template, uri), None, "{template} {uri}");
    }
    let long = format!("note://{}", "x".repeat(LONGEST_URI));
    assert_eq!(variables("note://{day}", &long), None);
}

#[test]
fn what_the_handler_needs_decides_what_may_be_undefined() {
    let needs = |name: &str| Some(name == "x");
    let read = |template: &str, uri: &str| {
        let template = Template::parse(template, needs).unwrap();
        template.variables(uri).map(Value::Object)
    };
    // `y` can be done without, so that none is none.
    assert_eq!(read("a://{y}", "a://"), Some(json!({})));
    assert_eq!(read("a://{y}", "a://1"), Some(json!({ "y": "1" })));
    assert_eq!(read("a://{x,y}", "a://1"), Some(json!({ "x": "1" })));
    // `x` cannot.
    assert_eq!(read("a://b{/x}", "a://b"), None);
    assert_eq!(read("a://b{?x,y}", "a://b?y=1"), None);
    assert_eq!(read("a://b{?x,y}", "a://b?x=1"), Some(json!({ "x": "1" })));
    assert_eq!(read("a://b{/x,y}", "a://b/1"), Some(json!({ "x": "1" })));
    // And of two that can, one alone could be either.
    let both = Template::parse("a://b{/y,z}", needs).unwrap_err();
    assert!(matches!(both, TemplateError::Ambiguous { .. }), "{both}");
}

#[test]
fn what_could_be_read_in_two_ways_is_refused_with_a_uri_that_shows_it() {
    for template in [
        "a://{x}{y}",
        "a://{x}-{y}",
        "a://{year}.{month}",
        "a://{x}{.ext}",
        "a://{+path}{?q}",
        "a://{x}{+y}",
        "a://{+x,y}",
        "a://{.a,b}",
        "a://{.a*}",
        "a://{+x*}",
        "a://{#x*}",
        "a://b{/x,y}",
        "a://{x}a{y}",
        "a://b{#x}{#y}",
        "a://{x}%20{y}",
    ] {
        let error = parse(template).unwrap_err();
        let TemplateError::Ambiguous { uri, one, other } = &error else {
            panic!("{template}: {error}");
        };
        assert_ne!(one, other, "{template}: {error}");
        // The witness is a URI that some expansion of each reading is.
        for reading in [one, other] {
            let values: BTreeMap<String, Value> = serde_json::from_str(reading).unwrap();
            assert!(uri.starts_with("a://"), "{error}");
            assert!(!values.is_empty() || uri == "a://b", "{error}");
        }
    }
    let dash = parse("report://{year}-{month}").unwrap_err().to_string();
    assert!(
        dash.contains("two ways") && dash.contains("report://a-"),
        "{dash}"
    );
}

#[test]
fn what_cannot_be_matched_is_refused() {
    let error = |text: &str| parse(text).unwrap_err();
    assert_eq!(error("a://{x"), TemplateError::Brace);
    assert_eq!(error("a://x}"), TemplateError::Brace);
    assert_eq!(error("a://{x}}"), TemplateError::Brace);
    assert_eq!(error("a://{{x}}"), TemplateError::Name("{x".into()));
    assert_eq!(error("a://{}"), TemplateError::Name(String::new()));
    assert_eq!(error("a://{+}"), TemplateError::Name(String::new()));
    assert_eq!(error("a://{x,}"), TemplateError::Name(String::new()));
    assert_eq!(error("a://{x y}"), TemplateError::Name("x y".into()));
    assert_eq!(error("a://{x:}"), TemplateError::Name("x:".into()));
    assert_eq!(error("a://{x-y}"), TemplateError::Name("x-y".into()));
    assert_eq!(
        error("a://{caf\u{e9}}"),
        TemplateError::Name("caf\u{e9}".into())
    );
    assert_eq!(error("a://{x}/{x}"), TemplateError::Twice("x".into()));
    assert_eq!(error("a://{x:3}"), TemplateError::Prefix("x:3".into()));
    assert_eq!(error("a://{+x:3}/{y}"), TemplateError::Prefix("x:3".into()));
    for operator in ['=', ',', '!', '@', '|'] {
        assert_eq!(
            error(&format!("a://{{{operator}x}}")),
            TemplateError::Operator(operator)
        );
    }
    assert_eq!(error("a://x"), TemplateError::Constant);
    assert_eq!(error(""), TemplateError::Constant);
    assert_eq!(error("a://b c{x}"), TemplateError::Literal(' '));
    assert_eq!(error("a://%{x}"), TemplateError::Literal('%'));
    assert_eq!(error("a://%zz{x}"), TemplateError::Literal('%'));
    assert_eq!(
        error(&format!("a://{{x}}/{}", "y".repeat(1000))),
        TemplateError::TooLarge
    );
    let many: Vec<String> = (0..200).map(|n| format!("v{n}")).collect();
    assert_eq!(
        error(&format!("a://b{{?{}}}", many.join(","))),
        TemplateError::TooLarge
    );
    // A long literal before the first expression costs nothing.
    assert!(parse(&format!("a://{}/{{x}}", "y".repeat(10_000))).is_ok());
}

#[test]
fn the_specification_s_examples_are_expanded_and_read_back() {
    let values = |pairs: &[(&str, Value)]| -> BTreeMap<String, Value> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    };
    // RFC 6570, sections 3.2.2 to 3.2.9, as far as they are texts and lists.
    for (template, uri, given) in [
        ("{var}", "value", values(&[("var", json!("value"))])),
        (
            "{hello}",
            "Hello%20World%21",
            values(&[("hello", json!("Hello World!"))]),
        ),
        (
            "{x,y}",
            "1024,768",
            values(&[("x", json!("1024")), ("y", json!("768"))]),
        ),
        (
            "{list*}",
            "red,green,blue",
            values(&[("list", json!(["red", "green", "blue"]))]),
        ),
        (
            "{+path}/here",
            "/foo/bar/here",
            values(&[("path", json!("/foo/bar"))]),
        ),
        (
            "here?ref={+path}",
            "here?ref=/foo/bar",
            values(&[("path", json!("/foo/bar"))]),
        ),
        ("X{#var}", "X#value", values(&[("var", json!("value"))])),
        ("X{.var}", "X.value", values(&[("var", json!("value"))])),
        ("{/var}", "/value", values(&[("var", json!("value"))])),
        (
            "{/list*}",
            "/red/green/blue",
            values(&[("list", json!(["red", "green", "blue"]))]),
        ),
        (
            "{;x,y,empty}",
            ";x=1024;y=768;empty",
            values(&[
                ("x", json!("1024")),
                ("y", json!("768")),
                ("empty", json!("")),
            ]),
        ),
        (
            "{?x,y,empty}",
            "?x=1024&y=768&empty=",
            values(&[
                ("x", json!("1024")),
                ("y", json!("768")),
                ("empty", json!("")),
            ]),
        ),
        (
            "{?list*}",
            "?list=red&list=green&list=blue",
            values(&[("list", json!(["red", "green", "blue"]))]),
        ),
        (
            "?fixed=yes{&x}",
            "?fixed=yes&x=1024",
            values(&[("x", json!("1024"))]),
        ),
    ] {
        assert_eq!(expand(template, &given), uri, "{template}");
        let read = parse(template).unwrap().variables(uri).unwrap();
        let read: BTreeMap<String, Value> = read.into_iter().collect();
        assert_eq!(read, given, "{template}");
    }
}

/// Some value for a variable; `None`: it is undefined.
fn any_value(variable: &Variable, reserved: bool, may_miss: bool) -> BoxedStrategy<Option<Value>> {
    // A reserved value that holds an escape is the same URI as one that holds what is escaped.
    let text = if reserved { "[^%]{1,6}" } else { "\\PC{1,6}" };
    let text = prop_oneof![
        text,
        "[-a-z.,/?#&=;:@%]{1,6}".prop_map(move |text: String| {
            if reserved {
                text.replace('%', "") + "x"
            } else {
                text
            }
        })
    ];
    let value = if variable.explode {
        prop::collection::vec(text, 1..4)
            .prop_map(Value::from)
            .boxed()
    } else {
        text.prop_map(Value::from).boxed()
    };
    if may_miss {
        prop::option::of(value).boxed()
    } else {
        value.prop_map(Some).boxed()
    }
}

/// A template of some pieces, and values for its variables.
fn any_template() -> impl Strategy<Value = (String, BTreeMap<String, Value>)> {
    let operator = prop::sample::select(vec!["", "+", "#", ".", "/", ";", "?", "&"]);
    let names = prop::collection::vec((any::<bool>(), any::<bool>()), 1..3);
    let literal = prop::sample::select(vec!["", "/", "-", ".", ":", "/b/", "%20", "?c=d"]);
    let piece = (operator, names, literal);
    prop::collection::vec(piece, 1..4).prop_flat_map(|pieces| {
        let mut text = "a://".to_owned();
        let mut values: Vec<BoxedStrategy<(String, Option<Value>)>> = Vec::new();
        let mut number = 0;
        for (operator, names, literal) in pieces {
            let reserved = matches!(operator, "+" | "#");
            let listed: Vec<String> = names
                .into_iter()
                .map(|(explode, missing)| {
                    number += 1;
                    let name = format!("v{number}");
                    let variable = Variable {
                        name: name.clone(),
                        explode,
                    };
                    let may_miss = missing && !matches!(operator, "" | "+");
                    let value = any_value(&variable, reserved, may_miss);
                    let named = name.clone();
                    values.push(value.prop_map(move |value| (named.clone(), value)).boxed());
                    format!("{name}{}", if explode { "*" } else { "" })
                })
                .collect();
            text += &format!("{{{operator}{}}}{literal}", listed.join(","));
        }
        (Just(text), values).prop_map(|(text, values)| {
            let defined = values
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            (text, defined.collect())
        })
    })
}

#[test]
fn enough_of_the_templates_that_are_tried_are_good() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let good = (0..500).filter(|_| {
        let (text, _) = any_template().new_tree(&mut runner).unwrap().current();
        parse(&text).is_ok()
    });
    let good = good.count();
    assert!(good > 100, "{good} of 500");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_expanded_is_read_back((text, given) in any_template()) {
        match parse(&text) {
            Ok(template) => {
                let uri = expand(&text, &given);
                let read = template.variables(&uri).map(|read| read.into_iter().collect::<BTreeMap<_, _>>());
                prop_assert_eq!(read, Some(given), "{} {}", text, uri);
            }
            Err(error) => prop_assert!(matches!(error, TemplateError::Ambiguous { .. }), "{}: {}", text, error),
        }
    }

    #[test]
    fn what_is_read_is_what_is_expanded_again(
        (text, given) in any_template(),
        bent in "[a-z/?#&=;.,%0-9]{0,4}",
        at in 0_usize..40,
    ) {
        let Ok(template) = parse(&text) else { return Ok(()) };
        let mut uri = expand(&text, &given);
        let at = at.min(uri.len());
        uri.insert_str(at, &bent);
        if let Some(read) = template.variables(&uri) {
            let read: BTreeMap<String, Value> = read.into_iter().collect();
            // The canonical spelling of the same reading is read the same.
            let again = expand(&text, &read);
            let second = template.variables(&again).map(|read| read.into_iter().collect::<BTreeMap<_, _>>());
            let escapes_itself = read.values().any(|value| value.to_string().contains('%'));
            prop_assert!(escapes_itself || second == Some(read), "{} {} {}", text, uri, again);
        }
    }

    #[test]
    fn no_text_and_no_uri_panics(text in "[a-z:/{}+#./;?&,*%0-9]{0,24}", uri in "[a-z:/+#.;?&,%0-9]{0,24}") {
        if let Ok(template) = parse(&text) {
            drop(template.variables(&uri));
        }
    }
}
