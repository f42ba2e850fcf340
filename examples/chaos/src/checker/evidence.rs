//! A history, arranged so that it can be asked: whose row, which clock, what else was going on.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use crate::catalogue::Tool;
use crate::history::{Call, Cut, Got, History, Incident, Op, Sent, StateId, What};
use crate::server::account;
use crate::terms::{FLOW_LIFETIME, LEASE, LIFETIME, RETENTION, millis};
use crate::trace::{Answer, Effect, Kind, Millis, Process, Question, RowId};

/// A history from all sides.
#[derive(Debug)]
pub(crate) struct Evidence<'h> {
    pub(crate) history: &'h History,
    /// Calls by flow, in the order in which they were sent.
    flows: BTreeMap<u64, Vec<&'h Call>>,
    effects: HashMap<u64, Vec<&'h Effect>>,
    /// Questions to the ledger by row, and by flow and process, in the order in which they were asked.
    by_row: HashMap<RowId, Vec<&'h Op>>,
    by_flow: HashMap<(u64, Process), Vec<&'h Op>>,
    of_row: HashMap<RowId, u64>,
    /// When a process, or the ledger for it, was too slow for signs of life.
    slow: HashMap<Process, Vec<RangeInclusive<Millis>>>,
    /// How much further an *unknown* is looked into.
    pub(crate) patience: Cell<u32>,
    /// Those that had no word.
    silent: HashMap<Process, Vec<&'h Op>>,
    /// Which flow opened or answered what to get a state: the calls that may have sealed it.
    sealers: HashMap<StateId, (u64, Sent)>,
    /// How far each process's clock was off, and from when to when that may have been so.
    offsets: HashMap<Process, Vec<Offset>>,
}

#[derive(Clone, Copy, Debug)]
struct Offset {
    from: Millis,
    till: Millis,
    offset: i64,
}

impl<'h> Evidence<'h> {
    pub(crate) fn of(history: &'h History) -> Self {
        let mut evidence = Self {
            history,
            flows: BTreeMap::new(),
            effects: HashMap::new(),
            by_row: HashMap::new(),
            by_flow: HashMap::new(),
            of_row: HashMap::new(),
            slow: slow_times(&history.ops),
            patience: Cell::new(0),
            silent: HashMap::new(),
            sealers: HashMap::new(),
            offsets: offsets(&history.incidents),
        };
        for call in &history.calls {
            evidence.flows.entry(call.flow).or_default().push(call);
            if let Got::Asked { state, .. } = &call.got {
                evidence.sealers.insert(*state, (call.flow, call.sent));
            }
        }
        for calls in evidence.flows.values_mut() {
            calls.sort_by_key(|call| call.from);
        }
        for effect in &history.effects {
            evidence
                .effects
                .entry(effect.flow)
                .or_default()
                .push(effect);
        }
        evidence.arrange_ops();
        evidence
    }

    fn arrange_ops(&mut self) {
        let flows: HashMap<u64, u64> = self
            .history
            .errands
            .keys()
            .map(|flow| (account(*flow), *flow))
            .collect();
        for op in &self.history.ops {
            if let Question::Claim { row, account, .. } | Question::Keep { row, account, .. } =
                &op.question
                && let Some(flow) = flows.get(account)
            {
                self.of_row.insert(*row, *flow);
            }
        }
        for op in &self.history.ops {
            if matches!(&op.answered, Some((_, Answer::NoWord(_)))) {
                self.silent.entry(op.by).or_default().push(op);
            }
            let Some(row) = op.row() else { continue };
            self.by_row.entry(row).or_default().push(op);
            if let Some(flow) = self.of_row.get(&row) {
                self.by_flow.entry((*flow, op.by)).or_default().push(op);
            }
        }
        for ops in self.by_row.values_mut() {
            ops.sort_by_key(|op| op.asked);
        }
    }

    /// Each flow and its calls, in the order in which they were sent.
    pub(crate) fn flows(&self) -> impl Iterator<Item = (u64, &[&'h Call])> {
        self.flows
            .iter()
            .map(|(flow, calls)| (*flow, calls.as_slice()))
    }

    pub(crate) fn calls(&self, flow: u64) -> &[&'h Call] {
        self.flows.get(&flow).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn effects(&self, flow: u64) -> &[&'h Effect] {
        self.effects.get(&flow).map_or(&[], Vec::as_slice)
    }

    /// Every row that a flow has claimed.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, RowId)> {
        self.of_row.iter().map(|(row, flow)| (*flow, *row))
    }

    pub(crate) fn ops_on(&self, row: RowId) -> &[&'h Op] {
        self.by_row.get(&row).map_or(&[], Vec::as_slice)
    }

    /// When a process was slow, or the ledger let it wait.
    pub(crate) fn slow_times(&self, process: Process) -> &[RangeInclusive<Millis>] {
        self.slow.get(&process).map_or(&[], Vec::as_slice)
    }

    /// What a process asked of a flow's rows, as far as that overlaps these moments.
    pub(crate) fn ops_during(
        &self,
        flow: u64,
        by: Process,
        within: RangeInclusive<Millis>,
    ) -> Vec<&'h Op> {
        let ops = self.by_flow.get(&(flow, by));
        let ops = ops.into_iter().flatten().copied();
        ops.filter(|op| op.overlaps(&within)).collect()
    }

