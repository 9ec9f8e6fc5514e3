//! Landlock for the web process and the recorder: no file can be opened but those of the recorder's folder,
//! no address bound or connected to, no process outside signalled, whatever the rights of their user. What is
//! open already stays usable.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};

/// The newest one whose restrictions are asked for; an older kernel enforces those that it knows.
const NEWEST: ABI = ABI::V9;

/// Takes every right that Landlock knows from the calling thread and those that it starts from now on. Says
/// what the kernel makes of it.
pub fn allow_nothing() -> Result<String, RulesetError> {
    restrict(None::<std::io::Stdin>)
}

/// The same, and what lies in this folder can be read, made, written and removed.
pub fn allow_folder(folder: impl AsFd) -> Result<String, RulesetError> {
    restrict(Some(folder))
}

fn restrict(folder: Option<impl AsFd>) -> Result<String, RulesetError> {
    let of_folder = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::MakeReg
        | AccessFs::RemoveFile;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(
            folder.into_iter().map(|folder| Ok::<_, RulesetError>(PathBeneath::new(folder, of_folder))),
        )?
        .restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::NotImplemented => "not in this kernel (5.13)".into(),
        LandlockStatus::NotEnabled => "not enabled on this host (lsm=landlock,…)".into(),
        LandlockStatus::Available { effective_abi, .. } => format!("ABI {}", effective_abi as i32),
    })
}
