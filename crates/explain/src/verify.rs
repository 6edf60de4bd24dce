//! Does the kernel hold what the plan needs?

use portolan_dataplane::Difference as Repair;
use serde::{Deserialize, Serialize};

use crate::table::Style;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyAnswer {
    pub mode: String,
    /// How many objects the plan has.
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

/// Describes the repair that the kernel needs.
pub fn verify_answer(mode: &str, repair: &Repair) -> VerifyAnswer {
    let text = |value: &String| value.trim_start().trim_start_matches(": ").to_string();
    let differences = repair.objects.iter().map(|it| {
        let kind = match (&it.before, &it.after) {
            (None, _) => "missing",
            (Some(_), Some(_)) => "different",
            (Some(_), None) => "superfluous",
        };
        let (kernel, plan) = (it.before.as_ref().map(text), it.after.as_ref().map(text));
        Difference { object: it.object.clone(), kind: kind.into(), kernel, plan }
    });
    VerifyAnswer { mode: mode.into(), wanted: repair.wanted, differences: differences.collect() }
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