    /// Whether a process was without word from the ledger at some time in these moments.
    pub(crate) fn had_no_word(&self, by: Process, within: RangeInclusive<Millis>) -> bool {
        let ops = self.silent.get(&by).into_iter().flatten();
        ops.into_iter().any(|op| op.overlaps(&within))
    }

    /// Steps of a flow that its tool dropped half-way.
    pub(crate) fn cuts(&self, flow: u64) -> impl Iterator<Item = &'h Cut> {
        self.history.cuts.iter().filter(move |cut| cut.flow == flow)
    }

    /// Incidents of a kind.
    pub(crate) fn incidents(
        &self,
        of: impl Fn(What) -> bool,
    ) -> impl Iterator<Item = &'h Incident> {
        self.history
            .incidents
            .iter()
            .filter(move |incident| of(incident.what))
    }

    /// How a process ended, if it did.
    pub(crate) fn end_of(&self, process: Process) -> Option<&'h Incident> {
        let ended = [What::Killed(process), What::Stopped(process)];
        self.incidents(|what| ended.contains(&what)).next()
    }

    /// What a process's clock may have shown in these moments, at the least and at the most.
    pub(crate) fn shown(&self, by: Process, from: Millis, till: Millis) -> (Millis, Millis) {
        let offsets = self.offsets.get(&by).into_iter().flatten();
        let in_force = offsets.filter(|offset| offset.from <= till && from <= offset.till);
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for Offset { offset, .. } in in_force {
            (least, most) = (least.min(*offset), most.max(*offset));
        }
        if least > most {
            (least, most) = (0, 0);
        }
        (
            from.saturating_add_signed(least),
            till.saturating_add_signed(most),
        )
    }

    /// The latest that any clock has shown until a moment.
    pub(crate) fn furthest(&self, till: Millis) -> Millis {
        let offsets = self.offsets.values().flatten();
        offsets
            .filter(|offset| offset.from <= till)
            .map(|offset| offset.till.min(till).saturating_add_signed(offset.offset))
            .chain([till])
            .max()
            .unwrap_or(till)
    }

    /// When a state was sealed, by the clock of whoever sealed it: at the earliest and at the latest.
    pub(crate) fn sealed(&self, state: StateId) -> (Millis, Millis) {
        let Some((flow, sent)) = self.sealers.get(&state) else {
            return (0, Millis::MAX);
        };
        let first_seen = self.first_seen(state);
        // Whoever was asked for it before it was first seen: the response that it came with first may have been lost.
        let sealers = self
            .calls(*flow)
            .iter()
            .filter(|call| call.sent == *sent && call.from <= first_seen);
        let shown = sealers.map(|call| self.shown(call.to, call.from, first_seen));
        shown.fold((Millis::MAX, 0), |(least, most), (from, till)| {
            (least.min(from), most.max(till))
        })
    }

    /// When a state was first seen by a client.
    pub(crate) fn first_seen(&self, state: StateId) -> Millis {
        let calls = self.sealers.get(&state).map(|(flow, _)| self.calls(*flow));
        let seen =
            |call: &&&Call| matches!(&call.got, Got::Asked { state: got, .. } if *got == state);
        let seen = calls
            .into_iter()
            .flatten()
            .filter(seen)
            .map(|call| call.till);
        seen.min().unwrap_or(Millis::MAX)
    }

    /// The earliest moment at which a state may end, by the clock of whoever sealed it.
    pub(crate) fn ends(&self, state: StateId) -> Millis {
        let own = self.sealed(state).0.saturating_add(millis(LIFETIME));
        let flow = self.sealers.get(&state).map(|(flow, _)| *flow);
        own.min(flow.map_or(Millis::MAX, |flow| self.flow_ends(flow)))
    }

    /// The earliest moment at which a flow may end, by the clock of whoever opened it.
    fn flow_ends(&self, flow: u64) -> Millis {
        self.opening(flow).map_or(Millis::MAX, |call| {
            let (opened, _) = self.shown(call.to, call.from, call.till);
            opened.saturating_add(millis(FLOW_LIFETIME))
        })
    }

    /// Whether a flow may have been over by some clock until a moment.
    pub(crate) fn flow_may_be_over(&self, flow: u64, till: Millis) -> bool {
        self.furthest(till) >= self.flow_ends(flow)
    }

    /// Whether a state may have been over for a process at some time in these moments: by its own clock, or because what
    /// expires later was removed for having been expired for so long.
    pub(crate) fn may_have_expired(
        &self,
        state: StateId,
        by: Process,
        from: Millis,
        till: Millis,
    ) -> bool {
        let (_, shown) = self.shown(by, from, till);
        shown.max(till) >= self.ends(state) || self.may_have_been_removed(state, till)
    }

    /// Whether what became of a state may have been removed: it had been over for a retention by some clock.
    pub(crate) fn may_have_been_removed(&self, state: StateId, till: Millis) -> bool {
        self.furthest(till) > self.ends(state).saturating_add(millis(RETENTION))
    }

    /// Whether a step or note of a flow was refused for having come too late, and rightly: what a run says then is kept, and
    /// told again by servers whose clocks are right.
    pub(crate) fn came_too_late(&self, flow: u64, till: Millis) -> bool {
        let ops = self.by_flow.iter().filter(|((of, _), _)| *of == flow);
        let mut ops = ops.flat_map(|(_, ops)| ops);
        ops.any(|op| {
            let is_round = matches!(
                op.question,
                Question::Claim {
                    kind: Kind::Round,
                    ..
                }
            );
            !is_round && op.till() <= till && self.is_rightly_late(op) == Some(true)
        })
    }

    /// Whether an operation that was told that its row has expired was told so rightly; `None` where it was told
    /// something else.
    pub(crate) fn is_rightly_late(&self, op: &Op) -> Option<bool> {
        let RowId(expiry, _) = op.row()?;
        let late = op.answer() == Some(&Answer::Expired);
        late.then(|| {
            let (_, shown) = self.shown(op.by, op.asked, op.till());
            let removed = expiry.saturating_add(millis(RETENTION));
            shown.max(op.till()) >= expiry || self.furthest(op.till()) > removed
        })
    }

    /// The flow whose row an operation is about.
    pub(crate) fn flow_of(&self, op: &Op) -> Option<u64> {
        self.of_row.get(&op.row()?).copied()
    }

    /// Which tool a flow calls.
    pub(crate) fn tool(&self, flow: u64) -> Option<Tool> {
        self.history.errands.get(&flow).map(|errand| errand.tool)
    }

    /// The call that opened a flow.
    pub(crate) fn opening(&self, flow: u64) -> Option<&'h Call> {
        let calls = self.calls(flow).iter();
        calls.copied().find(|call| call.sent == Sent::Opening)
    }
}

