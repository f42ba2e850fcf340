//! The report as SARIF 2.1.0, for the tools that collect findings.

use serde_json::{Value, json};

use super::{Report, Row, Verdict};

impl Report {
    /// The report as a SARIF 2.1.0 log with one run: a rule and a result for each row.
    ///
    /// Unsafe rows are of the kind `fail` and the level `error`. The others have the kinds `open` (unknown), `pass` and `notApplicable`,
    /// whose level is `none`, as the standard wants it.
    #[must_use]
    pub fn to_sarif(&self) -> Value {
        let rules: Vec<Value> = self.rows.iter().map(rule).collect();
        let results = self.rows.iter().enumerate();
        let results: Vec<Value> = results
            .map(|(index, row)| self.result(index, row))
            .collect();
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "mrtr-probe",
                    "version": self.version,
                    "informationUri": env!("CARGO_PKG_REPOSITORY"),
                    "rules": rules,
                } },
                "invocations": [{ "executionSuccessful": true }],
                "results": results,
                "properties": { "tool": self.tool, "requests": self.requests, "effectsCounted": self.effects_counted },
            }],
        })
    }

    fn result(&self, index: usize, row: &Row) -> Value {
        let (kind, level) = match row.verdict {
            Verdict::Unsafe => ("fail", "error"),
            Verdict::Unknown => ("open", "none"),
            Verdict::Safe => ("pass", "none"),
            Verdict::NotApplicable => ("notApplicable", "none"),
        };
        json!({
            "ruleId": row.id,
            "ruleIndex": index,
            "kind": kind,
            "level": level,
            "message": { "text": format!("{}: {}", row.title, row.note) },
            "locations": [{ "physicalLocation": { "artifactLocation": { "uri": self.url } } }],
            "properties": { "sent": row.sent, "received": row.received },
        })
    }
}

fn rule(row: &Row) -> Value {
    json!({
        "id": row.id,
        "shortDescription": { "text": row.title },
        "fullDescription": { "text": row.rule },
    })
}
