use std::collections::BTreeMap;

use serde::Serialize;

use super::*;

#[derive(Serialize)]
enum Variants {
    Newtype(f64),
    Tuple(u8, f64),
    Struct { x: f64 },
}

#[derive(Serialize)]
struct Newtype(f64);

#[derive(Serialize)]
struct Tuple(u8, f64);

#[derive(Serialize)]
struct Named {
    x: Option<f64>,
}

#[test]
fn numbers_that_are_not_finite_are_refused_wherever_they_are() {
    fn check(expected: &str, with: impl Fn(f64) -> Result<Box<RawValue>, DataError>) {
        assert_eq!(with(1.5).unwrap().get(), expected);
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = with(number).unwrap_err();
            assert!(matches!(refused, DataError::NotFinite), "{refused:?}");
        }
    }

    check("1.5", |x| to_raw_value(&x));
    check("1.5", |x| to_raw_value(&Newtype(x)));
    check("[0,1.5]", |x| to_raw_value(&Tuple(0, x)));
    check("[0,1.5]", |x| to_raw_value(&(0, x)));
    check("[1.5]", |x| to_raw_value(&vec![x]));
    check("[1.5]", |x| to_raw_value(&[x]));
    check(r#"{"x":1.5}"#, |x| to_raw_value(&Named { x: Some(x) }));
    check(r#"{"x":1.5}"#, |x| {
        to_raw_value(&BTreeMap::from([("x", x)]))
    });
    check(r#"{"Newtype":1.5}"#, |x| {
        to_raw_value(&Variants::Newtype(x))
    });
    check(r#"{"Tuple":[0,1.5]}"#, |x| {
        to_raw_value(&Variants::Tuple(0, x))
    });
    check(r#"{"Struct":{"x":1.5}}"#, |x| {
        to_raw_value(&Variants::Struct { x })
    });
}

#[test]
fn the_same_for_single_precision() {
    assert_eq!(to_raw_value(&1.5_f32).unwrap().get(), "1.5");
    for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(matches!(to_raw_value(&number), Err(DataError::NotFinite)));
    }
}

#[test]
fn other_values_pass_as_they_are() {
    assert_eq!(
        to_raw_value(&Named { x: None }).unwrap().get(),
        r#"{"x":null}"#
    );
    assert_eq!(to_raw_value("text").unwrap().get(), "\"text\"");
    let raw = RawValue::from_string("{\"n\": 1.00}".to_owned()).unwrap();
    assert_eq!(to_raw_value(&raw).unwrap().get(), raw.get());
    let value: serde_json::Value = serde_json::from_str("{\"n\":-0.5,\"m\":[7,null]}").unwrap();
    let back: serde_json::Value =
        serde_json::from_str(to_raw_value(&value).unwrap().get()).unwrap();
    assert_eq!(back, value);
}

#[test]
fn what_json_has_no_place_for_is_refused() {
    let refused = to_raw_value(&BTreeMap::from([((1, 2), 3)])).unwrap_err();
    assert!(matches!(refused, DataError::Json(_)), "{refused:?}");
}