impl Op {
    /// The row that it is about.
    pub(crate) fn row(&self) -> Option<RowId> {
        match &self.question {
            Question::Claim { row, .. }
            | Question::Settle { row, .. }
            | Question::Beat { row, .. }
            | Question::Release { row, .. }
            | Question::Keep { row, .. }
            | Question::Lookup { row, .. } => Some(*row),
            Question::Purge | Question::Epoch => None,
        }
    }

    /// The answer, if there was one.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// When it was over, as far as its process lived to see that.
    pub(crate) fn till(&self) -> Millis {
        self.answered.as_ref().map_or(Millis::MAX, |(at, _)| *at)
    }

    fn overlaps(&self, within: &RangeInclusive<Millis>) -> bool {
        self.asked <= *within.end() && *within.start() <= self.till()
    }
}

/// When the ledger let a process wait for long, or the process was not heard of for as long. A server asks its ledger for
/// something several times a second.
fn slow_times(ops: &[Op]) -> HashMap<Process, Vec<RangeInclusive<Millis>>> {
    let long = millis(LEASE) / 2;
    let mut slow: HashMap<Process, Vec<RangeInclusive<Millis>>> = HashMap::new();
    let mut heard: HashMap<Process, Vec<Millis>> = HashMap::new();
    for op in ops {
        if op.till().saturating_sub(op.asked) >= long {
            slow.entry(op.by).or_default().push(op.asked..=op.till());
        }
        heard
            .entry(op.by)
            .or_default()
            .extend([op.asked, op.till()]);
    }
    for (process, mut moments) in heard {
        moments.sort_unstable();
        for pair in moments.windows(2) {
            if let [one, next] = pair
                && next - one >= long
            {
                slow.entry(process).or_default().push(*one..=*next);
            }
        }
        // Before it was first heard of, and after it was last.
        if let (Some(first), Some(last)) = (moments.first(), moments.last()) {
            let unheard = [0..=*first, *last..=Millis::MAX];
            slow.entry(process).or_default().extend(unheard);
        }
    }
    slow
}

/// Each process's clock: right at first, then as it was set, until it ended. A setting takes effect between its two moments.
fn offsets(incidents: &[Incident]) -> HashMap<Process, Vec<Offset>> {
    let mut offsets: HashMap<Process, Vec<Offset>> = HashMap::new();
    let mut incidents: Vec<&Incident> = incidents.iter().collect();
    incidents.sort_by_key(|incident| incident.till);
    for incident in incidents {
        let (process, offset) = match incident.what {
            What::Started(process) => (process, Some(0)),
            What::Clock(process, offset) => (process, Some(offset)),
            What::Killed(process) | What::Stopped(process) => (process, None),
            What::Paused(_) | What::Silenced | What::Severed | What::Rotated => continue,
        };
        let so_far = offsets.entry(process).or_default();
        if let Some(last) = so_far.last_mut() {
            last.till = incident.till;
        }
        so_far.extend(offset.map(|offset| Offset {
            from: incident.from,
            till: Millis::MAX,
            offset,
        }));
    }
    offsets
}
