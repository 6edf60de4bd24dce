//! Does the kernel say what the cluster asked?

use portolan_dataplane::{Change, Dataplane};
use serde::{Deserialize, Serialize};

use crate::table::Style;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyAnswer {
    pub mode: String,
    /// How many objects the plan wants.
    pub wanted: usize,
    pub differences: Vec<Difference>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Difference {
    pub object: String,
    /// `missing`, `superfluous` or `different`.
    pub kind: String,
    pub kernel: Option<String>,
    pub plan: Option<String>,
}

/// Puts the change that would mend the kernel into words.
pub fn verify_answer<D: Dataplane>(mode: &str, wanted: usize, mending: &Change<D>) -> VerifyAnswer {
    let text = |value: &D::Value| value.to_string().trim_start().trim_start_matches(": ").to_string();
    let missing = mending.added.iter().map(|(key, value)| {
        let held = mending.removed.get(key).map(text);
        let kind = if held.is_some() { "different" } else { "missing" };
        Difference { object: key.to_string(), kind: kind.into(), kernel: held, plan: Some(text(value)) }
    });
    let superfluous = mending.removed.iter().filter(|(key, _)| !mending.added.contains_key(key)).map(|(key, value)| {
        Difference { object: key.to_string(), kind: "superfluous".into(), kernel: Some(text(value)), plan: None }
    });
    VerifyAnswer { mode: mode.into(), wanted, differences: missing.chain(superfluous).collect() }
}

impl VerifyAnswer {
    pub fn agrees(&self) -> bool {
        self.differences.is_empty()
    }

    pub fn text(&self, style: Style) -> String {
        if self.agrees() {
            let verdict = format!("the kernel holds all {} objects of the plan, and no others", self.wanted);
            return style.green(&verdict) + "\n";
        }
        let lines: Vec<String> = self.differences.iter().map(Difference::text).collect();
        let count = self.differences.len();
        let heading = format!("{count} of the kernel's objects differ from the plan's {} ({})", self.wanted, self.mode);
        style.red(&heading) + "\n" + &lines.join("\n") + "\n"
    }
}

impl Difference {
    fn text(&self) -> String {
        let or_present = |value: &Option<String>| match value.as_deref() {
            None | Some("") => "present".to_string(),
            Some(value) => value.to_string(),
        };
        match self.kind.as_str() {
            "missing" => format!("  missing      {}: should be {}", self.object, or_present(&self.plan)),
            "superfluous" => format!("  superfluous  {}: is {}", self.object, or_present(&self.kernel)),
            _ => format!(
                "  different    {}: is {}, should be {}",
                self.object,
                or_present(&self.kernel),
                or_present(&self.plan)
            ),
        }
    }
}
