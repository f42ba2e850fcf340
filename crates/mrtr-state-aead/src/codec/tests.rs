use super::*;

#[test]
fn equal_kids_in_a_ring_are_refused() {
    let kid = |n| Kid::from_bytes([n; 8]);
    assert_eq!(distinct([kid(1), kid(2), kid(3)].into_iter()), Ok(()));
    assert_eq!(
        distinct([kid(1), kid(2), kid(1)].into_iter()),
        Err(KeyError::Duplicate)
    );
}
