//! How a program has ended, as the `Status` on the error channel says.

use serde::Deserialize;

/// How much of a message is shown.
const LONGEST_MESSAGE: usize = 2000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The exit status.
    Exited(u8),
    /// It could not be started or watched. The message has no control characters.
    Failed(String),
    /// The reader of its output has gone.
    Unread,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    status: String,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Option<Vec<Cause>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

impl Outcome {
    pub(super) fn read(status: &[u8]) -> Result<Self, String> {
        let status: Status = serde_json::from_slice(status)
            .map_err(|error| format!("the status of the command is malformed: {error}"))?;
        match (status.status.as_str(), status.reason.as_str()) {
            ("Success", _) => Ok(Self::Exited(0)),
            (_, "NonZeroExitCode") => status.exit_code().map(Self::Exited),
            _ => Ok(Self::Failed(shown(&status.message))),
        }
    }
}

impl Status {
    fn exit_code(&self) -> Result<u8, String> {
        let causes = self.details.iter().flat_map(|details| details.causes.iter().flatten());
        let code = causes.filter(|cause| cause.reason == "ExitCode").find_map(|cause| cause.message.parse::<u8>().ok());
        code.filter(|code| *code != 0).ok_or_else(|| "the command failed with an exit status that is none".to_owned())
    }
}

fn shown(message: &str) -> String {
    let clean = |character: char| if character.is_control() { ' ' } else { character };
    let shown: String = message.trim().chars().take(LONGEST_MESSAGE).map(clean).collect();
    if shown.is_empty() { "no reason was given".to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Outcome, String> {
        Outcome::read(text.as_bytes())
    }

    #[test]
    fn the_exit_status_is_that_of_the_program() {
        let failure = |code: &str| {
            let causes = format!(r#"{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}"#);
            read(&format!(r#"{{"status":"Failure","reason":"NonZeroExitCode","details":{causes}}}"#))
        };
        assert_eq!(read(r#"{"metadata":{},"status":"Success"}"#), Ok(Outcome::Exited(0)));
        assert_eq!(failure("1"), Ok(Outcome::Exited(1)));
        assert_eq!(failure("137"), Ok(Outcome::Exited(137)));
        for lie in ["0", "-1", "256", "one", ""] {
            assert!(failure(lie).is_err(), "{lie}");
        }
    }

    #[test]
    fn a_program_that_cannot_start_has_a_reason() {
        let text =
            r#"{"status":"Failure","reason":"InternalError","message":"exec: \"portolan\": not found\u001b[2J"}"#;
        assert_eq!(read(text), Ok(Outcome::Failed("exec: \"portolan\": not found [2J".to_owned())));
        assert_eq!(read("{}"), Ok(Outcome::Failed("no reason was given".to_owned())));
        assert!(read("gone").is_err());
    }
}
