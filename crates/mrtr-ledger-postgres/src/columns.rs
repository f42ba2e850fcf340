//! What the tables' columns hold, and what that means.

use std::time::Duration;

use mrtr_ledger::rules::{Present, Row, Status};
use mrtr_ledger::{Account, Fingerprint, Kind, Token};
use mrtr_state::{Epoch, Timestamp};

use crate::books::Result;
use crate::fault::{Blob, Fault};

/// The clock as the database's numbers hold it, with room for any lease on top.
pub(crate) const LATEST: i64 = i64::MAX / 2;

/// A row, and whose it is.
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) row: Row,
    pub(crate) account: Account,
}

pub(crate) fn entry(row: &tokio_postgres::Row) -> Result<Entry> {
    let kind = match row.try_get::<_, i16>(0)? {
        0 => Kind::Round,
        1 => Kind::Step,
        2 => Kind::Note,
        _ => return Err(Fault::Corrupt),
    };
    let status = match row.try_get::<_, i16>(4)? {
        0 => Status::Owned {
            lease: time(row.try_get(6)?),
            again: row.try_get(5)?,
        },
        1 => Status::Released,
        2 => Status::Settled(row.try_get(7)?),
        3 => Status::Abandoned,
        _ => return Err(Fault::Corrupt),
    };
    Ok(Entry {
        kind,
        account: Account::from_bytes(bytes(row, 2)?),
        row: Row {
            fingerprint: Fingerprint::from_bytes(bytes(row, 1)?),
            token: Token::from_bytes(bytes(row, 3)?),
            status,
        },
    })
}

pub(crate) fn present(head: &tokio_postgres::Row, now: Timestamp) -> Result<Present> {
    Ok(Present {
        now,
        epoch: Epoch::from_bytes(bytes(head, 0)?),
        mark: head.try_get::<_, Option<i64>>(1)?.map(time),
    })
}

/// Status, lease, outcome, again.
pub(crate) fn columns(status: &Status) -> (i16, i64, Option<Blob<'_>>, bool) {
    match status {
        Status::Owned { lease, again } => (0, int(*lease), None, *again),
        Status::Released => (1, 0, None, false),
        Status::Settled(outcome) => (2, 0, Some(Blob(outcome)), false),
        Status::Abandoned => (3, 0, None, false),
    }
}

pub(crate) fn bytes<const N: usize>(row: &tokio_postgres::Row, column: usize) -> Result<[u8; N]> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().map_err(|_| Fault::Corrupt)
}

pub(crate) const fn number(kind: Kind) -> i16 {
    match kind {
        Kind::Round => 0,
        Kind::Step => 1,
        Kind::Note => 2,
    }
}

/// A column holds signed numbers, and no state expires after year 292,277,026.
pub(crate) fn int(time: Timestamp) -> i64 {
    signed(time.as_millis())
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(unsigned(millis))
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A time span, short enough to be added to a clock.
pub(crate) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis())
        .unwrap_or(i64::MAX)
        .min(LATEST)
}
