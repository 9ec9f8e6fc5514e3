//! Landlock for the web process: no file can be opened, no address bound or connected to, no process outside
//! signalled, whatever the rights of its user. What is open already stays usable.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr,
    RulesetError, Scope,
};

/// The newest one whose restrictions are asked for; an older kernel enforces those that it knows.
const NEWEST: ABI = ABI::V9;

/// Takes every right that Landlock knows from the calling thread and those that it starts from now on. Says
/// what the kernel makes of it.
pub fn allow_nothing() -> Result<String, RulesetError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::NotImplemented => "not in this kernel (5.13)".into(),
        LandlockStatus::NotEnabled => "not enabled on this host (lsm=landlock,…)".into(),
        LandlockStatus::Available { effective_abi, .. } => format!("ABI {}", effective_abi as i32),
    })
}
