//! Failures of commands: text for people, the exit code, the meaning of each code, and the conversion from each error of the
//! program.

use std::{fmt, process::ExitCode};

use crate::{
    administration::{
        ChangeError, LockError, ManagementError,
        apply::{ApplyError, StepError},
    },
    config::SettingsError,
    messaging::{ConnectError, PublishError, address::AddressError, consume::ConsumeError},
    plan::fingerprint::OtherPlan,
    shutdown::DrainOverrun,
    store::{FailureKind, StoreError},
    text::{error_chain, one_line},
    topology::route::RouteError,
};

/// A failure without a code of its own.
pub(crate) const FAILED: u8 = 1;
/// The command has worked, and has found something wrong: `verify`, `doctor`, `effect check`, `plan --check`, `status --check`,
/// `check --deny-warnings`.
pub(crate) const FINDINGS: u8 = 2;
/// Some steps of a plan were carried out; another `apply` continues.
pub(crate) const PARTLY: u8 = 3;
/// The command line cannot be understood.
pub(crate) const USAGE: u8 = 64;
/// The broker or the database is unavailable.
pub(crate) const UNAVAILABLE: u8 = 69;
/// A login or permission was refused.
pub(crate) const NOT_PERMITTED: u8 = 77;
/// Settings, topology or tables are wrong.
pub(crate) const CONFIGURATION: u8 = 78;
/// A second signal ended the program at once (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;

/// Exit codes and their meanings, for `--help` and docs/commands.md.
pub const fn exit_codes() -> [(u8, &'static str); 9] {
    [
        (0, "done"),
        (FAILED, "failed, refused, answered with no, or an invariant broke"),
        (FINDINGS, "found something: changes to make, errors, orders that are late"),
        (PARTLY, "partly applied: apply again to continue"),
        (USAGE, "the command line cannot be understood, or --yes is missing without a terminal"),
        (UNAVAILABLE, "broker or database unavailable"),
        (NOT_PERMITTED, "login refused, or a permission is missing"),
        (CONFIGURATION, "settings, topology or tables are wrong"),
        (INTERRUPTED, "interrupted twice"),
    ]
}

pub(crate) fn help() -> String {
    let code = |(code, means): &(u8, &str)| format!("\n  {code:>3}  {means}");
    format!("Exit codes:{}", exit_codes().iter().map(code).collect::<String>())
}

/// A failed command: the text to print, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: u8,
    /// The failure, its place and reason, and the next step.
    pub text: String,
}

impl Failure {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { code: FAILED, text: text.into() }
    }

    pub(crate) fn configuration(text: impl Into<String>) -> Self {
        Self { code: CONFIGURATION, text: text.into() }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: USAGE, text: text.into() }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Writes the error in one line: answers of broker and database may have names and texts from outside.
    fn of(code: u8, error: &dyn std::error::Error) -> Self {
        Self { code, text: one_line(error_chain(error)) }
    }

    /// Keeps the lines of an error whose text is ours.
    fn of_lines(code: u8, error: &dyn std::error::Error) -> Self {
        Self { code, text: error_chain(error) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::of_lines(CONFIGURATION, &error)
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        Self::of(CONFIGURATION, &error)
    }
}

impl From<RouteError> for Failure {
    fn from(error: RouteError) -> Self {
        Self::of(CONFIGURATION, &error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match error {
            ConnectError::Unreachable { .. }
            | ConnectError::Full { .. }
            | ConnectError::Silent { .. } => UNAVAILABLE,
            ConnectError::Login { .. } | ConnectError::NotAllowed { .. } => NOT_PERMITTED,
            ConnectError::NoVirtualHost { .. }
            | ConnectError::NotAmqp { .. }
            | ConnectError::OtherProduct { .. }
            | ConnectError::Tls { .. } => CONFIGURATION,
        };
        Self::of(code, &error)
    }
}

impl From<ManagementError> for Failure {
    fn from(error: ManagementError) -> Self {
        let code = match error {
            ManagementError::Unreachable { .. } | ManagementError::Silent { .. } => UNAVAILABLE,
            ManagementError::NotPermitted { .. } => NOT_PERMITTED,
            ManagementError::NoVirtualHost { .. }
            | ManagementError::OnlyByAmqp { .. }
            | ManagementError::OtherVirtualHost { .. }
            | ManagementError::OtherProduct { .. }
            | ManagementError::NotFound { .. }
            | ManagementError::NoExchangeType { .. } => CONFIGURATION,
            ManagementError::Refused { .. } | ManagementError::Unnameable { .. } => FAILED,
        };
        Self::of(code, &error)
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::First(error) => error.into(),
            ApplyError::Refused(_) => Self::of_lines(FAILED, &error),
            ApplyError::Partly { .. } => Self::of(PARTLY, &error),
        }
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Management(error) => error.into(),
            StepError::Connect(error) => error.into(),
            StepError::Count(_) => Self::of(FAILED, &error),
            StepError::LockLost(_) => Self::of(UNAVAILABLE, &error),
        }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Lock(error) => error.into(),
            ChangeError::Observe(error) => error.into(),
            ChangeError::Apply(error) => error.into(),
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Connect(error) => error.into(),
            LockError::NotPermitted { .. } => Self::of(NOT_PERMITTED, &error),
            LockError::Taken { .. } => Self::of(FAILED, &error),
            LockError::Failed { .. } => Self::of(UNAVAILABLE, &error),
        }
    }
}

impl From<ConsumeError> for Failure {
    fn from(error: ConsumeError) -> Self {
        let refused = matches!(error, ConsumeError::Refused { .. });
        Self::of(if refused { NOT_PERMITTED } else { UNAVAILABLE }, &error)
    }
}

impl From<OtherPlan> for Failure {
    fn from(error: OtherPlan) -> Self {
        Self::of(FAILED, &error)
    }
}

impl From<DrainOverrun> for Failure {
    fn from(error: DrainOverrun) -> Self {
        Self::of(FAILED, &error)
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        let code = match error {
            PublishError::Returned { .. }
            | PublishError::Refused { .. }
            | PublishError::Unencodable { .. } => FAILED,
            PublishError::NoExchange { .. } => CONFIGURATION,
            PublishError::NotPermitted { .. } | PublishError::RoutingKeyNotPermitted { .. } => {
                NOT_PERMITTED
            }
            PublishError::Blocked { .. }
            | PublishError::Unknown { .. }
            | PublishError::Disconnected { .. } => UNAVAILABLE,
        };
        Self::of(code, &error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error.kind() {
            FailureKind::Configuration if error.is_permission() => NOT_PERMITTED,
            FailureKind::Configuration => CONFIGURATION,
            FailureKind::Unavailable | FailureKind::Overloaded => UNAVAILABLE,
            FailureKind::Contention | FailureKind::Row => FAILED,
        };
        let mut failure = Self::of(code, &error);
        if let Some(advice) = error.advice() {
            failure.text.push_str("; ");
            failure.text.push_str(advice);
        }
        failure
    }
}
